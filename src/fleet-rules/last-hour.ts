import type { InstancesAnswer, MinutePoint } from '../wire/fleet-views.js';

/** The last hour of all server instances on one axis of minutes. */

const MINUTE_MS = 60_000;
const MINUTES = 60;

export interface Line {
  readonly name: string;
  /** One figure a minute; null: not known. */
  readonly values: readonly (number | null)[];
}

export interface LastHour {
  /** Beginnings of the minutes, oldest first, in ms since 1970: always 60. */
  readonly minutes: readonly number[];
  /** Of all instances. */
  readonly publishes: Line;
  /** A second, by instance. */
  readonly deliveries: readonly Line[];
  readonly backbone: readonly Line[];
  /** Applied updates of all instances: for each bucket, lowest first, one count a minute. */
  readonly latency: readonly (readonly number[])[];
  /** Upper bounds of the buckets in seconds; the last bucket has none. */
  readonly buckets: readonly number[];
  readonly published: number;
  readonly refused: number;
  /** Median of the minutes' medians, weighed with their publishes. */
  readonly publishP50: number | null;
  /** The worst minute's p99. */
  readonly publishP99: number | null;
}

type Hours = Pick<InstancesAnswer, 'hours' | 'buckets'>;

/** Puts the points of all instances into the 60 minutes that end with the one of `now`. */
export function lastHour({ hours, buckets }: Hours, now: number): LastHour {
  const newest = Math.floor(now / MINUTE_MS) * MINUTE_MS;
  const first = newest - (MINUTES - 1) * MINUTE_MS;
  const minutes = Array.from({ length: MINUTES }, (_, index) => first + index * MINUTE_MS);
  const rows = hours.map(({ name, points }) => ({ name, points: slotted(points, first) }));
  const all = rows.flatMap(({ points }) => points.flatMap((point) => point ?? []));
  const lines = (figure: (point: MinutePoint) => number | null): Line[] =>
    rows.map(({ name, points }) => ({
      name,
      values: points.map((point) => (point === undefined ? null : figure(point))),
    }));
  const sum = (index: number, figure: (point: MinutePoint) => number): number | null => {
    const points = rows.flatMap(({ points: list }) => list[index] ?? []);
    return points.length === 0 ? null : points.reduce((total, point) => total + figure(point), 0);
  };
  return {
    minutes,
    publishes: {
      name: 'publishes',
      values: minutes.map((_, index) => sum(index, ({ publishes }) => publishes)),
    },
    deliveries: lines(({ deliveries }) => deliveries / 60),
    backbone: lines(({ backbone_ms }) => backbone_ms),
    latency: [...buckets, Number.POSITIVE_INFINITY].map((_, bucket) =>
      minutes.map((_minute, index) => sum(index, ({ latency }) => latency[bucket] ?? 0) ?? 0),
    ),
    buckets,
    published: all.reduce((total, { publishes }) => total + publishes, 0),
    refused: all.reduce((total, { publish_refused }) => total + publish_refused, 0),
    publishP50: weighedMedian(
      all.flatMap(({ publish_p50_ms: value, publishes }) => (value === null ? [] : [{ value, weight: publishes }])),
    ),
    publishP99: all.reduce<number | null>(
      (most, { publish_p99_ms: value }) => (value === null ? most : Math.max(most ?? value, value)),
      null,
    ),
  };
}

/** Points by minute of the hour; a later point of the same minute replaces an earlier one. */
function slotted(points: readonly MinutePoint[], first: number): (MinutePoint | undefined)[] {
  const slots: (MinutePoint | undefined)[] = Array.from({ length: MINUTES }, () => undefined);
  for (const point of points) {
    const index = Math.floor((point.at - first) / MINUTE_MS);
    if (index >= 0 && index < MINUTES) slots[index] = point;
  }
  return slots;
}

function weighedMedian(values: readonly { value: number; weight: number }[]): number | null {
  const sorted = values.filter(({ weight }) => weight > 0).sort((one, other) => one.value - other.value);
  const half = sorted.reduce((total, { weight }) => total + weight, 0) / 2;
  let passed = 0;
  for (const { value, weight } of sorted) {
    passed += weight;
    if (passed >= half) return value;
  }
  return null;
}

/**
 * The upper bound of the bucket that has a part of all: "99 % within 0.3 s". Infinity: more than
 * the highest bound; undefined: there are none.
 */
export function boundOf({ latency, buckets }: Pick<LastHour, 'latency' | 'buckets'>, part: number): number | undefined {
  const counts = latency.map((row) => row.reduce((sum, count) => sum + count, 0));
  const total = counts.reduce((sum, count) => sum + count, 0);
  if (total === 0) return undefined;
  let passed = 0;
  const bucket = counts.findIndex((count) => {
    passed += count;
    return passed >= total * part;
  });
  return buckets[bucket] ?? Number.POSITIVE_INFINITY;
}

/** How strong a cell is, from 0 to 1: what has few still shows beside what has many. */
export function heat(count: number, most: number): number {
  return count <= 0 || most <= 0 ? 0 : 0.1 + 0.9 * Math.sqrt(Math.min(1, count / most));
}
