import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { before, describe, it } from 'node:test';
import * as z from 'zod';
import { EngineArtifact } from '../../src/embedded/artifact.js';
import { GoOpa } from '../../src/embedded/go/go-opa.js';
import { repoRoot } from '../support/repo.js';
import { type ConformanceCase, readCases } from './cases.js';
import { type Answered, answerCases, type LoadedCase } from './hybrid.js';
import { fault } from './judge.js';
import { CASE_NUMBER, withOwnRoots } from './own-roots.js';
import { REFUSED } from './refused-cases.js';
import { REGRESSIONS } from './regressions.js';

/** Set to write {@link withGo} anew instead of comparing. */
const REWRITE = process.env.SYNC_TEST_WRITE_CONFORMANCE === '1';
const FILE = join(repoRoot(), 'test', 'conformance', 'with-go.json');
/** In the long form each case is a policy of its own, as OPA has it; else many share one. */
const TOGETHER = process.env.SYNC_TEST_LONG === '1' ? 1 : 50;
/** What changes from run to run: the place, and which of several keys is named. */
const VARYING = /^test-\d+\.rego:\d+: | "[^"]*"$/g;

/** The cases that Go answers, by reason. */
function withGo(): Record<string, string[]> {
  return z.record(z.string(), z.array(z.string())).parse(JSON.parse(readFileSync(FILE, 'utf8')));
}

describe("OPA's own cases", () => {
  const cases = [...readCases().cases, ...REGRESSIONS];
  let answered = 0;
  const faults: string[] = [];
  const differences: string[] = [];
  const byGo = new Map<string, string>();

  before(async () => {
    const host = { fetch: () => Promise.reject(new Error('there is no network in this test')) };
    const go = await GoOpa.start({ program: await new EngineArtifact().load(), host });
    const ids = idsOf(cases);
    for (const group of groupsOf(cases, ids)) {
      const answers = await answerCases(
        go,
        group.map(({ loaded }) => loaded),
      );
      for (const [at, answer] of answers.entries()) note(group[at]?.index ?? -1, answer);
    }
    await go.abort();

    function note(index: number, answer: Answered): void {
      const [one, id = ''] = [cases[index], ids[index]];
      assert(one !== undefined);
      answered++;
      const wrong = REFUSED[id] === undefined ? fault(one, answer.outcome) : faultOfRefused(one, id, answer);
      if (wrong !== undefined) faults.push(`${id} (${answer.by}): ${wrong}`);
      if (answer.by === 'go') byGo.set(id, (answer.reason ?? '').replace(CASE_NUMBER, '').replace(VARYING, ''));
      if (answer.go !== undefined && JSON.stringify(answer.go) !== JSON.stringify(answer.outcome))
        differences.push(`${id}: ${JSON.stringify(answer.outcome)} instead of ${JSON.stringify(answer.go)}`);
    }
  });

  it('each answer is what OPA expects, or the case is refused by name', () => {
    assert.equal(answered, cases.length);
    assert.deepEqual(faults, []);
  });

  it("what is compiled answers with exactly Go's bytes", () => assert.deepEqual(differences, []));

  it('the page of the cases that Go answers is true', () => {
    if (REWRITE) write(byGo);
    const listed = Object.entries(withGo()).flatMap(([reason, names]) => names.map((name) => [name, reason] as const));
    const advice = 'SYNC_TEST_WRITE_CONFORMANCE=1 npm test -- conformance/suite writes the list, npm run docs the page';
    assert.deepEqual(Object.fromEntries(listed.sort()), Object.fromEntries([...byGo].sort()), advice);
  });
});

interface Grouped {
  readonly index: number;
  readonly loaded: LoadedCase;
}

/** The cases as they are loaded: together with others, or alone, as those that are refused then. */
function groupsOf(cases: readonly ConformanceCase[], ids: readonly string[]): Grouped[][] {
  const groups: Grouped[][] = [];
  let open: Grouped[] = [];
  for (const [index, one] of cases.entries()) {
    const isAlone = TOGETHER === 1 || REFUSED[ids[index] ?? ''] !== undefined;
    const moved = isAlone ? undefined : withOwnRoots(one, index);
    if (moved === undefined) groups.push([{ index, loaded: { one, folder: '' } }]);
    else if (open.push({ index, loaded: { one: moved, folder: `case${index}/` } }) === 1) groups.push(open);
    if (open.length === TOGETHER) open = [];
  }
  return groups;
}

/** Notes are not unique in the suite: a repeated one gets a number. */
function idsOf(cases: readonly ConformanceCase[]): string[] {
  const seen = new Map<string, number>();
  return cases.map(({ note }) => {
    const count = (seen.get(note) ?? 0) + 1;
    seen.set(note, count);
    return count === 1 ? note : `${note} #${count}`;
  });
}

/** A case that is not for this engine fails, and says what is expected of it. */
function faultOfRefused(one: ConformanceCase, id: string, { outcome }: Answered): string | undefined {
  if (fault(one, outcome) === undefined) return 'passes, but is listed as refused';
  const said = JSON.stringify(outcome).replaceAll('\\"', '"');
  return REFUSED[id]?.says.test(said) === true ? undefined : `says ${said}`;
}

function write(byGo: ReadonlyMap<string, string>): void {
  const all = new Map<string, string[]>();
  for (const [name, reason] of byGo) all.set(reason, [...(all.get(reason) ?? []), name]);
  const sorted = [...all].map(([reason, names]) => [reason, names.sort()] as const).sort();
  writeFileSync(FILE, `${JSON.stringify(Object.fromEntries(sorted), null, 2)}\n`);
}
