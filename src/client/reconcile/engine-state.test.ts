import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  type EngineEffect,
  type EngineEvent,
  type EngineState,
  engineTransition,
  probeWaitMs,
} from './engine-state.js';

/** Every cell: the next state and the effects. Leaving one out does not compile. */
const EXPECTED: Record<EngineEvent, Record<EngineState, [EngineState, ...EngineEffect[]]>> = {
  started: {
    gone: ['starting', 'show_empty', 'restore'],
    starting: ['starting', 'show_empty', 'restore'],
    filling: ['starting', 'show_empty', 'restore'],
    holding: ['starting', 'show_empty', 'restore'],
    doubtful: ['starting', 'show_empty', 'restore'],
  },
  ended: {
    gone: ['gone', 'show_failure'],
    starting: ['gone', 'show_failure'],
    filling: ['gone', 'show_failure'],
    holding: ['gone', 'show_failure'],
    doubtful: ['gone', 'show_failure'],
  },
  resumed: {
    gone: ['gone'],
    starting: ['doubtful'],
    filling: ['filling'],
    holding: ['holding'],
    doubtful: ['doubtful'],
  },
  fill: {
    gone: ['gone'],
    starting: ['filling'],
    filling: ['filling'],
    holding: ['holding'],
    doubtful: ['doubtful'],
  },
  filled: {
    gone: ['gone'],
    starting: ['starting'],
    filling: ['holding', 'show_holding', 'nudge', 'tell_refilled'],
    holding: ['holding'],
    doubtful: ['doubtful'],
  },
  settled: {
    gone: ['gone'],
    starting: ['starting'],
    filling: ['filling'],
    holding: ['holding'],
    doubtful: ['holding', 'show_holding', 'nudge'],
  },
  failed: {
    gone: ['gone'],
    starting: ['starting'],
    filling: ['starting', 'show_failure'],
    holding: ['doubtful', 'restore'],
    doubtful: ['doubtful', 'show_failure'],
  },
  marked: {
    gone: ['gone'],
    starting: ['starting', 'show_empty'],
    filling: ['filling', 'show_empty'],
    holding: ['holding', 'show_holding'],
    doubtful: ['doubtful', 'show_holding'],
  },
  unmarked: {
    gone: ['gone'],
    starting: ['starting', 'show_empty'],
    filling: ['filling', 'show_empty'],
    holding: ['starting', 'warn_lost', 'show_empty', 'restore'],
    doubtful: ['starting', 'show_empty'],
  },
  silent: {
    gone: ['gone'],
    starting: ['starting', 'show_failure'],
    filling: ['filling', 'show_failure'],
    holding: ['doubtful', 'show_failure', 'restore'],
    doubtful: ['doubtful', 'show_failure'],
  },
};

const CELLS = (Object.keys(EXPECTED) as EngineEvent[]).flatMap((event) =>
  (Object.keys(EXPECTED[event]) as EngineState[]).map((state) => ({ state, event })),
);

for (const { state, event } of CELLS) {
  test(`engine: ${state}, ${event}: what the table says`, () => {
    const [next, ...effects] = EXPECTED[event][state];
    assert.deepEqual(engineTransition(state, event), { next, effects });
  });
}

test('engine: only a fill that nothing overtook, or doubts that were settled, lead to steps', () => {
  const ways = CELLS.filter(({ state, event }) => state !== 'holding' && EXPECTED[event][state][0] === 'holding');
  assert.deepEqual(ways, [
    { state: 'filling', event: 'filled' },
    { state: 'doubtful', event: 'settled' },
  ]);
});

test('engine: whatever ends holding without a new process asks for a restore', () => {
  for (const { event } of CELLS.filter(({ state }) => state === 'holding')) {
    const [next, ...effects] = EXPECTED[event].holding;
    assert.equal(effects.includes('restore'), next !== 'holding' && next !== 'gone', event);
  }
});

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
