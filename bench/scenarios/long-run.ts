import { join } from 'node:path';
import { type BackboneServer, backboneOffer } from '../../test/support/backbone-servers.js';
import { freePort } from '../../test/support/opa.js';
import type { Measured } from '../lib/figure.js';
import { type Inside, inside, inspectedAt } from '../lib/inside.js';
import { backboneBytes, ownLogBytes } from '../lib/log-size.js';
import { openFiles, usageOf } from '../lib/proc.js';
import { type Publisher, publisher } from '../lib/publish.js';
import { type Reader, reader } from '../lib/reader.js';
import type { Bench, Scenario } from '../lib/scenario.js';
import { folder, repository, SMALL_REPO, type Stage } from '../lib/stage.js';
import { median } from '../lib/statistics.js';
import { subscribers } from '../lib/subscribers.js';
import { type Server, type System, startClient, startServer } from '../lib/system.js';
import { pause } from '../lib/wait.js';

/** What is looked at, early and late in a run. */
const LOOKS = {
  serverHeap: { name: 'heap of a server', unit: 'MB', grows: 1.1, plus: 1 },
  clientHeap: { name: 'heap of the client', unit: 'MB', grows: 1.1, plus: 1 },
  files: { name: 'open files of all of them', unit: 'files', grows: 1.05, plus: 2 },
  // SQLite writes beside its file, up to 4 MB before it begins there anew.
  log: { name: 'log', unit: 'MB', grows: 1.2, plus: 5 },
  serverMemory: { name: 'memory of a server', unit: 'MB', grows: undefined, plus: 0 },
  clientMemory: { name: 'memory of the client', unit: 'MB', grows: undefined, plus: 0 },
  latency: { name: 'publish to readable', unit: 'ms', grows: undefined, plus: 0 },
} as const;
type Look = Record<keyof typeof LOOKS, number>;
const NAMES = Object.keys(LOOKS) as (keyof typeof LOOKS)[];

const MINUTES = { normal: 4, quick: 0.75 };
/** A run is looked at so often. The first quarter is warm-up, the second is early, the last is late. */
const TIMES_LOOKED = 20;
const UPDATES_PER_SECOND = 20;
/** Every so many updates one is waited for. */
const READ_EVERY = 10;
const PLACES = 500;
/** Few, so that a short run is longer than what the log keeps. */
const KEPT_RECORDS = 200;
/** They stay, and as many come and go each time it is looked at, under the same names: who is away is remembered. */
const SUBSCRIBERS = 20;
const READABLE_MS = 60_000;

interface Run {
  readonly servers: readonly { readonly server: Server; readonly inside: Inside; readonly dir: string }[];
  readonly client: { readonly pid: number; readonly inside: Inside };
  readonly backbone: BackboneServer | undefined;
  readonly repo: Stage['repo'];
  readonly publisher: Publisher;
  readonly reader: Reader;
}

async function measure(bench: Bench, system: System): Promise<readonly Measured[]> {
  const minutes = bench.minutes ?? bench.pick(MINUTES.normal, MINUTES.quick);
  const run = await start(bench, system);
  const looks: Look[] = [];
  let updates = 0;
  for (let at = 0; at < TIMES_LOOKED; at++) {
    const latencies: number[] = [];
    await run.repo.commit({ 'app/data.json': JSON.stringify({ at }) });
    {
      await using passing = subscribers(run.servers[0]?.server.url ?? '', { answer: false, ours: 'passing' });
      await passing.connect(SUBSCRIBERS);
      const endMs = performance.now() + (minutes * 60_000) / TIMES_LOOKED;
      while (performance.now() < endMs) {
        const nextMs = performance.now() + 1000 / UPDATES_PER_SECOND;
        latencies.push(...(await update(run, updates++)));
        await pause(Math.max(0, nextMs - performance.now()));
      }
    }
    const look = await looked(run, median(latencies));
    looks.push(look);
    console.error(
      `    ${at + 1}/${TIMES_LOOKED} ${NAMES.map((name) => `${name} ${look[name].toFixed(1)}`).join(', ')}`,
    );
  }
  const quarter = TIMES_LOOKED / 4;
  return NAMES.flatMap((name): Measured[] => {
    const samples = looks.map((look) => look[name]);
    const { unit } = LOOKS[name];
    return [
      { metric: early(name), unit, samples: samples.slice(quarter, 2 * quarter) },
      { metric: late(name), unit, samples: samples.slice(-quarter) },
    ];
  });
}

