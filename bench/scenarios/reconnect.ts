import { request } from 'undici';
import { type Measured, watch } from '../lib/figure.js';
import { startFleet } from '../lib/fleet.js';
import { publisher, urlEntry } from '../lib/publish.js';
import type { Bench, Scenario } from '../lib/scenario.js';
import { type Source, startSource } from '../lib/source.js';
import { folder } from '../lib/stage.js';
import { nowMs } from '../lib/subscribers.js';
import { type ServerOptions, type System, startServer } from '../lib/system.js';
import { pause } from '../lib/wait.js';

const ALL = '1,000 caught up, since the server answers';
const AFTER_WINDOW = 'last one caught up, since the jitter window ended';
const OWN = 'caught up, since its own wait was over';
const REQUESTS = 'requests to the data source for each client and restart';
const BLOCKED = 'longest block of the event loop of the server';
const CPU = 'server CPU for each client that comes back';
/** Published while they are away. */
const MISSED = 20;
const WITHIN_MS = 60_000;
const SETTLE_MS = 1_500;
const SETTLE_LOOKS = 10;
/** Resolution of the histogram behind the figure: what an idle loop shows. */
const IDLE_LOOP_MS = 10;

async function measure(bench: Bench, system: System): Promise<readonly Measured[]> {
  const count = bench.pick(1_000, 300);
  const source = bench.keep(await startSource(bench.dir));
  const options: ServerOptions = {
    dir: await folder(bench.dir, 'server'),
    entries: [urlEntry(source.document(0, 1_000), '/base')],
  };
  let server = bench.keep(await startServer(system, options));
  const again = { ...options, port: Number(new URL(server.url).port) };
  const fleet = bench.keep(startFleet());
  await fleet.start(server.url, count);
  let seq = await publish(server.url, 1);
  const [all, afterWindow, own, requests, blocked, cpu]: [number[], number[], number[], number[], number[], number[]] =
    [[], [], [], [], [], []];
  await fleet.caughtUp(seq, WITHIN_MS);
  for (let round = 0; round < bench.pick(3, 1); round++) {
    const askedBefore = await source.asked();
    await fleet.reset();
    await server.stop();
    server = bench.keep(await startServer(system, again));
    const used = watch({ server });
    const backMs = nowMs();
    await loopDelayMs(server.url); // from here on
    seq = await publish(server.url, MISSED);
    const comings = await fleet.caughtUp(seq, WITHIN_MS);
    blocked.push((await loopDelayMs(server.url)) - IDLE_LOOP_MS);
    requests.push(((await askedInAll(source)) - askedBefore) / count);
    cpu.push(((used().server?.cpuMs ?? 0) * 1000) / count);
    const lastMs = Math.max(...comings.map(({ caughtUpMs }) => caughtUpMs));
    const windowEndMs = Math.max(...comings.map(({ connectedMs, spreadMs }) => connectedMs + spreadMs));
    all.push(lastMs - backMs);
    afterWindow.push(Math.max(0, lastMs - windowEndMs));
    own.push(...comings.map(({ caughtUpMs, askedMs }) => caughtUpMs - askedMs));
  }
  return [
    { metric: ALL, unit: 'ms', samples: all },
    { metric: AFTER_WINDOW, unit: 'ms', samples: afterWindow },
    { metric: OWN, unit: 'ms', samples: own },
    { metric: REQUESTS, unit: '%', samples: requests.map((each) => 100 * each) },
    { metric: BLOCKED, unit: 'ms', samples: blocked },
    { metric: CPU, unit: 'us', samples: cpu },
  ];
}

/** How often the source was asked, once nobody has asked for a while: clients do not wait for what they have already. */
async function askedInAll(source: Source): Promise<number> {
  let asked = await source.asked();
  for (let look = 0; look < SETTLE_LOOKS; look++) {
    await pause(SETTLE_MS);
    const before = asked;
    asked = await source.asked();
    if (asked === before) break;
  }
  return asked;
}

/** Publishes so many updates; answers the seq of the last one. */
async function publish(url: string, count: number): Promise<number> {
  await using own = publisher(url);
  for (let n = 0; n < count; n++) {
    await own.publish([{ url: '', topics: ['policy_data'], dst_path: `/missed/p${n}`, data: { n } }]);
  }
  const { body } = await request(`${url}/data/updates?limit=1`);
  return ((await body.json()) as { head: number }).head;
}

/** Longest time that the event loop of the server was blocked since this was asked last; the first question starts it. */
async function loopDelayMs(url: string): Promise<number> {
  const { body } = await request(`${url}/metrics`);
  const seconds = /^nodejs_eventloop_lag_max_seconds (\S+)$/m.exec(await body.text())?.[1];
  if (seconds === undefined) throw new Error('the server does not tell how long its event loop was blocked');
  return Number(seconds) * 1000;
}

export const reconnectScenario: Scenario = {
  name: 'reconnect',
  about: 'Clients without engines all lose their server, which starts again: 1,000 (quick: 300).',
  rawIs: 'nothing: the goals are times, and numbers of requests',
  goals: [
    { metric: AFTER_WINDOW, statistic: 'p99', of: 'number', atMost: 5_000, check: 10_000 },
    { metric: OWN, statistic: 'p99', of: 'number', atMost: 5_000, check: 10_000 },
    { metric: REQUESTS, statistic: 'p99', of: 'number', atMost: 100, check: 100 },
    { metric: BLOCKED, statistic: 'p99', of: 'number', atMost: 200 },
  ],
  // Its clients have no positions, and its own are processes.
  withoutPeer: true,
  raw: () => Promise.resolve([]),
  measure,
};
