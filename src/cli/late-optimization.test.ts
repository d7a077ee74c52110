import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { it } from 'node:test';
import { optimizeLater } from './late-optimization.js';

/** The flags that were set for a version of V8, at the start and at its end. */
function flagsOf(v8Version: string): string[] {
  const flags: string[] = [];
  optimizeLater(v8Version, (flag) => flags.push(flag))();
  return flags;
}

it('has each version of V8 that it knows optimize later, then as before, and leaves others alone', () => {
  assert.deepEqual(flagsOf('11.3.244.8-node.38'), ['--interrupt-budget=600000', '--interrupt-budget=67584']);
  assert.deepEqual(flagsOf('12.4.254.21-node.33'), [
    '--invocation-count-for-turbofan=30000',
    '--invocation-count-for-turbofan=3000',
  ]);
  assert.deepEqual(flagsOf('13.6.233.10-node.27'), []);
  assert.deepEqual(flagsOf(''), []);
});

it('sets a flag that this Node has, and at the end what it had before', () => {
  const [, last] = flagsOf(process.versions.v8);
  if (last === undefined) return; // a V8 that is left alone
  const all = execFileSync(process.execPath, ['--v8-options'], { encoding: 'utf8' });
  assert(all.includes(`default: ${last}\n`), `${last} is no default of this Node`);
});
