import assert from 'node:assert/strict';
import { test } from 'node:test';
import { probeWaitMs } from './engine-probe.js';

test('an engine that freezes right after a look is noticed within one interval, where the time-out leaves room', () => {
  const rows: [interval: number, timeout: number, wait: number][] = [
    [10_000, 2_000, 8_000],
    [10_000, 5_000, 5_000],
    [10_000, 9_000, 5_000],
    [1_000, 2_000, 500],
  ];
  for (const [probeIntervalMs, probeTimeoutMs, wait] of rows) {
    const waitMs = probeWaitMs({ probeIntervalMs, probeTimeoutMs });
    assert.equal(waitMs, wait);
    if (probeTimeoutMs <= probeIntervalMs / 2) assert(waitMs + probeTimeoutMs <= probeIntervalMs);
  }
});
