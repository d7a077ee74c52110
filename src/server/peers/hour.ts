import * as z from 'zod';
import { jsonOrUndefined } from '../../lib/json/json-text.js';
import type { MinutePoint } from '../../wire/fleet-views.js';
import { LATENCY_BUCKETS } from '../../wire/latency-buckets.js';
import type { ChangeStage } from '../changes/stages.js';

const MINUTE_MS = 60_000;
/** The minutes that have ended, and the current one. */
export const KEPT_MINUTES = 60;
const SLOTS = KEPT_MINUTES + 1;
/** Counts of one minute: publishes, refused, deliveries, clients, and the buckets of latency. */
const COUNTS = 4 + LATENCY_BUCKETS.length + 1;
/** Figures of one minute: p50 and p99 of publishes, round trip to the backbone; NaN: none. */
const FIGURES = 3;
/** Buckets of publish durations in the current minute, each a fifth longer than the last. */
const DURATIONS = { count: 96, firstMs: 0.02, perDoubling: 4 } as const;

/**
 * The last hour of this instance, minute by minute, in fixed room (about 5 KB). Has no timer: a
 * minute ends with the first event after it.
 */
export class Hour {
  readonly #now: () => number;
  readonly #counts = new Uint32Array(SLOTS * COUNTS);
  readonly #figures = new Float32Array(SLOTS * FIGURES);
  readonly #durations = new Uint32Array(DURATIONS.count);
  /** Minutes since 1970. */
  #first: number;
  #minute: number;

  constructor(now: () => number) {
    this.#now = now;
    this.#minute = Math.floor(now() / MINUTE_MS);
    this.#first = this.#minute;
    this.#begin();
  }

  /** Takes what is counted and timed of changes. Costs less than a microsecond. */
  stage(stage: ChangeStage): void {
    if (stage.of === 'delivery') this.#count(2, stage.subscribers);
    else if (stage.of === 'apply') this.#applied(stage.tookMs / 1000);
    else if (stage.of === 'publish' && stage.outcome === 'ok') this.#published(stage.tookMs);
    else if (stage.of === 'publish') this.#count(1, 1);
  }

