import type { Program } from './program.js';
import { median, p99, type Statistic } from './statistics.js';

/** What processes used while something was measured, by their part: `server`, `client`. */
export type Cost = Readonly<Record<string, { readonly cpuMs: number; readonly peakBytes: number }>>;

/** What a scenario has found out about one system. */
export interface Measured {
  /** What was measured; the same words for each system. */
  readonly metric: string;
  readonly unit: 'ms' | 'us' | 'MB' | 'KB' | '1/s' | '%' | 'files';
  readonly samples: readonly number[];
  readonly cost?: Cost;
}

/** One line of the results. */
export interface Figure extends Record<Statistic, number> {
  readonly scenario: string;
  /** `policysync`, `opal`, `raw`, or a revision. */
  readonly system: string;
  readonly metric: string;
  readonly unit: Measured['unit'];
  readonly n: number;
  readonly cost: Cost;
}

/** A {@link Figure} of what was measured. Without samples there is none. */
export function figure(scenario: string, system: string, { metric, unit, samples, cost = {} }: Measured): Figure {
  if (samples.length === 0) throw new Error(`${scenario}: no sample of ${metric} for ${system}`);
  return { scenario, system, metric, unit, median: median(samples), p99: p99(samples), n: samples.length, cost };
}

/** Of each metric all samples, with what all of it took. */
export function pooled(measured: readonly Measured[]): Measured[] {
  const byMetric = new Map<string, Measured>();
  for (const one of measured) {
    const before = byMetric.get(one.metric);
    byMetric.set(one.metric, before === undefined ? one : together(before, one));
  }
  return [...byMetric.values()];
}

function together(one: Measured, other: Measured): Measured {
  const costs = { ...one.cost };
  for (const [part, { cpuMs, peakBytes }] of Object.entries(other.cost ?? {})) {
    const before = costs[part] ?? { cpuMs: 0, peakBytes: 0 };
    costs[part] = { cpuMs: before.cpuMs + cpuMs, peakBytes: Math.max(before.peakBytes, peakBytes) };
  }
  const hasCost = one.cost !== undefined || other.cost !== undefined;
  return { ...one, samples: [...one.samples, ...other.samples], ...(hasCost ? { cost: costs } : {}) };
}

/** Watches programs from now on; the result answers what they used since. */
export function watch(programs: Readonly<Record<string, Program>>): () => Cost {
  const before = Object.entries(programs).map(([part, program]) => {
    program.resetPeak();
    return { part, program, cpuMs: program.usage().cpuMs };
  });
  return () =>
    Object.fromEntries(
      before.map(({ part, program, cpuMs }) => {
        const now = program.usage();
        return [part, { cpuMs: now.cpuMs - cpuMs, peakBytes: now.peakBytes }];
      }),
    );
}
