import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SyncError } from '../../lib/errors.js';
import { silentLogger } from '../../lib/observe/log.js';
import type { PolicyEngine } from '../engine/engine.js';
import { Status } from '../status/status.js';
import { EngineCopy } from './engine-copy.js';
import { EngineKeeper } from './engine-keeper.js';

/** Longer than any test: who waits out a back-off of this kind is found. */
const LONG = { minMs: 1e9, maxMs: 1e9 };

/**
 * An engine that holds a marker and can be switched off; switched on again it has forgotten
 * everything.
 */
function switchable(): { engine: PolicyEngine; fills: () => number; off(): void; on(): void; looks: () => number } {
  let [isOn, isMarked, fills, looks] = [true, false, 0, 0];
  const reached = async (): Promise<void> => {
    if (!isOn) throw new SyncError('engine_unreachable', 'it is off', { retryable: true });
  };
  return {
    engine: {
      policyMode: 'modules',
      reserved: [],
      occupied: [],
      marker: {
        begin: reached,
        isThere: async () => {
          looks++;
          await reached();
          return isMarked;
        },
        complete: async () => {
          await reached();
          isMarked = true;
          fills++;
        },
      },
      roots: () => [],
      check: reached,
      activate: reached,
      isGuarded: true,
      tidy: async () => [],
      write: reached,
      read: async () => '{}',
      writeReserved: reached,
      startAfresh: () => undefined,
    },
    fills: () => fills,
    looks: () => looks,
    off: () => {
      isOn = false;
      isMarked = false;
    },
    on: () => {
      isOn = true;
    },
  };
}

async function settled(condition: () => boolean, what: string): Promise<void> {
  const deadline = performance.now() + 10_000;
  while (!condition()) {
    assert(performance.now() < deadline, `not in time: ${what}`);
    await new Promise((resolve) => setImmediate(resolve));
  }
}

for (const when of ['at the start', 'later'] as const) {
  test(`an engine that was away ${when} is filled at the first look that succeeds, whatever the back-off`, async () => {
    const { engine, fills, looks, off, on } = switchable();
    const status = new Status({ policyEnabled: true, dataEnabled: true }, () => undefined);
    let [refilled, back] = [0, 0];
    const keeper = new EngineKeeper(
      { tellsStart: false, probeEnabled: true, probeIntervalMs: 20, probeTimeoutMs: 10, backoff: LONG },
      { engine, held: new EngineCopy(engine, { takesPolicy: false }), status, log: silentLogger() },
    );
    if (when === 'at the start') off();
    const stop = new AbortController();
    const run = keeper.run({ onRefilled: () => refilled++, onBack: () => back++ }, stop.signal);
    if (when === 'later') {
      await settled(() => fills() === 1, 'the first fill');
      off();
    }
    const [before, filled] = [looks(), fills()];
    await settled(() => looks() > before + 5, 'looks that fail');
    assert.equal(status.engine.online, false);
    on();
    await settled(() => fills() > filled && status.engine.online, 'the fill');
    await settled(() => refilled === filled && back === filled + 1, 'word of it');
    stop.abort();
    await run;
  });
}

test('an engine counts as filled until it is known to have lost our state, and as one that was for good', async () => {
  const { engine, off } = switchable();
  const status = new Status({ policyEnabled: true, dataEnabled: true }, () => undefined);
  const keeper = new EngineKeeper(
    { tellsStart: true, probeEnabled: false, probeIntervalMs: 20, probeTimeoutMs: 10, backoff: LONG },
    { engine, held: new EngineCopy(engine, { takesPolicy: false }), status, log: silentLogger() },
  );
  const stop = new AbortController();
  const run = keeper.run({}, stop.signal);
  const seen = (): boolean[] => [keeper.isFilled, keeper.wasFilled];
  assert.deepEqual(seen(), [false, false]);
  keeper.started();
  assert.deepEqual(seen(), [false, false]);
  await settled(() => keeper.isFilled, 'the fill');
  assert.deepEqual(seen(), [true, true]);
  const failed = keeper.exclusive(() => Promise.reject(new Error('one write')));
  await assert.rejects(failed, /one write/);
  assert.deepEqual(seen(), [true, true], 'a write in doubt is not a loss');
  off();
  keeper.ended('it ended');
  assert.deepEqual(seen(), [false, true]);
  stop.abort();
  await run;
});