  #published(ms: number): void {
    this.#count(0, 1);
    const bucket = Math.ceil(Math.log2(ms / DURATIONS.firstMs) * DURATIONS.perDoubling);
    const at = Math.min(Math.max(bucket, 0), DURATIONS.count - 1);
    this.#durations[at] = (this.#durations[at] ?? 0) + 1;
  }

  #applied(seconds: number): void {
    const found = LATENCY_BUCKETS.findIndex((bound) => seconds <= bound);
    this.#count(4 + (found === -1 ? LATENCY_BUCKETS.length : found), 1);
  }

  /** How it is now; the last sample of a minute stands for it. */
  sampled({ clients, backboneMs }: { readonly clients: number; readonly backboneMs: number | undefined }): void {
    this.#catchUp();
    this.#counts[this.#slot(this.#minute) * COUNTS + 3] = clients;
    this.#figures[this.#slot(this.#minute) * FIGURES + 2] = backboneMs ?? Number.NaN;
  }

  /** The current minute, in minutes since 1970: what {@link ended} returns changes with it. */
  get minute(): number {
    this.#catchUp();
    return this.#minute;
  }

  /** The minutes that have ended, oldest first. */
  ended(): MinutePoint[] {
    return this.points().slice(0, -1);
  }

  /** All minutes, the current one included, oldest first. */
  points(): MinutePoint[] {
    this.#catchUp();
    this.#measure();
    const from = Math.max(this.#first, this.#minute - KEPT_MINUTES);
    return Array.from({ length: this.#minute - from + 1 }, (_, index) => this.#point(from + index));
  }

  #point(minute: number): MinutePoint {
    const slot = this.#slot(minute);
    const [publishes = 0, refused = 0, deliveries = 0, clients = 0, ...latency] = this.#counts.subarray(
      slot * COUNTS,
      (slot + 1) * COUNTS,
    );
    const [p50, p99, backbone] = this.#figures.subarray(slot * FIGURES, (slot + 1) * FIGURES);
    return {
      at: minute * MINUTE_MS,
      ...{ publishes, publish_refused: refused, deliveries, clients, latency },
      publish_p50_ms: rounded(p50),
      publish_p99_ms: rounded(p99),
      backbone_ms: rounded(backbone),
    };
  }

  #count(at: number, by: number): void {
    this.#catchUp();
    const index = this.#slot(this.#minute) * COUNTS + at;
    this.#counts[index] = (this.#counts[index] ?? 0) + by;
  }

  /** Ends the minutes that are over. A clock that goes back stays in its minute. */
  #catchUp(): void {
    const now = Math.floor(this.#now() / MINUTE_MS);
    if (now <= this.#minute) return;
    this.#measure();
    const clients = this.#counts[this.#slot(this.#minute) * COUNTS + 3] ?? 0;
    const from = Math.max(this.#minute + 1, now - KEPT_MINUTES);
    for (this.#minute = from; ; this.#minute++) {
      this.#begin();
      // Clients that nobody counted anew are still there.
      this.#counts[this.#slot(this.#minute) * COUNTS + 3] = clients;
      if (this.#minute >= now) return;
    }
  }

  #begin(): void {
    const slot = this.#slot(this.#minute);
    this.#counts.fill(0, slot * COUNTS, (slot + 1) * COUNTS);
    this.#figures.fill(Number.NaN, slot * FIGURES, (slot + 1) * FIGURES);
    this.#durations.fill(0);
  }

  /** Notes the percentiles of the current minute. */
  #measure(): void {
    const slot = this.#slot(this.#minute);
    this.#figures[slot * FIGURES] = percentile(this.#durations, 0.5);
    this.#figures[slot * FIGURES + 1] = percentile(this.#durations, 0.99);
  }

  #slot(minute: number): number {
    return minute % SLOTS;
  }
}

/** The middle of the bucket that holds this percentile; NaN without values. */
function percentile(durations: Uint32Array, part: number): number {
  const total = durations.reduce((sum, count) => sum + count, 0);
  if (total === 0) return Number.NaN;
  const rank = Math.ceil(total * part);
  let below = 0;
  for (const [bucket, count] of durations.entries()) {
    below += count;
    if (below >= rank) return DURATIONS.firstMs * 2 ** ((bucket - 0.5) / DURATIONS.perDoubling);
  }
  return Number.NaN;
}

function rounded(value: number | undefined): number | null {
  return value === undefined || Number.isNaN(value) ? null : Math.round(value * 100) / 100;
}

const LATENCIES = LATENCY_BUCKETS.length + 1;
const figure = z.number().nonnegative();
/** Counts, p50, p99, backbone, and the latency buckets without the last empty ones. */
const row = z
  .tuple([figure, figure, figure, figure, figure.nullable(), figure.nullable(), figure.nullable()], figure)
  .refine((values) => values.length <= 7 + LATENCIES);
const hourText = z.object({
  /** The first minute, in minutes since 1970. */
  from: z.number().int().nonnegative(),
  rows: z.array(row).max(KEPT_MINUTES),
});

/** Prints minutes for an announcement: short, and the same until the next minute ends. */
export function printHour(points: readonly MinutePoint[]): string {
  const rows = points.map((point) => {
    const { publishes, publish_refused, deliveries, clients, publish_p50_ms, publish_p99_ms, backbone_ms } = point;
    const used = point.latency.findLastIndex((count) => count > 0) + 1;
    const figures = [publishes, publish_refused, deliveries, clients, publish_p50_ms, publish_p99_ms, backbone_ms];
    return [...figures, ...point.latency.slice(0, used)];
  });
  return JSON.stringify({ from: (points[0]?.at ?? 0) / MINUTE_MS, rows });
}

/** Reads what another instance has printed; empty if that is printed otherwise. */
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
