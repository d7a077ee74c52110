import assert from 'node:assert/strict';
import { it } from 'node:test';
import { CheckEngine, composeData } from '../../src/checker/check-engine.js';
import { compilerCheck } from '../../src/client/engine/opa/external-engine.js';
import { EngineRefusal } from '../../src/embedded/vocabulary.js';
import { startEngine } from '../support/engine.js';
import { policy } from '../support/layers.js';
import { startOpa } from '../support/opa.js';

const { signal } = new AbortController();
const check = (modules: Record<string, string>): Promise<void> =>
  compilerCheck('auto', process.env)(policy('c', modules).set, [], signal);

it('the compiler of the package judges a whole policy, and leaves functions that it does not know to the engine', async () => {
  const two = 'package lib\n\nf(x, y) := x + y\n';
  const [, refusal] = await Promise.all([
    check({ 'lib.rego': two, 'app.rego': 'package app\n\nx := data.lib.f(1, 2) + company.secret(1)\n' }),
    check({ 'lib.rego': two, 'app.rego': 'package app\n\nx := data.lib.f(1)\n' }).catch((error: unknown) => error),
  ]);
  assert(refusal instanceof EngineRefusal);
  const [problem] = refusal.problems;
  assert.deepEqual([problem?.file, problem?.row], ['app.rego', 3]);
});

function lib(args: string): string {
  return `package lib\n\nf(${args}) := x\n`;
}

function app(args: string): string {
  return `package app\n\nimport data.lib\n\ny := lib.f(${args})\n`;
}

/** One commit after the other. */
const COMMITS: { what: string; modules: Record<string, string> }[] = [
  { what: 'a function and its caller', modules: { 'lib.rego': lib('x'), 'app.rego': app('1') } },
  { what: 'both of them changed', modules: { 'lib.rego': lib('x, _'), 'app.rego': app('1, 2') } },
  { what: 'the caller alone', modules: { 'lib.rego': lib('x, _'), 'app.rego': app('1') } },
  { what: 'the function alone', modules: { 'lib.rego': lib('x'), 'app.rego': app('1, 2') } },
  { what: 'no function', modules: { 'app.rego': app('1') } },
  {
    what: 'modules that call each other',
    modules: {
      'a.rego': 'package a\n\nf(x) := x\n\ny := data.b.g(1)\n',
      'b.rego': 'package b\n\ng(x) := data.a.f(x)\n',
    },
  },
  {
    what: 'names of each other',
    modules: { 'a.rego': 'package p\n\nx := 1\n\nz := y\n', 'b.rego': 'package p\n\ny := x\n' },
  },
  {
    what: 'a rule that reads itself',
    modules: { 'a.rego': 'package p\n\nx := y\n', 'b.rego': 'package p\n\ny := x\n' },
  },
  {
    what: 'another kind of rule',
    modules: { 'a.rego': 'package p\n\nx contains 1\n', 'b.rego': 'package p\n\ny := x\n' },
  },
  {
    what: 'two kinds of one rule',
    modules: { 'a.rego': 'package p\n\nx contains 1\n', 'b.rego': 'package p\n\nx := 1\n' },
  },
];

it('policysync check says of each commit what an external engine does with it, whatever that holds', async () => {
  await using opa = await startOpa();
  await using engine = await startEngine({ externalUrl: opa.url });
  await using compiler = await CheckEngine.start('auto', process.env);
  const verdicts: Record<string, [checked: boolean, applied: boolean]> = {};
  for (const [index, { what, modules }] of COMMITS.entries()) {
    const { set, statics } = policy(`c${index}`, modules);
    const files = Object.entries(modules).map(([path, text]) => ({ path, text }));
    const { problems } = await compiler.compile(files, composeData([]));
    const applied = await engine.keeper
      .exclusive((step) => engine.applier.applyPolicy(set, statics, step))
      .then(() => true)
      .catch((error: unknown) => {
        if (error instanceof EngineRefusal) return false;
        throw error;
      });
    verdicts[what] = [problems.length === 0, applied];
  }
  const isGood = (what: string): boolean =>
    ![
      'the caller alone',
      'the function alone',
      'no function',
      'a rule that reads itself',
      'two kinds of one rule',
    ].includes(what);
  assert.deepEqual(verdicts, Object.fromEntries(COMMITS.map(({ what }) => [what, [isGood(what), isGood(what)]])));
});
