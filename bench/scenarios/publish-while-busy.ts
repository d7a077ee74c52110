import { type Measured, pooled, watch } from '../lib/figure.js';
import { publishToReadable } from '../lib/latency.js';
import { modulePath, modules, moduleText } from '../lib/modules.js';
import { publisher } from '../lib/publish.js';
import { pushed } from '../lib/push.js';
import type { Bench, Scenario } from '../lib/scenario.js';
import { folder, type Stage, startBareStage, startStage } from '../lib/stage.js';
import type { System } from '../lib/system.js';
import { startBareEngine } from '../raw/bare-engine.js';

const MODULES = 200;
const QUIET = 'quiet, small repository';
const HEALTH = 'health document, 200 modules';
const BUNDLE = 'while bundles are applied';
const MEETS = 'the update that meets a bundle';
const COMPACTION = 'while the log compacts';

/** Between two commits. OPA takes no write while it loads a bundle: some update meets each, most do not. */
const COMMIT_EVERY_MS = 3_000;
/** How often two stages are measured by turns, and updates that come before: their programs have just started. */
const TURNS = 8;
const WARM_UP = 100;
/** Updates of the load that are under way at a time. */
const FILLERS = 2;

/** Does something over and over while something else is measured. */
async function beside<T>(work: (at: number) => Promise<void>, measure: () => Promise<T>): Promise<T> {
  let isOver = false;
  const working = (async () => {
    for (let at = 0; !isOver; at++) await work(at);
  })();
  try {
    return await measure();
  } finally {
    isOver = true;
    await working;
  }
}

/** Two stages by turns, a few updates each: what the machine does meanwhile meets both. */
async function inTurns(
  bench: Bench,
  one: { metric: string; stage: Stage },
  other: { metric: string; stage: Stage },
): Promise<readonly Measured[]> {
  const all: Measured[] = [];
  for (let turn = 0; turn < TURNS; turn++) {
    for (const { metric, stage } of [one, other]) {
      const used = watch(stage.programs);
      const [count, limitMs] = [bench.pick(600, 80) / TURNS, bench.pick(7_000, 2_000) / TURNS];
      const samples = await publishToReadable(stage, { count, limitMs, warmUp: turn === 0 ? WARM_UP : 2 });
      all.push({ metric, unit: 'ms', samples, cost: used() });
    }
  }
  return pooled(all);
}

async function latency(metric: string, stage: Stage, bench: Bench): Promise<Measured> {
  const used = watch(stage.programs);
  const samples = await publishToReadable(stage, { count: bench.pick(600, 80), limitMs: bench.pick(7_000, 2_000) });
  return { metric, unit: 'ms', samples, cost: used() };
}

/** Publishes one after the other, also while modules change. The slowest update after each change is the one that met it. */
async function whileBundles(
  stage: Stage,
  bench: Bench,
  change: (files: Record<string, string>) => Promise<void>,
): Promise<readonly Measured[]> {
  const all: number[] = [];
  const meets: number[] = [];
  const used = watch(stage.programs);
  for (let at = 0; at < bench.pick(5, 2); at++) {
    await change({ [modulePath(at)]: moduleText(at, at + 2) });
    const samples = await publishToReadable(stage, { count: 5_000, limitMs: COMMIT_EVERY_MS, warmUp: 0 });
    all.push(...samples);
    meets.push(Math.max(...samples));
  }
  return [
    { metric: BUNDLE, unit: 'ms', samples: all, cost: used() },
    { metric: MEETS, unit: 'ms', samples: meets },
  ];
}

/** Updates that nobody subscribes to and that replace each other: each makes a record superfluous. */
async function whileCompacting(stage: Stage, bench: Bench): Promise<Measured> {
  const fillers = Array.from({ length: FILLERS }, () => bench.keep(publisher(stage.server.url)));
  const fill = async (at: number): Promise<void> => {
    const entry = {
      url: '',
      topics: ['elsewhere'],
      dst_path: `/fill/p${at % 50}`,
      data: { at, text: 'x'.repeat(200) },
    };
    await Promise.all(fillers.map((filler) => filler.publish([entry])));
  };
  return await beside(fill, () => latency(COMPACTION, stage, bench));
}

async function measure(bench: Bench, system: System): Promise<readonly Measured[]> {
  const quiet = await startStage(bench, system, {
    // None is kept: each thousand that are superfluous are dropped.
    server: { own: { policysync: { LOG_KEPT_RECORDS: '0' } } },
  });
  const busy = await startStage({ ...bench, dir: await folder(bench.dir, 'modules') }, system, {
    files: modules(MODULES),
    healthDocument: true,
  });
  const turns = await inTurns(bench, { metric: QUIET, stage: quiet }, { metric: HEALTH, stage: busy });
  const change = async (files: Record<string, string>): Promise<void> => {
    await busy.repo.commit(files);
    await pushed(busy.server.url, busy.repo.path);
  };
  const bundles = await whileBundles(busy, bench, change);
  return [...turns, await whileCompacting(quiet, bench), ...bundles];
}

async function raw(bench: Bench): Promise<readonly Measured[]> {
  const quiet = await latency(QUIET, await startBareStage(bench, { durable: true }), bench);
  const files = modules(MODULES);
  const dir = await folder(bench.dir, 'modules');
  const engine = bench.keep(await startBareEngine({ dir, files }));
  const busy = await startBareStage({ ...bench, dir }, { durable: true, engine });
  const loads = await whileBundles(busy, bench, async (changed) => {
    Object.assign(files, changed);
    await engine.prepare(files);
    await engine.offer();
  });
  return [quiet, ...loads];
}

export const publishWhileBusyScenario: Scenario = {
  name: 'publish-while-busy',
  about:
    'Publish to readable with the health document and 200 modules, with a commit every 3 s, and while the log drops records.',
  rawIs: 'as in publish-to-readable; for bundles into a bare OPA that loads a bundle which is there',
  goals: [
    { metric: HEALTH, statistic: 'median', of: { system: 'self', metric: QUIET }, atMost: 1.3, check: 3 },
    { metric: BUNDLE, statistic: 'p99', of: { system: 'self', metric: QUIET }, atMost: 5, check: 40 },
    { metric: BUNDLE, statistic: 'p99', of: { system: 'raw' }, atMost: 2 },
    { metric: MEETS, statistic: 'median', of: { system: 'raw' }, atMost: 1.5, check: 4 },
    { metric: COMPACTION, statistic: 'p99', of: { system: 'self', metric: QUIET }, atMost: 5, check: 20 },
  ],
  withoutPeer: true,
  raw,
  measure,
};
