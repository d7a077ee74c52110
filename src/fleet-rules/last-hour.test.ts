import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { MinutePoint } from '../wire/fleet-views.js';
import { boundOf, heat, lastHour } from './last-hour.js';

const NOW = Date.UTC(2026, 10, 21, 10, 30, 20);
const MINUTE = 60_000;

function point(minutesAgo: number, more: Partial<MinutePoint> = {}): MinutePoint {
  return {
    at: Math.floor(NOW / MINUTE) * MINUTE - minutesAgo * MINUTE,
    ...{ publishes: 0, publish_refused: 0, publish_p50_ms: null, publish_p99_ms: null, deliveries: 0 },
    ...{ backbone_ms: null, clients: 0, latency: [0, 0, 0] },
    ...more,
  };
}

const hour = lastHour(
  {
    buckets: [0.01, 0.1],
    hours: [
      {
        instance: 'a',
        name: 'one',
        points: [
          point(70, { publishes: 999 }),
          point(1, { publishes: 6, publish_p50_ms: 2, publish_p99_ms: 9, deliveries: 120, latency: [8, 1, 0] }),
          point(0, { publishes: 1, publish_refused: 1, publish_p50_ms: 30, publish_p99_ms: 31, deliveries: 60 }),
        ],
      },
      { instance: 'b', name: 'two', points: [point(1, { publishes: 4, backbone_ms: 5, latency: [0, 0, 1] })] },
    ],
  },
  NOW,
);

test('the hour has sixty minutes and ends with this one', () => {
  assert.equal(hour.minutes.length, 60);
  assert.equal(hour.minutes.at(-1), NOW - 20_000);
  assert.equal(hour.publishes.values.length, 60);
});

test('publishes are summed up, deliveries and the backbone are by instance', () => {
  assert.deepEqual(hour.publishes.values.slice(-3), [null, 10, 1]);
  assert.deepEqual(
    hour.deliveries.map(({ name, values }) => [name, values.slice(-3)]),
    [
      ['one', [null, 2, 1]],
      ['two', [null, 0, null]],
    ],
  );
  assert.deepEqual(hour.backbone[1]?.values.slice(-2), [5, null]);
});

test('figures of the hour leave out what is older', () => {
  assert.deepEqual([hour.published, hour.refused, hour.publishP50, hour.publishP99], [11, 1, 2, 31]);
});

test('latency is by bucket, with a bound for a part of all', () => {
  assert.deepEqual(
    hour.latency.map((row) => row.slice(-2)),
    [
      [8, 0],
      [1, 0],
      [1, 0],
    ],
  );
  assert.deepEqual(
    [boundOf(hour, 0.5), boundOf(hour, 0.9), boundOf(hour, 0.99)],
    [0.01, 0.1, Number.POSITIVE_INFINITY],
  );
  assert.equal(boundOf({ latency: [[0], [0]], buckets: [1] }, 0.5), undefined);
});

test('a cell with few still shows', () => {
  assert.deepEqual(
    [0, 1, 100, 10_000].map((count) => Number(heat(count, 10_000).toFixed(2))),
    [0, 0.11, 0.19, 1],
  );
});
