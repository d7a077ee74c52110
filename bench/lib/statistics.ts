/** The statistics of a figure. */
export type Statistic = 'median' | 'p99';

/** The smallest sample that at least so large a part of the samples does not exceed (nearest rank). */
export function quantile(samples: readonly number[], part: number): number {
  const sorted = samples.toSorted((a, b) => a - b);
  const value = sorted[Math.max(0, Math.ceil(sorted.length * part) - 1)];
  if (value === undefined) throw new Error('no samples');
  return value;
}

export function median(samples: readonly number[]): number {
  return quantile(samples, 0.5);
}

/** Where there are fewer than a hundred samples this is the largest one. */
export function p99(samples: readonly number[]): number {
  return quantile(samples, 0.99);
}
