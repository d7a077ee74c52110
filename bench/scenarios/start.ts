import { join } from 'node:path';
import { request } from 'undici';
import type { Measured } from '../lib/figure.js';
import { rssWithOpa } from '../lib/proc.js';
import { startProgram } from '../lib/program.js';
import { urlEntry } from '../lib/publish.js';
import type { Bench, Scenario } from '../lib/scenario.js';
import { startSource } from '../lib/source.js';
import { folder, repository, SMALL_REPO } from '../lib/stage.js';
import type { System } from '../lib/system.js';
import { pause, until } from '../lib/wait.js';

const SERVER = 'server start to first bundle';
const CLIENT = 'client start to ready';
const SERVER_MEMORY = 'memory of the server at rest';
const FIRST = 'client start to first decision';
const CLIENT_MEMORY = 'memory of the client at rest';
const BOTH_MEMORY = 'memory of the client and its OPA at rest';
/**
 * At rest: so long after its start nothing is left to do, and V8 has given back what the start took. It does so after up to 8 s without
 * work; earlier samples have one of two sizes, about 12 MB apart.
 */
const REST_MS = 10_000;
/** The embedded engine unloads its compiler by then. */
const EMBEDDED = { EMBEDDED_ENGINE_IDLE: '1' };
const BUNDLE_MS = 30_000;
/** A socket server that nobody calls. */
const BARE_NODE = `const { WebSocketServer } = await import(${JSON.stringify(import.meta.resolve('ws'))}); new WebSocketServer({ host: '127.0.0.1', port: 0 })`;

async function measure(bench: Bench, system: System): Promise<readonly Measured[]> {
  const { dir } = bench;
  const repo = await repository(dir, SMALL_REPO);
  const source = bench.keep(await startSource(dir));
  const serverMs: number[] = [];
  const clientMs: number[] = [];
  const firstMs: number[] = [];
  const serverMb: number[] = [];
  const clientMb: number[] = [];
  const bothMb: number[] = [];
  const repeats = bench.pick(5, 2);
  for (let at = 0; at < repeats; at++) {
    await using server = await system.launchServer({
      dir: await folder(dir, `server-${at}`),
      repoUrl: repo.url,
      entries: [urlEntry(source.document(0, 100), '/base')],
    });
    await until('the server answers a bundle', BUNDLE_MS, () => hasBundle(server.url));
    serverMs.push(performance.now() - server.startedMs);
    await using client = await system.launchClient({
      ...{ dir: await folder(dir, `client-${at}`), serverUrl: server.url },
      own: { embedded: EMBEDDED },
    });
    await until('the engine decides', BUNDLE_MS, () => decides(client.engineUrl));
    firstMs.push(performance.now() - client.startedMs);
    await client.ready();
    clientMs.push(performance.now() - client.startedMs);
    if (at < repeats - 2) continue;
    await pause(REST_MS);
    serverMb.push(server.usage().rssBytes / 1e6);
    clientMb.push(client.usage().rssBytes / 1e6);
    bothMb.push(rssWithOpa(client.pid) / 1e6);
  }
  return [
    { metric: SERVER, unit: 'ms', samples: serverMs },
    { metric: CLIENT, unit: 'ms', samples: clientMs },
    { metric: FIRST, unit: 'ms', samples: firstMs },
    { metric: SERVER_MEMORY, unit: 'MB', samples: serverMb },
    { metric: CLIENT_MEMORY, unit: 'MB', samples: clientMb },
    { metric: BOTH_MEMORY, unit: 'MB', samples: bothMb },
  ];
}

async function hasBundle(url: string): Promise<boolean> {
  try {
    const { statusCode, body } = await request(`${url}/policy?path=.`);
    await body.dump();
    return statusCode === 200;
  } catch {
    return false; // it does not listen yet
  }
}

async function decides(url: string): Promise<boolean> {
  try {
    const { body } = await request(`${url}/v1/data/app/rbac/allow`, { method: 'POST', body: '{"input":{}}' });
    return (await body.text()).includes('"result":false');
  } catch {
    return false; // it does not listen yet
  }
}

/** Time of a Node that imports what the program imports, module by module, and does nothing; a bare Node with ws at rest. */
async function raw(bench: Bench): Promise<readonly Measured[]> {
  const { dir } = bench;
  const importing = async (module: string): Promise<number> => {
    const url = new URL(`../../src/${module}`, import.meta.url).href;
    const program = startProgram({
      command: process.execPath,
      args: ['--input-type=module', '--eval', `await import(${JSON.stringify(url)}); process.exit(9)`],
      cwd: dir,
      logFile: join(dir, 'import.log'),
    });
    await until(`${module} is imported`, BUNDLE_MS, () => program.usage().rssBytes === 0);
    return performance.now() - program.startedMs;
  };
  const [serverMs, clientMs]: [number[], number[]] = [[], []];
  for (let at = 0; at < bench.pick(5, 2); at++) {
    serverMs.push(await importing('server/server.js'));
    clientMs.push(await importing('client/client.js'));
  }
  const bare = bench.keep(
    startProgram({
      command: process.execPath,
      args: ['--input-type=module', '--eval', BARE_NODE],
      cwd: dir,
      logFile: join(dir, 'bare.log'),
    }),
  );
  await pause(REST_MS);
  bare.mustRun();
  const megabytes = bare.usage().rssBytes / 1e6;
  return [
    { metric: SERVER, unit: 'ms', samples: serverMs },
    { metric: CLIENT, unit: 'ms', samples: clientMs },
    { metric: SERVER_MEMORY, unit: 'MB', samples: [megabytes] },
    { metric: CLIENT_MEMORY, unit: 'MB', samples: [megabytes] },
  ];
}

export const startScenario: Scenario = {
  name: 'start',
  about: 'Start of server and client with a small repository and one base document, and their memory at rest.',
  rawIs: 'a Node that imports the same modules, one file each, and ends; for memory a bare Node with ws',
  goals: [
    { metric: SERVER, statistic: 'median', of: { system: 'opal' }, atMost: 0.5 },
    { metric: CLIENT, statistic: 'median', of: { system: 'opal' }, atMost: 0.4 },
    { metric: SERVER, statistic: 'median', of: { system: 'raw' }, atMost: 5, check: 5 },
    { for: 'inline', metric: CLIENT, statistic: 'median', of: { system: 'raw' }, atMost: 6, check: 6 },
    { metric: SERVER_MEMORY, statistic: 'median', of: 'number', atMost: 95, check: 160 },
    { for: 'inline', metric: CLIENT_MEMORY, statistic: 'median', of: 'number', atMost: 85, check: 160 },
    { for: 'embedded', metric: FIRST, statistic: 'median', of: { system: 'policysync' }, atMost: 1.5, check: 3 },
    { for: 'embedded', metric: BOTH_MEMORY, statistic: 'median', of: { system: 'policysync' }, atMost: 1, check: 2 },
  ],
  raw,
  measure,
};
