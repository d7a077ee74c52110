import { Redis } from 'ioredis';
import { request } from 'undici';
import { type BackboneServer, backboneOffer } from '../../test/support/backbone-servers.js';
import { together } from '../../test/support/together.js';
import type { Measured } from '../lib/figure.js';
import { mustHaveSockets } from '../lib/files.js';
import { type Publisher, publisher, urlEntry } from '../lib/publish.js';
import type { Bench, Scenario } from '../lib/scenario.js';
import { folder } from '../lib/stage.js';
import { subscribers } from '../lib/subscribers.js';
import { type Server, type System, startServer } from '../lib/system.js';
import { pause, until } from '../lib/wait.js';

const REST = 'through the backbone in a second at rest';
const REST_CPU = 'processor time of both in a second at rest';
const WAIT = 'a wait for all clients of two instances';
const WAIT_ALONE = 'a wait for as many clients of one';
const CPU = 'processor time of both for an update';
/** Of one with the clients of both. */
const CPU_ALONE = 'processor time of one for an update';
const MANY = ', ten times the clients';
/** Clients of each of two instances: a tenth at first, then all. A process may often have 20,000 open files, and one instance has them all. */
const CLIENTS = { normal: 9_000, quick: 1_000 };
const WAITS = 10;
const LONG_MS = 300_000;
const LOOK_EVERY_MS = 500;
const ASKED = '?wait=applied&timeout=50s';

async function measure(bench: Bench, system: System): Promise<readonly Measured[]> {
  const all = bench.pick(CLIENTS.normal, CLIENTS.quick);
  mustHaveSockets(2 * all);
  const few = await measured(bench, system, all / 10);
  const many = await measured(bench, system, all);
  return [...few, ...many.map((one) => ({ ...one, metric: one.metric + MANY }))];
}

/** Two instances with so many clients each, and one with as many in all. */
async function measured(bench: Bench, system: System, count: number): Promise<readonly Measured[]> {
  await using backbone = await (await backboneOffer('Redis')).start({ isHasty: true });
  const own = { policysync: { BROADCAST_URI: backbone.uri, HEARTBEAT_INTERVAL: String(beat(bench)) } };
  const two = [`one-${count}`, `two-${count}`].map((name) => ({ name, clients: count, own }));
  const [rest, waits] = await crowd(bench, system, two, async (parts) => [
    await atRest(bench, parts.servers, backbone),
    await waited(parts),
  ]);
  const one = [{ name: `alone-${count}`, clients: 2 * count, own: {} }];
  const alone = await crowd(bench, system, one, waited);
  return [
    { metric: REST, unit: 'KB', samples: [rest.kb] },
    { metric: REST_CPU, unit: 'ms', samples: [rest.cpu] },
    { metric: WAIT, unit: 'ms', samples: waits.times },
    { metric: CPU, unit: 'ms', samples: [waits.cpu] },
    { metric: WAIT_ALONE, unit: 'ms', samples: alone.times },
    { metric: CPU_ALONE, unit: 'ms', samples: [alone.cpu] },
  ];
}

interface Crowd {
  readonly servers: readonly Server[];
  readonly publisher: Publisher;
}

/** Works with servers whose clients report, once each of them lists all clients. */
async function crowd<T>(
  bench: Bench,
  system: System,
  parts: readonly { name: string; clients: number; own: Record<string, Record<string, string>> }[],
  work: (crowd: Crowd) => Promise<T>,
): Promise<T> {
  await using ends = together<AsyncDisposable>();
  const servers: Server[] = [];
  for (const { name, clients, own } of parts) {
    const server = await startServer(system, { dir: await folder(bench.dir, name), own });
    ends.add(server);
    servers.push(server);
    const load = subscribers(server.url, { answer: false, ours: name });
    ends.add(load);
    await load.connect(clients);
  }
  const total = parts.reduce((sum, { clients }) => sum + clients, 0);
  await using first = publisher(servers[0]?.url ?? '');
  // All have reported once, and code has run for the first time.
  await first.publish([urlEntry('http://127.0.0.1:1/users', '/users')], 'first', ASKED);
  for (const { url } of servers) {
    await until(`${url} lists ${total} clients`, LONG_MS, async () => {
      const { body } = await request(`${url}/clients?limit=1`);
      const { total: listed, incomplete } = (await body.json()) as { total: number; incomplete: string | null };
      if (listed === total && incomplete === null) return true;
      await pause(LOOK_EVERY_MS);
      return false;
    });
  }
  return await work({ servers, publisher: first });
}

/** KB through the backbone, and processor time of the servers, in a second in which nothing happens. */
async function atRest(
  bench: Bench,
  servers: readonly Server[],
  backbone: BackboneServer,
): Promise<{ readonly kb: number; readonly cpu: number }> {
  const seconds = bench.pick(60, 15);
  const redis = new Redis(backbone.uri);
  try {
    // What the last change led to is over, and what the first reports say of clocks is known better.
    await pause(3 * beat(bench) * 1000);
    const [bytes, cpu] = [await bytesOf(redis), cpuOf(servers)];
    await pause(seconds * 1000);
    const [moreBytes, moreCpu] = [await bytesOf(redis), cpuOf(servers)];
    return { kb: (moreBytes - bytes) / 1000 / seconds, cpu: (moreCpu - cpu) / seconds };
  } finally {
    redis.disconnect();
  }
}

/** Seconds between two reports of a client that has nothing to say. */
function beat(bench: Bench): number {
  return bench.pick(15, 4);
}

async function bytesOf(redis: Redis): Promise<number> {
  const stats = await redis.info('stats');
  const of = (name: string): number => Number(new RegExp(`${name}:(\\d+)`).exec(stats)?.[1] ?? Number.NaN);
  return of('total_net_input_bytes') + of('total_net_output_bytes');
}

function cpuOf(servers: readonly Server[]): number {
  return servers.reduce((sum, server) => sum + server.usage().cpuMs, 0);
}

/** How long updates take until all have said that they hold them, and what one costs. */
async function waited({ servers, publisher: own }: Crowd): Promise<{ times: readonly number[]; cpu: number }> {
  const times: number[] = [];
  const cpu = cpuOf(servers);
  for (let at = 0; at < WAITS; at++) {
    const startMs = performance.now();
    await own.publish([urlEntry('http://127.0.0.1:1/users', '/users')], `wait ${at}`, ASKED);
    times.push(performance.now() - startMs);
  }
  return { times, cpu: (cpuOf(servers) - cpu) / WAITS };
}

const self = (metric: string) => ({ system: 'self' as const, metric });

export const presenceScenario: Scenario = {
  name: 'presence',
  about:
    'Two instances over Redis with 900 and with 9,000 clients each (quick: 100 and 1,000), at rest and with updates that all must hold.',
  rawIs: 'nothing: each figure is held against that with a tenth of the clients, or of one instance with as many',
  goals: [
    { metric: REST + MANY, statistic: 'median', of: self(REST), atMost: 1.5, plus: 4, check: 2 },
    { metric: WAIT + MANY, statistic: 'median', of: self(WAIT_ALONE + MANY), atMost: 2, plus: 500, check: 4 },
    { metric: CPU + MANY, statistic: 'median', of: self(CPU), atMost: 11, check: 14 },
    { metric: REST_CPU + MANY, statistic: 'median', of: self(REST_CPU), atMost: 11, check: 14 },
  ],
  withoutPeer: true,
  raw: async () => [],
  measure,
};
