/**
 * How many files each of the main ways passes: of every file of `src/`, whether a function of it runs meanwhile, by the coverage of
 * V8. Server, client and engine run in this process; what happens at rest is left out.
 *
 *   node build/bench/ways.js [--names]      after a compile of any run
 */
import { Session } from 'node:inspector/promises';
import { fileURLToPath } from 'node:url';
import {
  CLIENT_SETTINGS,
  createClient,
  createServer,
  loadSettings,
  SERVER_SETTINGS,
  silentLogger,
} from '../src/index.js';
import { gitRepo } from '../test/support/git-repo.js';
import { postJson } from '../test/support/http.js';
import { tempDir } from '../test/support/temp-dir.js';
import { until } from '../test/support/until.js';

const SRC = fileURLToPath(new URL('../src/', import.meta.url));
const QUIET = {
  SYNC_KEEP_ALIVE_INTERVAL: '600',
  SYNC_POLICY_REPO_POLLING_INTERVAL: '0',
};
const withNames = process.argv.includes('--names');

const session = new Session();
session.connect();
await session.post('Profiler.enable');
await session.post('Profiler.startPreciseCoverage', { callCount: true, detailed: false });

/** Functions that ran since this was asked last, by file. */
async function taken(): Promise<Map<string, Set<string>>> {
  const { result } = await session.post('Profiler.takePreciseCoverage');
  const files = new Map<string, Set<string>>();
  for (const { url, functions } of result) {
    if (!url.startsWith('file://')) continue;
    const path = fileURLToPath(url);
    if (!path.startsWith(SRC)) continue;
    for (const { functionName, ranges } of functions) {
      const [range] = ranges;
      if (range === undefined || range.count === 0) continue;
      if (functionName === '' && range.startOffset === 0) continue; // the module itself
      const name = `${functionName}@${range.startOffset}`;
      const file = path.slice(SRC.length);
      files.set(file, (files.get(file) ?? new Set()).add(name));
    }
  }
  return files;
}

async function way(name: string, action: () => Promise<unknown>): Promise<void> {
  await action(); // loads what is loaded when it is needed
  await new Promise((resolve) => setTimeout(resolve, 1500));
  await taken();
  await new Promise((resolve) => setTimeout(resolve, 1000));
  const idle = await taken();
  await action();
  const files = await taken();
  const own = [...files]
    .filter(([file, functions]) => [...functions].some((ran) => !idle.get(file)?.has(ran)))
    .map(([file, functions]) => ({ file, functions: functions.size }));
  console.log(`${name}: ${own.length} files, ${own.reduce((sum, { functions }) => sum + functions, 0)} functions`);
  if (withNames) for (const { file, functions } of own) console.log(`    ${file.replace(/\.js$/, '')} ${functions}`);
}

await using repo = await gitRepo();
let commits = 0;
const commit = () =>
  repo.commit({
    'app/rego.rego': `package app\nimport rego.v1\nallow if input.n == data.limit\nrevision := ${++commits}\n`,
  });
await commit();
await using folder = await tempDir();
const server = createServer(
  {
    ...loadSettings(SERVER_SETTINGS, {
      env: { SYNC_SERVER_BIND_PORT: '0', SYNC_POLICY_GATE: 'off', SYNC_POLICY_REPO_URL: repo.url, ...QUIET },
    }).values,
    stateDir: folder.path,
  },
  { log: silentLogger() },
);
const { url } = await server.start();
const client = createClient(
  loadSettings(CLIENT_SETTINGS, {
    env: { SYNC_SERVER_URL: url, SYNC_ENGINE: 'embedded', SYNC_CLIENT_API_SERVER_PORT: '0' },
  }).values,
  { log: silentLogger() },
);
await client.start();
const result = async (path: string): Promise<unknown> => (await client.decide(path)).result;
const WITHIN = { withinMs: 20_000, what: 'it is there' };

let value = 0;
await way('data update', async () => {
  value++;
  const entries = [{ url: '', topics: ['policy_data'], dst_path: '/limit', data: value }];
  await postJson(`${url}/data/config`, { entries, reason: 'way' });
  await until(async () => (await result('/limit')) === value, WITHIN);
});
await way('commit', async () => {
  await commit();
  await postJson(`${url}/policy/refresh`, {});
  await until(async () => (await result('app/revision')) === commits, WITHIN);
});
await way('decision (embedded)', async () => {
  await client.decide('app/allow', { n: value });
});
await client.stop();
await server.stop();
