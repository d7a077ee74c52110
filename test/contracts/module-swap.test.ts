import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import fc from 'fast-check';
import type { Modules } from '../../src/client/engine/modules/module-graph.js';
import { swapModules } from '../../src/client/engine/modules/module-swap.js';
import { OpaRest } from '../../src/client/engine/opa/opa-rest.js';
import { EngineRefusal } from '../../src/embedded/vocabulary.js';
import { startOpa, type TestOpa } from '../support/opa.js';

/** Sets of modules in a real OPA, which takes them one by one: what it answers after each step. */

const never = new AbortController().signal;
let opa: TestOpa;
let rest: OpaRest;

/** The answer to a question, as text; `error` where OPA answers 500. */
async function answerOf(path: string): Promise<string> {
  const response = await fetch(`${opa.url}/v1/data/${path}`, { method: 'POST', body: '{"input":{"user":"eve"}}' });
  if (response.status === 500) return 'error';
  assert.equal(response.status, 200, path);
  const { result } = (await response.json()) as { result?: unknown };
  return result === undefined ? 'undefined' : JSON.stringify(result);
}

async function answersOf(paths: readonly string[]): Promise<string[]> {
  return await Promise.all(paths.map(answerOf));
}

async function held(): Promise<Map<string, string>> {
  return new Map((await rest.listPolicies(never)).map(({ id, raw }) => [id, raw]));
}

interface Seen {
  /** Answers after each step, one list for each. */
  readonly steps: string[][];
  /** Ids that were put or removed, in order; with `!` where it was refused. */
  readonly changes: string[];
  isJudged: boolean;
}

/** Swaps, and asks after each step. */
async function swap(
  from: Modules,
  to: Modules,
  paths: readonly string[],
  judge = async () => undefined,
): Promise<Seen> {
  const seen: Seen = { steps: [], changes: [], isJudged: false };
  await swapModules(from, to, {
    change: async (id, rego) => {
      try {
        await (rego === undefined ? rest.deletePolicy(id, never) : rest.putPolicy(id, rego, never));
      } catch (error) {
        seen.changes.push(`${id}!`);
        throw error;
      }
      seen.changes.push(id);
      seen.steps.push(await answersOf(paths));
    },
    judge: async () => {
      seen.isJudged = true;
      await judge();
    },
  });
  return seen;
}

/** Brings OPA to a set, whatever it holds. */
async function bring(to: Modules): Promise<void> {
  await swap(await held(), to, []);
  assert.deepEqual([...(await held())].sort(), [...to].sort());
}

/** Fails for an answer that is neither that of the set before nor that of the new one, nor an error. */
async function assertWhole(from: Modules, to: Modules, paths: readonly string[]): Promise<Seen> {
  await bring(from);
  const old = await answersOf(paths);
  const seen = await swap(from, to, paths);
  const fresh = await answersOf(paths);
  assert(!fresh.includes('error'), String(fresh));
  assert.deepEqual([...(await held())].sort(), [...to].sort());
  for (const [index, answers] of seen.steps.entries()) {
    for (const [at, answer] of answers.entries()) {
      const isWhole = [old[at], fresh[at], 'error'].includes(answer);
      assert(
        isWhole,
        `${paths[at]} is ${answer} after step ${index + 1} (${seen.changes}), ${old[at]} before, ${fresh[at]} then`,
      );
    }
  }
  return seen;
}

const modules = (texts: Record<string, string>): Modules => new Map(Object.entries(texts));

