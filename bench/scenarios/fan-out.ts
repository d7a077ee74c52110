import { type Measured, watch } from '../lib/figure.js';
import { publisher, urlEntry } from '../lib/publish.js';
import type { Bench, Scenario } from '../lib/scenario.js';
import { folder } from '../lib/stage.js';
import { subscribers } from '../lib/subscribers.js';
import { type Server, startServer } from '../lib/system.js';
import { pause } from '../lib/wait.js';
import { startBare } from '../raw/bare.js';

const SUBSCRIBERS = 1_000;
const LAST = 'last of 1,000 notified';
const CPU = 'server CPU per delivery';
const LAST_ANSWERING = 'last of 1,000 notified, each answers';
const CPU_ANSWERING = 'server CPU per delivery, each answers';

async function rounds(bench: Bench, server: Server, answer: boolean): Promise<readonly Measured[]> {
  const publish = bench.keep(publisher(server.url));
  const crowd = bench.keep(subscribers(server.url, { answer }));
  await crowd.connect(SUBSCRIBERS);
  const one = (mark: number): Promise<readonly number[]> =>
    crowd.round(mark, SUBSCRIBERS, (reason) =>
      publish.publish([urlEntry('http://127.0.0.1:1/users', '/users')], reason),
    );
  const warmUp = bench.pick(10, 5);
  for (let mark = 0; mark < warmUp; mark++) await one(mark);
  const last: number[] = [];
  const perDelivery: number[] = [];
  const used = watch({ server });
  const limitMs = performance.now() + bench.pick(20_000, 4_000);
  // CPU time is told in steps of 10 ms: ten rounds make one sample of it.
  for (let block = 0; block < bench.pick(20, 5) && performance.now() < limitMs; block++) {
    const beforeMs = server.usage().cpuMs;
    for (let at = 0; at < 10; at++) {
      const times = await one(warmUp + block * 10 + at);
      if (times.length !== SUBSCRIBERS) throw new Error(`${times.length} of ${SUBSCRIBERS} subscribers were notified`);
      last.push(Math.max(...times));
    }
    perDelivery.push(((server.usage().cpuMs - beforeMs) * 1000) / (10 * SUBSCRIBERS));
  }
  const cost = used();
  await crowd[Symbol.asyncDispose]();
  return [
    { metric: answer ? LAST_ANSWERING : LAST, unit: 'ms', samples: last, cost },
    { metric: answer ? CPU_ANSWERING : CPU, unit: 'us', samples: perDelivery },
  ];
}

/** Subscribers that do not answer, where the server needs no answer, and such that do. */
async function both(bench: Bench, server: Server, needsAnswers: boolean): Promise<readonly Measured[]> {
  const answering = await rounds(bench, server, true);
  if (!needsAnswers) return [...(await rounds(bench, server, false)), ...answering];
  // What it needs is what it is compared by.
  const [last, cpu] = answering;
  if (last === undefined || cpu === undefined) throw new Error('no rounds');
  return [{ ...last, metric: LAST }, { ...cpu, metric: CPU }, ...answering];
}

export const fanOutScenario: Scenario = {
  name: 'fan-out',
  about: 'One update to 1,000 subscribers: until the last one has it, and what it costs the server.',
  rawIs: 'a bare ws server that sends one frame to all',
  goals: [
    { metric: LAST, statistic: 'median', of: { system: 'raw' }, atMost: 1.3, check: 3 },
    { metric: CPU, statistic: 'median', of: { system: 'raw' }, atMost: 2, check: 4 },
    { metric: LAST, statistic: 'median', of: { system: 'opal' }, atMost: 1 },
  ],
  raw: async (bench) => both(bench, bench.keep(await startBare({ dir: bench.dir })), false),
  measure: async (bench, system) => {
    const server = bench.keep(await startServer(system, { dir: await folder(bench.dir, 'server') }));
    return await both(bench, server, system.needsAnswers);
  },
};

const IDLE = 'memory per idle subscriber';
/** What the first ones cost is paid once. */
const FIRST = 500;
const SETTLE_MS = 2_000;

async function idle(bench: Bench, server: Server, answer: boolean): Promise<readonly Measured[]> {
  const crowd = bench.keep(subscribers(server.url, { answer }));
  const more = bench.pick(4_000, 1_500);
  await crowd.connect(FIRST);
  await pause(SETTLE_MS);
  const before = server.usage().rssBytes;
  const used = watch({ server });
  await crowd.connect(more);
  await pause(SETTLE_MS);
  const kilobytes = (server.usage().rssBytes - before) / 1024 / more;
  return [{ metric: IDLE, unit: 'KB', samples: [kilobytes], cost: used() }];
}

export const idleSubscribersScenario: Scenario = {
  name: 'idle-subscribers',
  about: 'Resident memory of the server for each subscriber that only waits.',
  rawIs: 'a bare ws server',
  goals: [{ metric: IDLE, statistic: 'median', of: { system: 'raw' }, atMost: 1.3, check: 4 }],
  raw: async (bench) => idle(bench, bench.keep(await startBare({ dir: bench.dir })), false),
  measure: async (bench, system) =>
    idle(bench, bench.keep(await startServer(system, { dir: await folder(bench.dir, 'server') })), system.needsAnswers),
};
