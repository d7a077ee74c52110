import { type Measured, watch } from '../lib/figure.js';
import { publishToReadable } from '../lib/latency.js';
import type { Bench, Scenario } from '../lib/scenario.js';
import { type Stage, startBareStage, startStage } from '../lib/stage.js';

const METRIC = 'publish to readable';

async function measured(bench: Bench, stage: Stage): Promise<readonly Measured[]> {
  const used = watch(stage.programs);
  const samples = await publishToReadable(stage, { count: bench.pick(1_000, 100), limitMs: bench.pick(20_000, 5_000) });
  return [{ metric: METRIC, unit: 'ms', samples, cost: used() }];
}

export const publishToReadableScenario: Scenario = {
  name: 'publish-to-readable',
  about:
    'One update with a document of 1 KB behind a URL: from the publisher to the answer of OPA, one after the other.',
  rawIs: 'one process that appends with a flush, reads the URL, and puts the document into OPA',
  goals: [
    { metric: METRIC, statistic: 'median', of: { system: 'raw' }, atMost: 2, check: 6 },
    { metric: METRIC, statistic: 'median', of: { system: 'opal' }, atMost: 1 / 4 },
    { metric: METRIC, statistic: 'p99', of: { system: 'opal' }, atMost: 1 / 8 },
    { for: 'embedded', metric: METRIC, statistic: 'median', of: { system: 'policysync' }, atMost: 0.6, check: 1.5 },
  ],
  raw: async (bench) => measured(bench, await startBareStage(bench, { durable: true })),
  measure: async (bench, system) => measured(bench, await startStage(bench, system)),
};