const UNCHANGED = { 'other.rego': 'package other\n\nx := 1\n' };
const TABLE: { what: string; from: Record<string, string>; to: Record<string, string>; paths: string[] }[] = [
  {
    what: 'a function that gets another argument, and its caller',
    from: {
      'lib.rego': 'package lib\n\nok(user) if user == "ann"\n',
      'app.rego': 'package app\n\nimport data.lib\n\nallow if lib.ok(input.user)\n',
    },
    to: {
      'lib.rego': 'package lib\n\nok(user, level) if { user == "ann"; level > 1 }\n',
      'app.rego': 'package app\n\nimport data.lib\n\nallow if lib.ok(input.user, 2)\n',
    },
    paths: ['app/allow', 'app', 'lib'],
  },
  {
    what: 'the same within a package',
    from: {
      'a.rego': 'package app\n\ndefault allow := false\n\nallow if not banned(input.user)\n',
      'b.rego': 'package app\n\nbanned(user) if user == "eve"\n',
    },
    to: {
      'a.rego': 'package app\n\ndefault allow := false\n\nallow if not banned(input.user, 1)\n',
      'b.rego': 'package app\n\nbanned(user, _) if user == "eve"\n',
    },
    paths: ['app/allow', 'app'],
  },
  {
    what: 'a rule that moves to another file of its package',
    from: {
      'a.rego': 'package app\n\ndeny contains "eve" if input.user == "eve"\n\ndeny contains "a" if false\n',
      'b.rego': 'package app\n\ndeny contains "b" if false\n',
      'allow.rego': 'package gate\n\ndefault allow := false\n\nallow if count(data.app.deny) == 0\n',
    },
    to: {
      'a.rego': 'package app\n\ndeny contains "a" if false\n',
      'b.rego': 'package app\n\ndeny contains "b" if false\n\ndeny contains "eve" if input.user == "eve"\n',
      'allow.rego': 'package gate\n\ndefault allow := false\n\nallow if count(data.app.deny) == 0\n',
    },
    paths: ['app/deny', 'gate/allow', 'app'],
  },
  {
    what: 'a rule that moves to another package, seen by a module that stays',
    from: {
      'a.rego': 'package a\n\ndeny if input.user == "eve"\n',
      'b.rego': 'package b\n\nother if false\n',
      'allow.rego': 'package gate\n\ndefault allow := false\n\nallow if { not data.a.deny; not data.b.deny }\n',
    },
    to: {
      'a.rego': 'package a\n\nother if false\n',
      'b.rego': 'package b\n\ndeny if input.user == "eve"\n',
      'allow.rego': 'package gate\n\ndefault allow := false\n\nallow if { not data.a.deny; not data.b.deny }\n',
    },
    paths: ['gate/allow'],
  },
  {
    what: 'a rule that becomes one of another kind, in all files of its package',
    from: { 'a.rego': 'package app\n\nx := 1 if true\n', 'b.rego': 'package app\n\nx := 1 if false\n' },
    to: { 'a.rego': 'package app\n\nx contains 1\n', 'b.rego': 'package app\n\nx contains 2 if false\n' },
    paths: [],
  },
  {
    what: 'a file with another name',
    from: {
      'a.rego': 'package app\n\ndefault deny := true\n\ndeny := false if input.user == "ann"\n',
      'gate.rego': 'package gate\n\ndefault allow := false\n\nallow if not data.app.deny\n',
    },
    to: {
      'z.rego': 'package app\n\ndefault deny := true\n\ndeny := false if input.user == "ann"\n',
      'gate.rego': 'package gate\n\ndefault allow := false\n\nallow if not data.app.deny\n',
    },
    paths: ['gate/allow', 'app/deny'],
  },
  {
    what: 'modules that call each other',
    from: {
      'a.rego': 'package a\n\nf(x) := x\n\ny := data.b.g(1)\n',
      'b.rego': 'package b\n\ng(x) := data.a.f(x)\n',
    },
    to: {
      'a.rego': 'package a\n\nf(x, z) := x + z\n\ny := data.b.g(1, 1)\n',
      'b.rego': 'package b\n\ng(x, z) := data.a.f(x, z)\n',
    },
    paths: ['a/y', 'a', 'b'],
  },
  {
    what: 'a package that goes with the last call of it',
    from: {
      'lib.rego': 'package lib\n\nok(_) := true\n',
      'app.rego': 'package app\n\nallow if data.lib.ok(1)\n',
    },
    to: { 'app.rego': 'package app\n\nallow if true\n' },
    paths: ['app/allow'],
  },
];

