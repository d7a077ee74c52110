import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { FleetChange } from '../wire/fleet.js';
import { progressOf } from './progress.js';

const BEGAN = 1_000_000;
const NOW = BEGAN + 13_400;

type Times = readonly [first: number | null, half: number | null, p99: number | null, last: number | null];

const TABLE: readonly [
  what: string,
  counts: Readonly<Record<string, number>>,
  times: Times | null,
  kind: string,
  seconds: number | null,
][] = [
  [
    'clients on their way',
    { applied: 61, pending: 46, not_heard: 11, refused: 2 },
    [210, 9000, null, null],
    'running',
    13.4,
  ],
  ['no times in memory', { applied: 61, pending: 1 }, null, 'running', 12.4],
  ['everyone holds it', { applied: 122 }, [210, 4200, 27_000, 28_100], 'complete', 28.1],
  ['everyone but OPAL peers', { applied: 121, unknown: 1 }, [210, 4200, 27_000, 28_100], 'complete', 28.1],
  ['one went away after all held it', { applied: 121, away: 1 }, [210, 4200, 27_000, 28_100], 'complete', 28.1],
  ['some refuse it', { applied: 120, refused: 2 }, [210, 4200, null, null], 'held_up', null],
  ['its source fails at some', { applied: 120, failing: 2 }, [210, 4200, null, null], 'held_up', null],
  ['one is away', { applied: 121, away: 1 }, [210, 4200, 27_000, null], 'held_up', null],
  ['known from the log alone', { applied: 3 }, null, 'complete', null],
  ['only OPAL peers', { unknown: 2 }, null, 'silent', null],
  ['nobody', {}, null, 'silent', null],
];

for (const [what, counts, times, kind, seconds] of TABLE) {
  test(`progress of a change: ${what}`, () => {
    const progress = progressOf(changeWith(counts, times), NOW);
    assert.deepEqual([progress.kind, progress.seconds], [kind, seconds]);
    assert.deepEqual(
      progress.marks.map((mark) => mark.seconds),
      times === null ? [null, null, null, null] : times.map((ms) => (ms === null ? null : ms / 1000)),
    );
  });
}

test('where nobody was connected when a change was announced, that is said, and how many hold it by now', () => {
  const { convergence, ...change } = changeWith({ applied: 2, pending: 1 }, [null, null, null, null]);
  assert(convergence !== null);
  const alone = (clients: number, counts = change.counts): string =>
    progressOf({ ...change, counts, convergence: { ...convergence, clients } }, NOW).alone;
  assert.equal(alone(0), 'Nobody was connected when it was announced. 2 of 3 hold it by now.');
  assert.equal(alone(1), '');
  assert.equal(alone(0, {}), '');
});

function changeWith(counts: Record<string, number>, times: Times | null): Parameters<typeof progressOf>[0] {
  const at = (ms: number | null): number | null => (ms === null ? null : BEGAN + ms);
  const [first, half, p99, last] = times ?? [null, null, null, null];
  const convergence: FleetChange['convergence'] =
    times === null
      ? null
      : { from: BEGAN, clients: 122, first: at(first), half: at(half), p99: at(p99), last: at(last), curve: [] };
  return { at: BEGAN + 1000, state: 'under_way', counts, convergence };
}
