/** Paths of SVG for curves that rise in steps. */

export interface CurveStep {
  readonly at: number;
  readonly count: number;
}

export interface Box {
  readonly left: number;
  readonly right: number;
  readonly top: number;
  readonly bottom: number;
  /** What the right edge stands for. */
  readonly end: number;
  /** What the top edge stands for. */
  readonly most: number;
}

/** A time as x, kept inside the box. */
export function xOf({ left, right, end }: Box, at: number): number {
  return round(left + (clamp(at, 0, end) / end) * (right - left));
}

/** A count as y, kept inside the box. */
export function yOf({ top, bottom, most }: Box, count: number): number {
  return round(bottom - (clamp(count, 0, most) / Math.max(most, 1e-9)) * (bottom - top));
}

/** The line of a curve from 0 to `until`; steps have the counts from their times on. */
export function stepLine(steps: readonly CurveStep[], box: Box, until: number): string {
  const rises = steps.filter(({ at }) => at <= until).map(({ at, count }) => `H${xOf(box, at)}V${yOf(box, count)}`);
  return `M${round(box.left)} ${yOf(box, 0)}${rises.join('')}H${xOf(box, until)}`;
}

/** The area below {@link stepLine}. */
export function stepArea(line: string, box: Box): string {
  return `${line}V${yOf(box, 0)}H${round(box.left)}Z`;
}

export function clamp(value: number, least: number, most: number): number {
  return Math.min(Math.max(value, least), most);
}

function round(value: number): number {
  return Math.round(value * 10) / 10;
}
