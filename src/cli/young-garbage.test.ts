import assert from 'node:assert/strict';
import { it } from 'node:test';
import { until } from '../../test/support/until.js';
import { youngGarbageCollector } from './young-garbage.js';

it('frees buffers that nobody holds any more, and shows the program no more than it had', async () => {
  const collect = youngGarbageCollector();
  collect();
  const before = process.memoryUsage().arrayBuffers;
  for (let n = 0; n < 100; n++) Buffer.allocUnsafeSlow(100_000).fill(n);
  const held = process.memoryUsage().arrayBuffers - before;
  assert(held >= 9_000_000, `${held} bytes wait for a collection`);
  collect();
  // Another thread frees what the collection found.
  const isFreed = (): boolean => process.memoryUsage().arrayBuffers - before < 1_000_000;
  await until(isFreed, { withinMs: 20_000, what: 'they are freed' });
  assert.equal(globalThis.gc, undefined);
});
