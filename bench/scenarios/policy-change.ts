import { type Measured, watch } from '../lib/figure.js';
import { modulePath, smallModules, smallModuleText } from '../lib/modules.js';
import { type Pacer, pacer } from '../lib/pacer.js';
import { pushed } from '../lib/push.js';
import { type Reader, reader } from '../lib/reader.js';
import type { Bench, Scenario } from '../lib/scenario.js';
import { startStage } from '../lib/stage.js';
import type { System } from '../lib/system.js';
import { pause } from '../lib/wait.js';
import { startBareEngine } from '../raw/bare-engine.js';

const CHANGE = 'one of 200 modules changed, until OPA answers by it';
const QUIET = 'answer while nothing changes';
const MEANWHILE = 'answer while the policy changes';
const MODULES = 200;
const WITHIN_MS = 30_000;
/** OPA asks for a bundle again this long after one was loaded. */
const APART_MS = 1_200;
const EVERY_MS = 4;
/** Another module than the one that changes. */
const QUESTION = { path: 'services/s1/m1/allow', input: { user: 'ann', action: 'read' }, everyMs: EVERY_MS };

/** Asks at a steady pace: first while nothing changes, then while one module changes over and over. */
async function measured(
  bench: Bench,
  { questions, engine }: { questions: Pacer; engine: Reader },
  change: (files: Record<string, string>) => Promise<() => Promise<void>>,
): Promise<Measured[]> {
  const changed = async (version: number): Promise<number> => {
    await pause(APART_MS);
    const bringIn = await change({ [modulePath(0)]: smallModuleText(0, version) });
    const startMs = performance.now();
    const [readMs] = await Promise.all([
      engine.reads('/services/s0/m0/version', (answer) => answer.includes(`:${version}}`), WITHIN_MS, { isLong: true }),
      bringIn(),
    ]);
    return readMs - startMs;
  };
  await changed(2); // warm
  const quiet = await questions.asks(() => pause(bench.pick(8_000, 2_000)));
  const changes: number[] = [];
  const limitMs = performance.now() + bench.pick(30_000, 8_000);
  const meanwhile = await questions.asks(async () => {
    for (let at = 0; at < bench.pick(10, 3) && performance.now() < limitMs; at++) changes.push(await changed(at + 3));
  });
  return [
    { metric: CHANGE, unit: 'ms', samples: changes },
    { metric: QUIET, unit: 'ms', samples: quiet },
    { metric: MEANWHILE, unit: 'ms', samples: meanwhile },
  ];
}

async function measure(bench: Bench, system: System): Promise<readonly Measured[]> {
  const stage = await startStage(bench, system, { files: smallModules(MODULES) });
  const { repo, server, reader: engine, programs } = stage;
  const questions = bench.keep(pacer(stage.engineUrl, QUESTION));
  const used = watch(programs);
  const [change, ...others] = await measured(bench, { questions, engine }, async (files) => {
    await repo.commit(files);
    return () => pushed(server.url, repo.path);
  });
  return change === undefined ? others : [{ ...change, cost: used() }, ...others];
}

async function raw(bench: Bench): Promise<readonly Measured[]> {
  const files = smallModules(MODULES);
  const bare = bench.keep(await startBareEngine({ dir: bench.dir, files }));
  const engine = bench.keep(await reader(bare.url));
  await engine.reads('/services/s0/m0/version', (answer) => answer.includes(':1}'), WITHIN_MS);
  const questions = bench.keep(pacer(bare.url, QUESTION));
  return measured(bench, { questions, engine }, async (changed) => {
    await bare.prepare({ ...files, ...changed });
    return bare.offer;
  });
}

export const policyChangeScenario: Scenario = {
  name: 'policy-change',
  about: 'One of 200 modules with 4 rules each changes, again and again, while the engine is asked every 4 ms.',
  rawIs: 'a bare OPA that loads a bundle which is there',
  withoutPeer: true,
  goals: [
    { for: 'embedded', metric: CHANGE, statistic: 'median', of: { system: 'policysync' }, atMost: 2, check: 4 },
    { for: 'embedded', metric: MEANWHILE, statistic: 'p99', of: { system: 'self', metric: QUIET }, atMost: 2 },
  ],
  raw,
  measure,
};
