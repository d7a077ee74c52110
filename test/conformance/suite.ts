import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import * as z from 'zod';
import { EngineArtifact } from '../../src/embedded/artifact.js';
import { GoOpa } from '../../src/embedded/go/go-opa.js';
import { repoRoot } from '../support/repo.js';
import { type ConformanceCase, readCases } from './cases.js';
import { type Answered, answerCase } from './hybrid.js';
import { fault } from './judge.js';
import { REFUSED } from './refused-cases.js';

/** Set to write {@link withGo} anew instead of comparing. */
const REWRITE = process.env.SYNC_TEST_WRITE_CONFORMANCE === '1';
const FILE = join(repoRoot(), 'test', 'conformance', 'with-go.json');
/** What changes from run to run: the place, and which of several keys is named. */
const VARYING = /^test-\d+\.rego:\d+: | "[^"]*"$/g;

/** The cases that Go answers, by reason. */
function withGo(): Record<string, string[]> {
  return z.record(z.string(), z.array(z.string())).parse(JSON.parse(readFileSync(FILE, 'utf8')));
}

/** Registers the tests of every second case, from `part` (0 or 1) on: two files share the suite, and so the processors. */
export function describeSuite(part: 0 | 1): void {
  describe(`OPA's own cases, part ${part + 1} of 2`, () => {
    const { cases } = readCases();
    const ids = idsOf(cases);
    const mine = cases.flatMap((one, i) => (i % 2 === part ? [{ one, id: ids[i] ?? '' }] : []));
    const faults: string[] = [];
    const differences: string[] = [];
    const byGo = new Map<string, string>();
    let go: GoOpa;

    before(async () => {
      const host = { fetch: () => Promise.reject(new Error('there is no network in this test')) };
      go = await GoOpa.start({ program: await new EngineArtifact().load(), host });
      for (const { one, id } of mine) {
        const answered = await answerCase(go, one);
        const wrong = REFUSED[id] === undefined ? fault(one, answered.outcome) : faultOfRefused(one, id, answered);
        if (wrong !== undefined) faults.push(`${id} (${answered.by}): ${wrong}`);
        if (answered.by === 'go') byGo.set(id, (answered.reason ?? '').replace(VARYING, ''));
        if (answered.go !== undefined && JSON.stringify(answered.go) !== JSON.stringify(answered.outcome))
          differences.push(`${id}: ${JSON.stringify(answered.outcome)} instead of ${JSON.stringify(answered.go)}`);
      }
    });
    after(() => go.abort());

    it('each answer is what OPA expects, or the case is refused by name', () => assert.deepEqual(faults, []));

    it("what is compiled answers with exactly Go's bytes", () => assert.deepEqual(differences, []));

    it('the page of the cases that Go answers is true', () => {
      if (REWRITE) write(new Set(mine.map(({ id }) => id)), byGo);
      const here = new Set(mine.map(({ id }) => id));
      const listed = Object.entries(withGo()).flatMap(([reason, names]) =>
        names.filter((name) => here.has(name)).map((name) => [name, reason] as const),
      );
      const advice =
        'SYNC_TEST_WRITE_CONFORMANCE=1 npm test -- conformance/suite writes the list, npm run docs the page';
      assert.deepEqual(Object.fromEntries(listed.sort()), Object.fromEntries([...byGo].sort()), advice);
    });
  });
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

function write(here: ReadonlySet<string>, byGo: ReadonlyMap<string, string>): void {
  const all = new Map<string, string[]>();
  const add = (reason: string, name: string): void => {
    all.set(reason, [...(all.get(reason) ?? []), name]);
  };
  for (const [reason, names] of Object.entries(withGo())) {
    for (const name of names) if (!here.has(name)) add(reason, name);
  }
  for (const [name, reason] of byGo) add(reason, name);
  const sorted = [...all].map(([reason, names]) => [reason, names.sort()] as const).sort();
  writeFileSync(FILE, `${JSON.stringify(Object.fromEntries(sorted), null, 2)}\n`);
}
