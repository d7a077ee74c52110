import { execFile } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { request } from 'undici';
import { bundleArchive } from '../../src/client/engine/modules/bundle-archive.js';
import type { Measured } from '../lib/figure.js';
import { modulePath, smallModules, smallModuleText } from '../lib/modules.js';
import { endedChildrenCpuMs, engineCpuMs } from '../lib/proc.js';
import { pushed } from '../lib/push.js';
import type { Bench, Scenario } from '../lib/scenario.js';
import { folder, type Stage, startStage } from '../lib/stage.js';
import type { System } from '../lib/system.js';
import { pause, until } from '../lib/wait.js';

const MODULE = 'one module changed, processor time of the engine';
const DATA = 'one data.json in a package changed, processor time of the engine';
/** Of packages below a few names. */
const MANY = ', ten times the packages';
/** A tenth of what is asked at first, and all of it later. */
const PACKAGES = { normal: 10_000, quick: 3_000 };
/** The kernel counts in steps of 10 ms: changes of data take less each. */
const TOGETHER = 10;
const WITHIN_MS = 120_000;
/** What OPA has to do afterwards. */
const REST_MS = 500;
const DATA_FILE = 'services/s0/m0/limits/data.json';

async function measure(bench: Bench, system: System): Promise<readonly Measured[]> {
  if (system.name === 'embedded') return []; // it has no process whose time this could be
  const total = bench.pick(PACKAGES.normal, PACKAGES.quick);
  const few = await measured(bench, system, total / 10);
  const many = await measured(bench, system, total);
  return [...few, ...many.map((one) => ({ ...one, metric: one.metric + MANY }))];
}

async function measured(bench: Bench, system: System, packages: number): Promise<Measured[]> {
  const files = { ...smallModules(packages), [DATA_FILE]: '{"most":0}' };
  const stage = await startStage({ ...bench, dir: await folder(bench.dir, String(packages)) }, system, { files });
  const samples: { readonly module: number[]; readonly data: number[] } = { module: [], data: [] };
  for (let at = -1; at < bench.pick(5, 3); at++) {
    const module = await used(stage, [{ [modulePath(0)]: smallModuleText(0, at + 3) }]);
    const changes = Array.from({ length: TOGETHER }, (_, n) => ({ [DATA_FILE]: `{"most":${at}.${n}}` }));
    const data = await used(stage, changes);
    if (at < 0) continue; // code that runs for the first time
    samples.module.push(module);
    samples.data.push(data / TOGETHER);
  }
  return [
    { metric: MODULE, unit: 'ms', samples: samples.module },
    { metric: DATA, unit: 'ms', samples: samples.data },
  ];
}

/** What the engine uses for these commits, one after the other; the client says when each is in. */
async function used({ repo, server, client }: Stage, commits: readonly Record<string, string>[]): Promise<number> {
  if (client === undefined) throw new Error('there is no client');
  const before = engineCpuMs(client.pid);
  for (const files of commits) {
    const commit = await repo.commit(files);
    await pushed(server.url, repo.path, commit);
    await until(`commit ${commit} is active`, WITHIN_MS, async () => {
      const { body } = await request(`${client.apiUrl}/healthy`);
      const health = (await body.json()) as { policy?: { hash?: string } };
      if (health.policy?.hash === commit) return true;
      await pause(50);
      return false;
    });
  }
  await pause(REST_MS);
  return engineCpuMs(client.pid) - before;
}

async function raw(bench: Bench): Promise<readonly Measured[]> {
  const total = bench.pick(PACKAGES.normal, PACKAGES.quick);
  const few = await evaluated(bench, total / 10);
  const many = await evaluated(bench, total);
  return [few, { ...many, metric: MODULE + MANY }];
}

/** `opa eval` of a bundle with one root. */
async function evaluated(bench: Bench, packages: number): Promise<Measured> {
  const policy = { hash: '', modules: new Map(Object.entries(smallModules(packages))) };
  const content = { policy, roots: [['services']], regions: [], v0: new Set<string>() };
  const file = join(bench.dir, `${packages}.tar.gz`);
  await writeFile(file, await bundleArchive(content, 'bare'));
  const samples: number[] = [];
  for (let at = -1; at < bench.pick(5, 3); at++) {
    const before = endedChildrenCpuMs();
    await promisify(execFile)(bench.opa, ['eval', '-b', file, 'data.services.s0.m0.version']);
    if (at >= 0) samples.push(endedChildrenCpuMs() - before);
  }
  return { metric: MODULE, unit: 'ms', samples };
}

export const manyPackagesScenario: Scenario = {
  name: 'many-packages',
  about:
    'What an engine with 1,000 and with 10,000 packages (quick: 300 and 3,000) does for a commit that changes one module, and for one that changes a data file.',
  rawIs: '`opa eval` of a bundle of these modules with one root: no daemon, and nothing before',
  goals: [
    ...[MODULE, DATA].map((metric) => ({
      for: 'inline' as const,
      metric: metric + MANY,
      statistic: 'median' as const,
      of: { system: 'self' as const, metric },
      atMost: 11,
      check: 15, // the raw limit itself varies between 10 and 14; each with each is about 30
    })),
    { for: 'inline', metric: MODULE + MANY, statistic: 'median', of: { system: 'raw' }, atMost: 1.3, check: 2 },
    {
      for: 'inline',
      metric: DATA + MANY,
      statistic: 'median',
      of: { system: 'self', metric: MODULE + MANY },
      atMost: 0.05,
      check: 0.1,
    },
  ],
  withoutPeer: true,
  raw,
  measure,
};
