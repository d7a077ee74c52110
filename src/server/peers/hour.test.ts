import assert from 'node:assert/strict';
import { test } from 'node:test';
import { LATENCY_BUCKETS } from '../../wire/latency-buckets.js';
import { Hour, printHour, readHour } from './hour.js';

const MINUTE = 60_000;
const START = 1000 * MINUTE;

function hourAt(): { hour: Hour; clock: { ms: number } } {
  const clock = { ms: START + 1 };
  return { hour: new Hour(() => clock.ms), clock };
}

test('what happens is counted in its minute', () => {
  const { hour, clock } = hourAt();
  hour.stage({ of: 'publish', outcome: 'ok', tookMs: 2 });
  hour.stage({ of: 'publish', outcome: 'refused', tookMs: 1 });
  hour.stage({ of: 'delivery', subscribers: 300, tookMs: 1 });
  for (const seconds of [0, 0.003, 0.0031, 0.5, 10, 11]) hour.stage({ of: 'apply', tookMs: seconds * 1000 });
  hour.sampled({ clients: 7, backboneMs: 1.234 });
  clock.ms += MINUTE;
  hour.stage({ of: 'publish', outcome: 'ok', tookMs: 1 });
  const [first, second] = hour.points();
  assert.deepEqual(
    [first?.at, first?.publishes, first?.publish_refused, first?.deliveries, first?.clients, first?.backbone_ms],
    [START, 1, 1, 300, 7, 1.23],
  );
  assert.deepEqual(first?.latency, [2, 1, 0, 0, 0, 1, 0, 1, 1]);
  assert.deepEqual([second?.at, second?.publishes, second?.clients, second?.backbone_ms], [START + MINUTE, 1, 7, null]);
  assert.deepEqual(
    hour.ended().map(({ at }) => at),
    [START],
  );
});

test('percentiles of publishes are those of their minute, within a tenth', () => {
  const { hour, clock } = hourAt();
  for (let ms = 1; ms <= 100; ms++) hour.stage({ of: 'publish', outcome: 'ok', tookMs: ms });
  clock.ms += MINUTE;
  hour.stage({ of: 'publish', outcome: 'ok', tookMs: 5000 });
  const [first, second] = hour.points();
  const near = (value: number | null | undefined, wanted: number): void =>
    assert(value != null && Math.abs(value - wanted) <= wanted * 0.1, `${value}, not ${wanted}`);
  near(first?.publish_p50_ms, 50);
  near(first?.publish_p99_ms, 99);
  near(second?.publish_p50_ms, 5000);
  clock.ms += MINUTE;
  assert.equal(hour.points()[2]?.publish_p50_ms, null);
  for (const ms of [0, 1e-9, 1e12, Number.POSITIVE_INFINITY]) hour.stage({ of: 'publish', outcome: 'ok', tookMs: ms });
  assert.equal(hour.points()[2]?.publishes, 4, 'whatever the clock says');
});

test('an hour has sixty minutes that have ended; those of a pause are empty', () => {
  const { hour, clock } = hourAt();
  hour.sampled({ clients: 3, backboneMs: undefined });
  for (let minute = 0; minute < 100; minute++) {
    hour.stage({ of: 'publish', outcome: 'ok', tookMs: 1 });
    clock.ms += MINUTE;
  }
  const points = hour.points();
  assert.deepEqual([points.length, points[0]?.at, points.at(-1)?.at], [61, START + 40 * MINUTE, START + 100 * MINUTE]);
  assert.deepEqual(
    points.map(({ publishes }) => publishes),
    [...Array<number>(60).fill(1), 0],
  );
  clock.ms += 10 * MINUTE;
  assert.deepEqual(
    hour
      .points()
      .slice(-12)
      .map(({ publishes }) => publishes),
    [1, ...Array<number>(11).fill(0)],
  );
  clock.ms += 500 * MINUTE;
  const later = hour.points();
  assert(later.length === 61 && later.every(({ publishes, clients }) => publishes === 0 && clients === 3));
  clock.ms -= 30 * MINUTE;
  hour.stage({ of: 'publish', outcome: 'ok', tookMs: 1 });
  assert.equal(hour.points().at(-1)?.publishes, 1, 'a clock that goes back stays in its minute');
});

test('the hour of another instance reads as it was, and is short', () => {
  const { hour, clock } = hourAt();
  for (let minute = 0; minute < 70; minute++) {
    for (let count = 0; count < 20; count++) {
      hour.stage({ of: 'publish', outcome: 'ok', tookMs: count * 3.7 });
      hour.stage({ of: 'delivery', subscribers: 123_456, tookMs: 1 });
      hour.stage({ of: 'apply', tookMs: (count / 2) * 1000 });
    }
    hour.sampled({ clients: 3000, backboneMs: 1.5 });
    clock.ms += MINUTE;
  }
  const text = printHour(hour.ended());
  assert.deepEqual(readHour(text), hour.ended());
  assert(text.length < 5000, `${text.length} characters`);
  assert.deepEqual(readHour(printHour([])), []);
});

test('what is no hour is none', () => {
  const row = [1, 0, 0, 1, null, null, null];
  const many = [...row, ...Array<number>(LATENCY_BUCKETS.length + 2).fill(1)];
  for (const value of [
    ...['', 'x', '{}', '{"from":1}', '{"from":-1,"rows":[]}', '{"from":1,"rows":[[1]]}', 'null'],
    JSON.stringify({ from: 1, rows: [many] }),
    JSON.stringify({ from: 1, rows: Array(61).fill(row) }),
    JSON.stringify({ from: 1, rows: [[...row.slice(0, 6), 'x']] }),
  ]) {
    assert.deepEqual(readHour(value), [], value);
  }
});
