import assert from 'node:assert/strict';
import { it } from 'node:test';
import { compilerCheck } from '../../src/client/engine/compiler-check.js';
import { EngineRefusal } from '../../src/client/engine/engine.js';
import { policy } from '../support/layers.js';

const { signal } = new AbortController();
const check = (modules: Record<string, string>): Promise<void> =>
  compilerCheck('auto', process.env)(policy('c', modules).set, [], signal);

it('the compiler of the package judges a whole policy, and leaves functions that it does not know to the engine', async () => {
  const lib = 'package lib\n\nf(x, y) := x + y\n';
  const [, refusal] = await Promise.all([
    check({ 'lib.rego': lib, 'app.rego': 'package app\n\nx := data.lib.f(1, 2) + company.secret(1)\n' }),
    check({ 'lib.rego': lib, 'app.rego': 'package app\n\nx := data.lib.f(1)\n' }).catch((error: unknown) => error),
  ]);
  assert(refusal instanceof EngineRefusal);
  const [problem] = refusal.problems;
  assert.deepEqual([problem?.file, problem?.row], ['app.rego', 3]);
});