/** Publishes one update, of which each tenth is waited for: how long that took until the engine had it, in ms. */
async function update({ publisher: own, reader: asks }: Run, at: number): Promise<readonly number[]> {
  const path = `/places/p${at % PLACES}`;
  const entry = { url: '', topics: ['policy_data'], dst_path: path };
  if (at % READ_EVERY === 0) {
    const startMs = performance.now();
    await own.publish([{ ...entry, dst_path: '/seen', data: { at } }]);
    const readMs = await asks.reads('/seen', (text) => text.includes(`"at":${at}}`), READABLE_MS);
    return [readMs - startMs];
  }
  // The places come round every 500 updates, so that each of them is written, changed and removed in turn.
  const kind = (at + Math.floor(at / PLACES)) % 5;
  if (kind === 0) await own.publish([{ ...entry, save_method: 'DELETE' }]);
  else if (kind === 1) {
    const data = [{ op: 'add', path: `/m${at % 7}`, value: { at } }];
    await own.publish([{ ...entry, save_method: 'PUT', data: {} }]);
    await own.publish([{ ...entry, save_method: 'PATCH', data }]);
  } else await own.publish([{ ...entry, save_method: 'PUT', data: { at, pad: 'x'.repeat((at * 37) % 400) } }]);
  return [];
}

async function looked({ servers, client, backbone }: Run, latency: number): Promise<Look> {
  const heaps = await Promise.all(servers.map((one) => one.inside.heapBytes()));
  const pids = [...servers.map(({ server }) => server.pid), client.pid];
  const bytes =
    backbone === undefined
      ? servers.reduce((sum, { dir }) => sum + ownLogBytes(join(dir, 'state')), 0)
      : await backboneBytes(backbone);
  const clientHeap = await client.inside.heapBytes();
  return {
    serverHeap: Math.max(...heaps) / 1e6,
    clientHeap: clientHeap / 1e6,
    files: pids.reduce((sum, pid) => sum + openFiles(pid), 0),
    log: bytes / 1e6,
    serverMemory: Math.max(...servers.map(({ server }) => server.usage().rssBytes)) / 1e6,
    clientMemory: usageOf(client.pid).rssBytes / 1e6,
    latency,
  };
}

/** A server, or two over a backbone, and a client of the last one. */
async function start(bench: Bench, system: System): Promise<Run> {
  const { dir } = bench;
  const repo = await repository(dir, SMALL_REPO);
  const backbone =
    bench.backbone === undefined ? undefined : bench.keep(await (await backboneOffer(bench.backbone)).start());
  const servers: Run['servers'][number][] = [];
  for (const name of backbone === undefined ? ['server'] : ['server-0', 'server-1']) {
    const port = await freePort();
    const own = await folder(dir, name);
    const server = bench.keep(
      await startServer(system, {
        dir: own,
        repoUrl: repo.url,
        nodeArgs: [inspectedAt(port)],
        own: {
          policysync: {
            POLICY_REPO_POLLING_INTERVAL: '2',
            LOG_RETENTION_RECORDS: String(KEPT_RECORDS),
            ...(backbone === undefined ? {} : { BROADCAST_URI: backbone.uri }),
          },
        },
      }),
    );
    servers.push({ server, dir: own, inside: bench.keep(await inside(port)) });
    const staying = bench.keep(subscribers(server.url, { answer: false, ours: `staying-${name}` }));
    await staying.connect(SUBSCRIBERS);
  }
  const port = await freePort();
  const client = bench.keep(
    await startClient(system, {
      dir: await folder(dir, 'client'),
      serverUrl: servers.at(-1)?.server.url ?? '',
      nodeArgs: [inspectedAt(port)],
    }),
  );
  return {
    servers,
    client: { pid: client.pid, inside: bench.keep(await inside(port)) },
    backbone,
    repo,
    publisher: bench.keep(publisher(servers[0]?.server.url ?? '')),
    reader: bench.keep(await reader(client.engineUrl)),
  };
}

function early(name: keyof typeof LOOKS): string {
  return `${LOOKS[name].name}, early`;
}

function late(name: keyof typeof LOOKS): string {
  return `${LOOKS[name].name}, late`;
}

export const longRunScenario: Scenario = {
  name: 'long-run',
  about:
    'What a server, or two over a `--backbone`, and a client have while 20 updates a second and passing subscribers go on for 4 min, or as many `--minutes` as are asked for (quick: 45 s).',
  rawIs: 'nothing: what they have late is held against what they had early',
  withoutPeer: true,
  goals: NAMES.flatMap((name) => {
    const { grows, plus } = LOOKS[name];
    if (grows === undefined) return [];
    const of = { system: 'self' as const, metric: early(name) };
    return [{ metric: late(name), statistic: 'median' as const, of, plus, atMost: grows, check: grows + 0.2 }];
  }),
  raw: async () => [],
  measure: async (bench, system) => (system.name === 'opal' ? [] : await measure(bench, system)),
};
