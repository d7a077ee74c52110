/**
 * What a program measures of itself, for Prometheus. Instruments are plain numbers, made once and passed on as deps; the
 * library that knows the process and the text format is loaded when somebody first asks for the text, since most programs
 * are never asked and it takes megabytes.
 */

/** Values of labels; few and bounded, since each combination is kept for ever. */
export type Labels = Readonly<Record<string, string>>;

/** Only goes up. */
export interface Counter {
  inc(labels?: Labels, by?: number): void;
}

/** Durations in seconds, or sizes: how many were at most so large. */
export interface Histogram {
  observe(value: number, labels?: Labels): void;
}

/** What a gauge, or a counter that somebody else keeps, reads when it is asked: values with their labels. */
export type Readings = readonly { readonly value: number; readonly labels?: Labels }[];

/** Makes instruments, and prints all of them. Names begin with {@link PREFIX}; each may be taken once. */
export interface Metrics {
  counter(name: string, help: string): Counter;
  histogram(name: string, help: string, buckets?: readonly number[]): Histogram;
  /** `read` is called for each text; it must return soon. */
  gauge(name: string, help: string, read: () => number | Readings): void;
  /** A counter that is kept elsewhere. */
  total(name: string, help: string, read: () => number | Readings): void;
  /** All instruments, and figures of the process under their customary names, as the text that Prometheus reads. */
  text(): Promise<{ readonly contentType: string; readonly text: string }>;
}

export const PREFIX = 'policysync_';

/** Upper bounds in seconds: from a write to a local engine to a fetch that times out. */
export const SECONDS_BUCKETS: readonly number[] = [
  0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300,
];

/** The form in which the library takes an instrument that is not its own. */
interface Sample {
  metricName?: string;
  labels: Record<string, string | number>;
  value: number;
}

interface Instrument {
  readonly name: string;
  readonly help: string;
  readonly type: 'counter' | 'gauge' | 'histogram';
  samples(): Sample[];
}

/** An empty collection. */
export function createMetrics(): Metrics {
  const instruments = new Map<string, Instrument>();
  let printing: Promise<() => Promise<{ contentType: string; text: string }>> | undefined;

  function add(instrument: Instrument): void {
    const { name } = instrument;
    if (!/^[a-z_]+$/.test(name) || !name.startsWith(PREFIX)) throw new Error(`${name} is no name of a metric of ours`);
    if (instruments.has(name)) throw new Error(`there is a metric ${name} already`);
    instruments.set(name, instrument);
  }

  function read(name: string, help: string, type: 'counter' | 'gauge', values: () => number | Readings): void {
    add({
      name,
      help,
      type,
      samples: () => {
        const now = values();
        if (typeof now === 'number') return [{ labels: {}, value: now }];
        return now.map(({ value, labels = {} }) => ({ labels, value }));
      },
    });
  }

  async function openPrinter(): Promise<() => Promise<{ contentType: string; text: string }>> {
    const { Registry, collectDefaultMetrics } = await import('prom-client');
    const registry = new Registry();
    collectDefaultMetrics({ register: registry });
    return async () => {
      for (const { samples, ...instrument } of instruments.values()) {
        if (registry.getSingleMetric(instrument.name) !== undefined) continue;
        // Its registry asks whatever has this method; its types name its own classes.
        const metric = { ...instrument, get: async () => ({ ...instrument, aggregator: 'sum', values: samples() }) };
        registry.registerMetric(metric as unknown as Parameters<typeof registry.registerMetric>[0]);
      }
      return { contentType: registry.contentType, text: await registry.metrics() };
    };
  }

  return {
    counter(name, help) {
      const counts = new ByLabels(() => ({ value: 0 }));
      add({
        name,
        help,
        type: 'counter',
        samples: () => counts.all().map(([labels, { value }]) => ({ labels, value })),
      });
      return {
        inc: (labels = {}, by = 1) => {
          counts.of(labels).value += by;
        },
      };
    },
    histogram(name, help, buckets = SECONDS_BUCKETS) {
      const all = new ByLabels(() => ({ counts: new Array<number>(buckets.length + 1).fill(0), sum: 0 }));
      add({
        name,
        help,
        type: 'histogram',
        samples: () => all.all().flatMap(([labels, series]) => histogramSamples(name, labels, buckets, series)),
      });
      return {
        observe: (value, labels = {}) => {
          const series = all.of(labels);
          const found = buckets.findIndex((bound) => value <= bound);
          const bucket = found === -1 ? buckets.length : found;
          series.counts[bucket] = (series.counts[bucket] ?? 0) + 1;
          series.sum += value;
        },
      };
    },
    gauge: (name, help, values) => read(name, help, 'gauge', values),
    total: (name, help, values) => read(name, help, 'counter', values),
    text: async () => {
      printing ??= openPrinter();
      return (await printing)();
    },
  };
}

/** A series for each combination of labels. */
class ByLabels<T> {
  readonly #make: () => T;
  readonly #series = new Map<string, readonly [Record<string, string>, T]>();

  constructor(make: () => T) {
    this.#make = make;
  }

  of(labels: Labels): T {
    const key = Object.entries(labels).join(';');
    let found = this.#series.get(key);
    if (found === undefined) {
      found = [{ ...labels }, this.#make()];
      this.#series.set(key, found);
    }
    return found[1];
  }

  all(): (readonly [Record<string, string>, T])[] {
    return [...this.#series.values()];
  }
}

function histogramSamples(
  name: string,
  labels: Record<string, string>,
  buckets: readonly number[],
  { counts, sum }: { readonly counts: readonly number[]; readonly sum: number },
): Sample[] {
  let total = 0;
  const bounded = [...buckets, '+Inf'].map((le, index) => {
    total += counts[index] ?? 0;
    return { metricName: `${name}_bucket`, labels: { ...labels, le }, value: total };
  });
  return [
    ...bounded,
    { metricName: `${name}_sum`, labels, value: sum },
    { metricName: `${name}_count`, labels, value: total },
  ];
}

/** Measures how long something takes, and how it ended (`outcome`: ok, failed). */
export async function timed<T>(histogram: Histogram, work: () => Promise<T>, labels: Labels = {}): Promise<T> {
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
