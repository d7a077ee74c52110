/**
 * What a program measures of itself, for Prometheus. Instruments are plain numbers, made once and
 * passed on as deps. The figures of the process come from prom-client, which is loaded when
 * somebody first reads: most programs are never asked, and it takes 11 MB.
 */

/** Values of labels; few and bounded, since each combination is kept for ever. */
export type MetricLabels = Readonly<Record<string, string>>;

/** Only goes up. */
export interface Counter {
  inc(labels?: MetricLabels, by?: number): void;
}

/** Durations in seconds, or sizes: how many were at most so large. */
export interface Histogram {
  observe(value: number, labels?: MetricLabels): void;
}

/**
 * What a gauge, or a counter that another part keeps, reads when it is asked: values with their
 * labels.
 */
export type Readings = readonly { readonly value: number; readonly labels?: MetricLabels }[];

/**
 * Makes instruments, and prints all of them. Names begin with {@link PREFIX}; each may be taken
 * once.
 */
export interface Metrics {
  counter(name: string, help: string): Counter;
  histogram(name: string, help: string, buckets?: readonly number[]): Histogram;
  /** `read` is called for each text; it must return soon. */
  gauge(name: string, help: string, read: () => number | Readings): void;
  /** A counter that another part keeps. */
  total(name: string, help: string, read: () => number | Readings): void;
  /**
   * All instruments, and figures of the process under their customary names, as the text that
   * Prometheus reads.
   */
  text(): Promise<{ readonly contentType: string; readonly text: string }>;
}

export const PREFIX = 'policysync_';

/** Upper bounds in seconds: from a write to a local engine to a fetch that times out. */
export const SECONDS_BUCKETS: readonly number[] = [
  0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300,
];

/** An empty collection. */
export function createMetrics(): Metrics {
  /** Prints each instrument, by name. */
  const instruments = new Map<string, () => string[]>();
  let ofProcess: ReturnType<typeof processFigures> | undefined;

  function add(name: string, help: string, type: 'counter' | 'gauge' | 'histogram', samples: () => string[]): void {
    if (!/^[a-z_]+$/.test(name) || !name.startsWith(PREFIX)) throw new Error(`${name} is no name of a metric of ours`);
    if (instruments.has(name)) throw new Error(`there is a metric ${name} already`);
    instruments.set(name, () => [`# HELP ${name} ${help}`, `# TYPE ${name} ${type}`, ...samples(), '']);
  }

  function addReading(name: string, help: string, type: 'counter' | 'gauge', read: () => number | Readings): void {
    add(name, help, type, () => {
      const now = read();
      const readings = typeof now === 'number' ? [{ value: now }] : now;
      return readings.map(({ value, labels = {} }) => sample(name, labelText(labels), value));
    });
  }

  return {
    counter(name, help) {
      const series = new Map<string, number>();
      add(name, help, 'counter', () => [...series].map(([labels, value]) => sample(name, labels, value)));
      return {
        inc: (labels = {}, by = 1) => {
          const key = labelText(labels);
          series.set(key, (series.get(key) ?? 0) + by);
        },
      };
    },
    histogram(name, help, buckets = SECONDS_BUCKETS) {
      const series = new Map<string, Distribution>();
      add(name, help, 'histogram', () => [...series].flatMap((one) => histogramSamples(name, buckets, ...one)));
      return {
        observe: (value, labels = {}) => {
          const key = labelText(labels);
          const one = series.get(key) ?? { counts: new Array<number>(buckets.length + 1).fill(0), sum: 0 };
          series.set(key, one);
          const found = buckets.findIndex((bound) => value <= bound);
          const bucket = found === -1 ? buckets.length : found;
          one.counts[bucket] = (one.counts[bucket] ?? 0) + 1;
          one.sum += value;
        },
      };
    },
    gauge: (name, help, read) => addReading(name, help, 'gauge', read),
    total: (name, help, read) => addReading(name, help, 'counter', read),
    async text() {
      ofProcess ??= processFigures();
      const registry = await ofProcess;
      const own = [...instruments.values()].flatMap((print) => print()).join('\n');
      return { contentType: registry.contentType, text: `${own}\n${await registry.metrics()}` };
    },
  };
}

async function processFigures() {
  // CommonJS: where it is bundled, this is its only export.
  const { default: promClient } = await import('prom-client');
  const { Registry, collectDefaultMetrics } = promClient;
  const registry = new Registry();
  collectDefaultMetrics({ register: registry });
  // Gauges with the name of a counter; those without `_total` have the same by type.
  for (const of of ['handles', 'requests', 'resources']) registry.removeSingleMetric(`nodejs_active_${of}_total`);
  return registry;
}

interface Distribution {
  /** How many values are in each bucket; the last is for those beyond all bounds. */
  readonly counts: number[];
  sum: number;
}

function histogramSamples(
  name: string,
  buckets: readonly number[],
  labels: string,
  { counts, sum }: Distribution,
): string[] {
  let total = 0;
  const bounded = [...buckets, '+Inf'].map((le, index) => {
    total += counts[index] ?? 0;
    return sample(`${name}_bucket`, `${labels === '' ? '' : `${labels},`}le="${le}"`, total);
  });
  return [...bounded, sample(`${name}_sum`, labels, sum), sample(`${name}_count`, labels, total)];
}

/**
 * Labels as they are printed, between the braces; JSON escapes quotes, backslashes and line ends as
 * Prometheus does.
 */
function labelText(labels: MetricLabels): string {
  let text = '';
  for (const name in labels) text += `${text === '' ? '' : ','}${name}=${JSON.stringify(labels[name])}`;
  return text;
}

function sample(name: string, labels: string, value: number): string {
  return `${name}${labels === '' ? '' : `{${labels}}`} ${value}`;
}

/** Measures how long something takes, and how it ended (`outcome`: ok, failed). */
export async function timed<T>(histogram: Histogram, work: () => Promise<T>, labels: MetricLabels = {}): Promise<T> {
  const startedMs = performance.now();
  let outcome = 'failed';
  try {
    const result = await work();
    outcome = 'ok';
    return result;
  } finally {
    histogram.observe((performance.now() - startedMs) / 1000, { ...labels, outcome });
  }
}
