/** A part of a bar. */
export interface BarPart {
  readonly count: number;
  readonly sign: string;
}

/**
 * A bar of this many signs: `left` from the left end, `right` at the right end, and `track` between them. What is there has one sign at
 * least, and nothing is shown as whole that is not.
 */
export function barText(
  left: readonly BarPart[],
  right: readonly BarPart[],
  { total, width, track }: { total: number; width: number; track: string },
): string {
  const parts = [...left, ...right].filter(({ count }) => count > 0);
  if (total === 0 || parts.length === 0 || width < parts.length) return track.repeat(Math.max(0, width));
  const lengths = new Map(parts.map((part) => [part, Math.max(1, Math.floor((part.count / total) * width))]));
  const sum = (): number => [...lengths.values()].reduce((all, one) => all + one, 0);
  // Small parts that were made visible take from the largest one.
  while (sum() > width) shrinkLargest(lengths);
  const covered = parts.reduce((all, { count }) => all + count, 0);
  const [first] = parts;
  if (covered >= total && first !== undefined) lengths.set(first, (lengths.get(first) ?? 0) + width - sum());
  const draw = (some: readonly BarPart[]): string =>
    some.map((part) => part.sign.repeat(lengths.get(part) ?? 0)).join('');
  return `${draw(left)}${track.repeat(width - sum())}${draw(right)}`;
}

function shrinkLargest(lengths: Map<BarPart, number>): void {
  const [largest] = [...lengths].sort(([, a], [, b]) => b - a);
  if (largest !== undefined) lengths.set(largest[0], largest[1] - 1);
}