describe('a set of modules takes the place of another', () => {
  before(async () => {
    opa = await startOpa();
    rest = new OpaRest({ url: opa.url, timeoutMs: 20_000 });
  });
  after(async () => {
    await rest?.close();
    await opa?.stop();
  });

  for (const { what, from, to, paths } of TABLE) {
    it(what, async () => {
      await assertWhole(modules({ ...UNCHANGED, ...from }), modules({ ...UNCHANGED, ...to }), [...paths, 'other/x']);
      await assertWhole(modules({ ...UNCHANGED, ...to }), modules({ ...UNCHANGED, ...from }), [...paths, 'other/x']);
    });
  }

  it('in one step each where no module depends on two that change', async () => {
    const of = (n: number): Modules =>
      modules({
        'a.rego': `package a\n\nx := ${n}\n`,
        'b.rego': `package b\n\nx := ${n}\n`,
        'c.rego': 'package c\n\nx := data.a.x\n',
      });
    const seen = await assertWhole(of(1), of(2), ['a/x', 'b/x', 'c/x']);
    assert.deepEqual([seen.changes, seen.isJudged], [['a.rego', 'b.rego'], false]);
    assert(!seen.steps.flat().includes('error'));
  });

  it('not where it is refused as a whole: nothing has changed then', async () => {
    const [first] = TABLE;
    assert(first !== undefined);
    await bring(modules(first.from));
    const judge = (): Promise<never> => Promise.reject(new EngineRefusal('no', []));
    await assert.rejects(swap(modules(first.from), modules(first.to), [], judge), { message: 'no' });
    assert.deepEqual(await held(), modules(first.from));
  });

  it('not where a document is in its way: nothing is closed for that', async () => {
    await bring(modules(UNCHANGED));
    await rest.write([{ op: 'put', path: ['app', 'x'], text: () => '1' }], never);
    let isJudged = false;
    const judge = async (): Promise<undefined> => {
      isJudged = true;
      return undefined;
    };
    const to = modules({ 'other.rego': 'package other\n\nx := 2\n', 'app.rego': 'package app\n\nx := 1\n' });
    await assert.rejects(swap(modules(UNCHANGED), to, [], judge), (error) => {
      return error instanceof EngineRefusal && error.problems[0]?.conflictPath?.join('/') === 'app/x';
    });
    assert.equal(isJudged, false);
    await rest.write([{ op: 'remove', path: ['app'] }], never);
    await bring(modules(UNCHANGED));
  });

  it('not where the engine refuses it: the former set is whole again with a swap back', async () => {
    const [first] = TABLE;
    assert(first !== undefined);
    await bring(modules(first.from));
    const to = modules({ ...first.to, 'bad.rego': 'package bad\n\nx := data.lib.ok(1)\n' });
    await assert.rejects(swap(modules(first.from), to, ['app/allow']), EngineRefusal);
    await bring(modules(first.from));
  });

  it('whatever changes together, no answer is one of a mixture', async () => {
    const paths = [0, 1, 2].flatMap((place) => [
      `p${place}`,
      `p${place}/all`,
      ...Array.from({ length: DEFS / 2 }, (_, n) => `p${place}/d${2 * n}`),
    ]);
    await fc.assert(
      fc.asyncProperty(plan(), async (drawn) => {
        await assertWhole(texts(drawn, false), texts(drawn, true), paths);
      }),
      { numRuns: 25 },
    );
  });
});

/** Files of a policy, each with rules and functions that read those before them: in other files, too, also both ways. */
interface Plan {
  readonly files: readonly { readonly place: number; readonly version: number; readonly has: boolean }[];
  readonly edges: readonly number[];
}

const FILES = 5;
const DEFS = 8;

function plan(): fc.Arbitrary<Plan> {
  return fc.record({
    files: fc.array(
      fc.record({ place: fc.integer({ min: 0, max: 2 }), version: fc.integer({ min: 0, max: 2 }), has: fc.boolean() }),
      { minLength: FILES, maxLength: FILES },
    ),
    edges: fc.array(fc.integer({ min: 0, max: DEFS - 1 }), { minLength: DEFS, maxLength: DEFS }),
  });
}

/** Definition n is in file n % FILES: a rule where n is even, else a function. `moved`: the files that are of their other version. */
function texts({ files, edges }: Plan, moved: boolean): Modules {
  const found = new Map<string, string>();
  const versionOf = (file: number): number => (moved ? (files[file]?.version ?? 0) : 0);
  // A function has as many arguments as the version of its file says.
  const call = (n: number, from: number): string => {
    const [own, other] = [from % FILES, n % FILES];
    const place = files[other]?.place ?? 0;
    const name = place === files[own]?.place ? `d${n}` : `data.p${place}.d${n}`;
    return n % 2 === 0
      ? name
      : `${name}(${Array(versionOf(other) + 1)
          .fill('0')
          .join(', ')})`;
  };
  for (const [index, { place, version, has }] of files.entries()) {
    // Some are new, some go.
    if (!has && version === 2 && moved) continue;
    const lines = [`package p${place}`, ''];
    for (let n = index; n < DEFS; n += FILES) {
      const needed = edges[n] ?? 0;
      const isThere = needed < n && (files[needed % FILES]?.has === true || files[needed % FILES]?.version !== 2);
      const value = `["d${n}", ${versionOf(index)}${isThere ? `, ${call(needed, n)}` : ''}]`;
      const parts = Array.from({ length: versionOf(index) + 1 }, (_, at) => `_a${at}`).map(() => '_');
      lines.push(n % 2 === 0 ? `d${n} := ${value}` : `d${n}(${parts.join(', ')}) := ${value}`, '');
    }
    lines.push(`all contains "${index}-${versionOf(index)}"`, '');
    found.set(`f${index}.rego`, lines.join('\n'));
  }
  return found;
}
