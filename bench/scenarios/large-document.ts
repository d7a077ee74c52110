import { type Measured, watch } from '../lib/figure.js';
import { urlEntry } from '../lib/publish.js';
import type { Bench, Scenario } from '../lib/scenario.js';
import { type Stage, startBareStage, startStage } from '../lib/stage.js';
import { pause } from '../lib/wait.js';

const TIME = 'publish to readable, one document of 50 MB';
const MEMORY = 'peak memory of the client above idle';
const WITHIN_MS = 50_000;

async function measured(bench: Bench, stage: Stage): Promise<readonly Measured[]> {
  const { source, publisher, reader, programs, client } = stage;
  const bytes = bench.pick(50_000_000, 10_000_000);
  const times: number[] = [];
  const aboveIdle: number[] = [];
  const publish = async (n: number, size: number): Promise<number> => {
    const startMs = performance.now();
    const [readMs] = await Promise.all([
      reader.reads('/large/n', (answer) => answer.includes(`:${n}}`), WITHIN_MS, { isLong: true }),
      publisher.publish([urlEntry(source.document(n, size), '/large')]),
    ]);
    return readMs - startMs;
  };
  await publish(1, 1_000);
  await warmSource(source.document(0, bytes));
  await pause(1_000);
  const idle = client?.usage().rssBytes ?? 0;
  const used = watch(programs);
  for (let n = 2; n < 2 + bench.pick(3, 1); n++) {
    client?.resetPeak();
    times.push(await publish(n, bytes));
    if (client !== undefined) aboveIdle.push((client.usage().peakBytes - idle) / 1e6);
  }
  return [
    { metric: TIME, unit: 'ms', samples: times, cost: used() },
    ...(aboveIdle.length === 0 ? [] : [{ metric: MEMORY, unit: 'MB' as const, samples: aboveIdle }]),
  ];
}

/** Making the text is not what is measured. */
async function warmSource(url: string): Promise<void> {
  const response = await fetch(url);
  await response.body?.pipeTo(new WritableStream());
}

export const largeDocumentScenario: Scenario = {
  name: 'large-document',
  about: 'One document of 50 MB behind a URL, with nothing else going on (quick: 10 MB).',
  rawIs: 'one process that pipes the document from its URL into OPA',
  goals: [
    { metric: TIME, statistic: 'median', of: { system: 'raw' }, atMost: 1.25, check: 3 },
    { metric: MEMORY, statistic: 'median', of: 'number', atMost: 40, check: 120 },
  ],
  raw: async (bench) => measured(bench, await startBareStage(bench, { durable: false })),
  measure: async (bench, system) =>
    measured(
      bench,
      await startStage(bench, system, {
        // OPAL's limits are on the whole read, five seconds and ten: a document of this size needs more.
        client: { own: { opal: { HTTP_FETCHER_TIMEOUT: '60', FETCHING_CALLBACK_TIMEOUT: '60' } } },
      }),
    ),
};
