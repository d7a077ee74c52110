/**
 * The time axis of a curve of convergence: where it ends, and which times it names. All times in ms
 * from the start of the change.
 */

/** The axis of a change that is under way is at least this long. */
const SHORTEST_RUNNING_MS = 10_000;
/** A change whose clients all hold it leaves this much room after the last. */
const ROOM = 1.15;
/**
 * A change that stands still keeps the axis that its last movement had, this many times over: the
 * curve stays readable.
 */
const STILL = 4;

const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
/** Steps of more than a second that people count in. */
const STEPS = [
  ...[1, 2, 5, 10, 15, 30].map((n) => n * SECOND),
  ...[1, 2, 5, 10, 15, 30].map((n) => n * MINUTE),
  ...[1, 2, 3, 6, 12].map((n) => n * HOUR),
  ...[1, 2, 5, 10].map((n) => n * DAY),
];

export interface AxisOf {
  /** The change has not reached everyone yet. */
  readonly running: boolean;
  /** Since the start of the change. */
  readonly elapsedMs: number;
  /** When the curve last rose; 0: never. */
  readonly lastMs: number;
}

/**
 * Where the axis ends. While the change is under way its end is not known: 10, 20, 40 s and so on,
 * doubling, so that the curve does not slide. After that 115 % of the last time.
 */
export function axisEnd({ running, elapsedMs, lastMs }: AxisOf): number {
  if (!running) return Math.max(1, (lastMs > 0 ? lastMs : elapsedMs) * ROOM);
  const shown = lastMs > 0 ? Math.min(elapsedMs * 1.05, STILL * Math.max(lastMs, SHORTEST_RUNNING_MS)) : elapsedMs;
  let end = SHORTEST_RUNNING_MS;
  while (end < shown) end *= 2;
  return end;
}

/** The times that an axis names, from 0, at most `most + 1` of them. */
export function axisTicks(endMs: number, most: number): number[] {
  // No halves of minutes, hours or days: all ticks of an axis have the unit of its end.
  const step = stepOf(
    Math.max(
      endMs / Math.max(1, most),
      endMs < 2 * MINUTE ? 0 : endMs < 2 * HOUR ? MINUTE : endMs < 2 * DAY ? HOUR : DAY,
    ),
  );
  const count = Math.floor(endMs / step + 1e-9);
  return Array.from({ length: count + 1 }, (_, index) => index * step);
}

/** The smallest round step that is not below `least`. */
function stepOf(least: number): number {
  const round = least >= SECOND ? STEPS.find((step) => step >= least) : undefined;
  return round ?? decimal(least);
}

/** 1, 2 or 5 times a power of ten. */
function decimal(least: number): number {
  const magnitude = 10 ** Math.floor(Math.log10(Math.max(least, 1e-3)));
  return ([1, 2, 5, 10].find((factor) => factor * magnitude >= least) ?? 10) * magnitude;
}

/** Top of an axis of counts or figures, and its middle: round, and not below `most`. */
export function niceTop(most: number): number {
  if (!(most > 0)) return 1;
  const magnitude = 10 ** Math.floor(Math.log10(most));
  return ([1, 1.2, 1.6, 2, 3, 4, 6, 8, 10].find((factor) => factor * magnitude >= most) ?? 10) * magnitude;
}

/** Top of an axis of counts: as {@link niceTop}, and even, so that its middle is a count, too. */
export function countTop(most: number): number {
  return 2 * Math.ceil(niceTop(Math.max(2, most)) / 2);
}

/**
 * A tick as text; the unit follows from the end of its axis, so that all ticks of one axis have the
 * same.
 */
export function tickText(ms: number, endMs: number): string {
  const [unit, size] =
    endMs < 2 * SECOND
      ? (['ms', 1] as const)
      : endMs < 2 * MINUTE
        ? (['s', SECOND] as const)
        : endMs < 2 * HOUR
          ? (['min', MINUTE] as const)
          : endMs < 2 * DAY
            ? (['h', HOUR] as const)
            : (['d', DAY] as const);
  return `${Number((ms / size).toFixed(2))}\u00a0${unit}`;
}
