import { type Measured, watch } from '../lib/figure.js';
import { urlEntry } from '../lib/publish.js';
import type { Bench, Scenario } from '../lib/scenario.js';
import { type Stage, startBareStage, startStage } from '../lib/stage.js';
import { median } from '../lib/statistics.js';

const TIME = 'refresh of a source of 20 MB, publish to readable';
const MEMORY = 'memory of the client after a refresh';
const PEAK = 'peak memory of the client in a refresh';
const GROWTH = 'memory of the client, last ten refreshes to those after the tenth';
const PEAK_GROWTH = 'peak memory of the client, last ten refreshes to those after the tenth';
const WITHIN_MS = 50_000;
const FIRST = 10;

/** `count` refreshes; the raw limit has no client, and is as fast with few. */
async function measured(bench: Bench, stage: Stage, count: number): Promise<readonly Measured[]> {
  const { source, publisher, reader, programs } = stage;
  const bytes = bench.pick(20_000_000, 2_000_000);
  const program = stage.client ?? stage.server;
  const [times, memory, peaks]: [number[], number[], number[]] = [[], [], []];
  const used = watch(programs);
  for (let n = 1; n <= count; n++) {
    program.resetPeak();
    const startMs = performance.now();
    const [readMs] = await Promise.all([
      reader.reads('/large/n', (answer) => answer.includes(`:${n}}`), WITHIN_MS, { isLong: true }),
      publisher.publish([urlEntry(source.document(n, bytes), '/large')]),
    ]);
    times.push(readMs - startMs);
    const { rssBytes, peakBytes } = program.usage();
    memory.push(rssBytes / 1e6);
    peaks.push(peakBytes / 1e6);
  }
  return [
    { metric: TIME, unit: 'ms', samples: times, cost: used() },
    { metric: MEMORY, unit: 'MB', samples: memory },
    { metric: PEAK, unit: 'MB', samples: peaks },
    { metric: GROWTH, unit: '%', samples: [growth(memory)] },
    { metric: PEAK_GROWTH, unit: '%', samples: [growth(peaks)] },
  ];
}

/** What the last ten need, in percent of what ten needed after the first ten. */
function growth(samples: readonly number[]): number {
  return (100 * median(samples.slice(-10))) / median(samples.slice(FIRST, FIRST + 10));
}

export const refreshedSourceScenario: Scenario = {
  name: 'refreshed-source',
  about: 'A document of 20 MB behind a URL that changes 200 times: the memory of the client (quick: 2 MB, 30 times).',
  rawIs: 'one process that pipes the document from its URL into OPA, 30 times',
  goals: [
    { metric: GROWTH, statistic: 'median', of: 'number', atMost: 110, check: 125 },
    { metric: PEAK_GROWTH, statistic: 'median', of: 'number', atMost: 110, check: 125 },
    { metric: TIME, statistic: 'median', of: { system: 'raw' }, atMost: 1.5, check: 4 },
  ],
  // Half an hour for what no goal is held against.
  withoutPeer: true,
  raw: async (bench) => measured(bench, await startBareStage(bench, { durable: false }), 30),
  measure: async (bench, system) => measured(bench, await startStage(bench, system), bench.pick(200, 30)),
};
