import * as z from 'zod';
import { jsonOrUndefined } from '../../lib/json-text.js';
import type { MinutePoint } from '../../wire/fleet-views.js';
import { LATENCY_BUCKETS } from '../../wire/latency-buckets.js';
import { KEPT_MINUTES } from './hour.js';

/** An hour as text for the announcement of an instance: short, and the same until the next minute ends. */

const MINUTE_MS = 60_000;
const LATENCIES = LATENCY_BUCKETS.length + 1;
const figure = z.number().nonnegative();
/** Publishes, refused, deliveries, clients, p50, p99, backbone, and the buckets of latency without the last empty ones. */
const row = z
  .tuple([figure, figure, figure, figure, figure.nullable(), figure.nullable(), figure.nullable()], figure)
  .refine((values) => values.length <= 7 + LATENCIES);
const hourText = z.object({
  /** The first minute, in minutes since 1970. */
  from: z.number().int().nonnegative(),
  rows: z.array(row).max(KEPT_MINUTES),
});

/** Prints consecutive minutes. */
export function printHour(points: readonly MinutePoint[]): string {
  const rows = points.map((point) => {
    const { publishes, publish_refused, deliveries, clients, publish_p50_ms, publish_p99_ms, backbone_ms } = point;
    const used = point.latency.findLastIndex((count) => count > 0) + 1;
    const figures = [publishes, publish_refused, deliveries, clients, publish_p50_ms, publish_p99_ms, backbone_ms];
    return [...figures, ...point.latency.slice(0, used)];
  });
  return JSON.stringify({ from: (points[0]?.at ?? 0) / MINUTE_MS, rows });
}

/** Reads what another instance has printed; empty if that is of a version that prints it otherwise. */
export function readHour(text: string): MinutePoint[] {
  const { data } = hourText.safeParse(jsonOrUndefined(text));
  return (data?.rows ?? []).map((values, index) => {
    const [publishes, publish_refused, deliveries, clients, publish_p50_ms, publish_p99_ms, backbone_ms, ...used] =
      values;
    return {
      at: ((data?.from ?? 0) + index) * MINUTE_MS,
      ...{ publishes, publish_refused, deliveries, clients, publish_p50_ms, publish_p99_ms, backbone_ms },
      latency: [...used, ...new Array<number>(LATENCIES - used.length).fill(0)],
    };
  });
}
