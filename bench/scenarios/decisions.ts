import { execFile } from 'node:child_process';
import { mkdir, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { freePort } from '../../test/support/opa.js';
import { type DeciderKind, startDecider } from '../lib/decider.js';
import type { Measured } from '../lib/figure.js';
import { load } from '../lib/load.js';
import { RBAC_DECISION, RBAC_INPUTS, RBAC_REPO } from '../lib/rbac.js';
import type { Bench, Scenario } from '../lib/scenario.js';
import { folder, repository } from '../lib/stage.js';
import { type System, startClient, startServer } from '../lib/system.js';
import { startBareOpa } from '../raw/bare-opa.js';

const REST_1 = 'decisions over REST, 1 connection';
const REST_16 = 'decisions over REST, 16 connections';
const ONE = 'decisions in process, one after the other';
const MANY = 'decisions in process, 16 at a time';

const run = promisify(execFile);

/** What comes before is not counted: code becomes fast by use, and an embedded engine compiles a decision when it is asked for. */
const WARM_UP_MS = 3_000;
const PREPARED = { EMBEDDED_ENGINE_ENTRYPOINTS: RBAC_DECISION };

interface Slices {
  readonly slices: number;
  readonly sliceMs: number;
}

/** Counts in slices, after a warm-up. */
async function warm(bench: Bench, count: (slices: Slices) => Promise<readonly number[]>): Promise<readonly number[]> {
  await count({ slices: 1, sliceMs: WARM_UP_MS });
  return await count({ slices: bench.pick(10, 3), sliceMs: bench.pick(1_000, 300) });
}

async function overRest(bench: Bench, engineUrl: string): Promise<readonly Measured[]> {
  const measured: Measured[] = [];
  for (const [metric, connections] of [
    [REST_1, 1],
    [REST_16, 16],
  ] as const) {
    const question = {
      url: `${engineUrl}/v1/data/${RBAC_DECISION}`,
      bodies: RBAC_INPUTS.map((input) => JSON.stringify({ input })),
      ...{ connections, status: 200 },
    };
    const samples = await warm(bench, async (slices) => (await load({ ...question, ...slices })).perSecond);
    measured.push({ metric, unit: '1/s', samples });
  }
  return measured;
}

async function inProcess(
  bench: Bench,
  kind: DeciderKind,
  { metric, inFlight }: { metric: string; inFlight: number },
): Promise<Measured> {
  await using decider = await startDecider(kind);
  const samples = await warm(bench, (slices) => decider.count({ inFlight, ...slices }));
  return { metric, unit: '1/s', samples };
}

async function measure(bench: Bench, system: System): Promise<readonly Measured[]> {
  const { dir } = bench;
  const repo = await repository(dir, RBAC_REPO);
  const server = bench.keep(await startServer(system, { dir: await folder(dir, 'server'), repoUrl: repo.url }));
  const measured: Measured[] = [];
  {
    await using client = await startClient(system, {
      ...{ dir: await folder(dir, 'client'), serverUrl: server.url },
      own: { embedded: PREPARED },
    });
    measured.push(...(await overRest(bench, client.engineUrl)));
  }
  const client = async (own: Record<string, string>): Promise<DeciderKind> => ({
    what: 'client',
    settings: {
      SYNC_SERVER_URL: server.url,
      SYNC_CLIENT_API_SERVER_PORT: '0',
      SYNC_POLICY_STORE_URL: `http://127.0.0.1:${await freePort()}`,
      ...(system.name === 'embedded' ? own : { SYNC_INLINE_ENGINE_EXEC_PATH: bench.opa }),
    },
  });
  const embedded = { SYNC_ENGINE: 'embedded', SYNC_EMBEDDED_ENGINE_ENTRYPOINTS: RBAC_DECISION };
  const onMain = await client({ ...embedded, SYNC_EMBEDDED_ENGINE_THREAD: 'main' });
  measured.push(await inProcess(bench, onMain, { metric: ONE, inFlight: 1 }));
  measured.push(await inProcess(bench, await client(embedded), { metric: MANY, inFlight: 16 }));
  return measured;
}

async function raw(bench: Bench): Promise<readonly Measured[]> {
  const { dir } = bench;
  for (const [path, text] of Object.entries(RBAC_REPO)) {
    await mkdir(dirname(join(dir, path)), { recursive: true });
    await writeFile(join(dir, path), text);
  }
  const policyFile = join(dir, 'app', 'rbac.rego');
  const dataFile = join(dir, 'data.json');
  const measured: Measured[] = [];
  {
    await using opa = await startBareOpa(dir, [policyFile, dataFile]);
    measured.push(...(await overRest(bench, opa.url)));
  }
  const bundle = join(dir, 'compiled.tar.gz');
  await run(bench.opa, ['build', '-t', 'wasm', '-e', RBAC_DECISION, '-o', bundle, policyFile]);
  await run('tar', ['-xzf', bundle, '-C', dir, '/policy.wasm']);
  const sdk: DeciderKind = { what: 'opa-wasm', wasmFile: join(dir, 'policy.wasm'), dataFile };
  return [...measured, await inProcess(bench, sdk, { metric: ONE, inFlight: 1 })];
}

export const decisionsScenario: Scenario = {
  name: 'decisions',
  about:
    'Decisions by roles (2,000 users, 50 roles): over REST, and by the library: one at a time in the thread of the caller, 16 in flight to the worker thread (embedded).',
  rawIs: 'a bare OPA over REST; in process, the SDK opa-wasm',
  withoutPeer: true,
  goals: [
    { for: 'embedded', metric: ONE, statistic: 'median', of: { system: 'raw' }, atLeast: 1, check: 0.3 },
    { for: 'embedded', metric: ONE, statistic: 'median', of: { system: 'raw', metric: REST_1 }, atLeast: 30, check: 8 },
    {
      for: 'embedded',
      metric: MANY,
      statistic: 'median',
      of: { system: 'raw', metric: REST_16 },
      atLeast: 10,
      check: 2,
    },
    { for: 'embedded', metric: REST_1, statistic: 'median', of: { system: 'raw' }, atLeast: 1, check: 0.3 },
    { for: 'embedded', metric: REST_16, statistic: 'median', of: { system: 'raw' }, atLeast: 1, check: 0.3 },
  ],
  raw,
  measure,
};
