import { type Measured, watch } from '../lib/figure.js';
import { modulePath, modules, moduleText } from '../lib/modules.js';
import { childrenOf } from '../lib/proc.js';
import { pushed } from '../lib/push.js';
import { type Reader, reader } from '../lib/reader.js';
import type { Bench, Scenario } from '../lib/scenario.js';
import { folder, repository, startStage } from '../lib/stage.js';
import type { System } from '../lib/system.js';
import { pause } from '../lib/wait.js';
import { startBareEngine } from '../raw/bare-engine.js';
import { bareGit } from '../raw/bare-git.js';

const TIME = 'webhook to new policy in OPA';
const GATED = 'webhook to new policy in OPA, with the policy gate';
/** What the gate may add. */
const GATE_MS = 1500;
const MODULES = 200;
const WITHIN_MS = 30_000;
/** OPA asks for a bundle again this long after one was loaded: a change that comes before waits, in every way that it can be loaded. */
const APART_MS = 1_200;

/** Changes a module over and over. Each time runs from the moment at which the new commit is there, until OPA answers by it. */
async function changes(
  bench: Bench,
  engine: Reader,
  change: (files: Record<string, string>) => Promise<() => Promise<void>>,
): Promise<number[]> {
  const samples: number[] = [];
  const limitMs = performance.now() + bench.pick(35_000, 8_000);
  const count = bench.pick(15, 3);
  for (let at = -1; at < count && performance.now() < limitMs; at++) {
    await pause(APART_MS);
    const version = at + 10;
    const bringIn = await change({ [modulePath(0)]: moduleText(0, version) });
    const startMs = performance.now();
    const [readMs] = await Promise.all([
      engine.reads('/services/s0/m0/version', (answer) => answer.includes(`:${version}}`), WITHIN_MS, { isLong: true }),
      bringIn(),
    ]);
    if (at >= 0) samples.push(readMs - startMs);
  }
  return samples;
}

async function measure(bench: Bench, system: System): Promise<readonly Measured[]> {
  const { repo, server, reader: engine, programs } = await startStage(bench, system, { files: modules(MODULES) });
  const used = watch(programs);
  const samples = await changes(bench, engine, async (files) => {
    const commit = await repo.commit(files);
    return () => pushed(server.url, repo.path, commit);
  });
  const plain: Measured = { metric: TIME, unit: 'ms', samples, cost: used() };
  return system.name === 'opal' ? [plain] : [plain, await gated(bench, system)];
}

/** The same with servers that compile each commit before they serve it, each push alone: what the one before left is ended first. */
async function gated(bench: Bench, system: System): Promise<Measured> {
  const stage = await startStage({ ...bench, dir: await folder(bench.dir, 'gated') }, system, {
    files: modules(MODULES),
    server: { own: { policysync: { POLICY_GATE: 'on' } } },
  });
  const used = watch(stage.programs);
  const samples = await changes(bench, stage.reader, async (files) => {
    for (const check of childrenOf(stage.server.pid)) process.kill(check, 'SIGKILL');
    const commit = await stage.repo.commit(files);
    return () => pushed(stage.server.url, stage.repo.path, commit);
  });
  return { metric: GATED, unit: 'ms', samples, cost: used() };
}

async function raw(bench: Bench): Promise<readonly Measured[]> {
  const files = modules(MODULES);
  const repo = await repository(bench.dir, files);
  const { path: gitDir } = await bareGit(bench.dir, repo.url);
  const engine = bench.keep(await startBareEngine({ dir: bench.dir, files, gitDir }));
  const questions = bench.keep(await reader(engine.url));
  await questions.reads('/services/s0/m0/version', (answer) => answer.includes(':1}'), WITHIN_MS);
  const samples = await changes(bench, questions, async (changed) => {
    await repo.commit(changed);
    await engine.prepare({ ...files, ...changed });
    return engine.offer;
  });
  return [{ metric: TIME, unit: 'ms', samples }];
}

export const webhookScenario: Scenario = {
  name: 'webhook',
  about: 'One module of 200 is changed: from the webhook of the push to the answer of OPA.',
  rawIs: 'git fetch, then a bare OPA that loads a bundle which is there (one PUT of the module takes it longer)',
  goals: [
    { metric: TIME, statistic: 'median', of: { system: 'raw' }, atMost: 1.5, check: 4 },
    { metric: TIME, statistic: 'median', of: { system: 'opal' }, atMost: 1 },
    { metric: GATED, statistic: 'median', of: { system: 'self', metric: TIME }, atMost: 1, plus: GATE_MS, check: 8 },
  ],
  raw,
  measure,
};
