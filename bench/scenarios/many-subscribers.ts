import { type Measured, watch } from '../lib/figure.js';
import { mustHaveSockets } from '../lib/files.js';
import { publisher, urlEntry } from '../lib/publish.js';
import type { Bench, Scenario } from '../lib/scenario.js';
import { folder } from '../lib/stage.js';
import { subscribers } from '../lib/subscribers.js';
import { type Server, startServer } from '../lib/system.js';
import { startBare } from '../raw/bare.js';

const LAST = 'last of 10,000 notified';
const LAST_OF_FEW = 'last of 1,000 notified';
const CONNECT = 'connect one of 10,000';
const MEMORY = 'memory of the server after a round';
const GROWTH = 'memory of the server, last rounds to those after the tenth';
const FIRST = 10;
const ROUND_MS = 20_000;

interface Rounds {
  readonly count: number;
  readonly rounds: number;
  readonly answer: boolean;
}

interface Found {
  readonly connect: readonly number[];
  readonly last: readonly number[];
  readonly memory: readonly number[];
}

/** So many subscribe, and each round notifies all of them; throws when one is not, or cannot connect. */
async function crowdOf(bench: Bench, server: Server, { count, rounds, answer }: Rounds): Promise<Found> {
  mustHaveSockets(count);
  const publish = bench.keep(publisher(server.url));
  const crowd = bench.keep(subscribers(server.url, { answer }));
  const connect = await crowd.connect(count);
  const [last, memory]: [number[], number[]] = [[], []];
  for (let mark = 0; mark < rounds; mark++) {
    const send = (reason: string): Promise<void> =>
      publish.publish([urlEntry('http://127.0.0.1:1/users', '/users')], reason);
    const times = await crowd.round(mark, count, send, ROUND_MS);
    if (times.length !== count) throw new Error(`${times.length} of ${count} subscribers were notified`);
    last.push(Math.max(...times));
    memory.push(server.usage().rssBytes / 1e6);
  }
  await crowd[Symbol.asyncDispose]();
  return { connect, last, memory };
}

async function measured(bench: Bench, server: Server, answer: boolean): Promise<readonly Measured[]> {
  const used = watch({ server });
  const rounds = bench.pick(50, 20);
  const { connect, last, memory } = await crowdOf(bench, server, { count: bench.pick(10_000, 3_000), rounds, answer });
  const growth = (100 * (memory.at(-1) ?? 0)) / (memory[FIRST - 1] ?? 0);
  return [
    { metric: LAST, unit: 'ms', samples: last, cost: used() },
    { metric: CONNECT, unit: 'ms', samples: connect },
    { metric: MEMORY, unit: 'MB', samples: memory },
    { metric: GROWTH, unit: '%', samples: [growth] },
  ];
}

export const manySubscribersScenario: Scenario = {
  name: 'many-subscribers',
  about: '10,000 subscribers of one server: all connect, then 50 updates to all (quick: 3,000 and 20).',
  rawIs: 'a bare ws server that sends one frame to all; the goal is held against its 1,000 subscribers',
  goals: [
    {
      metric: LAST,
      statistic: 'median',
      of: { system: 'raw', metric: LAST_OF_FEW },
      atMost: 12,
      check: 24,
    },
    { metric: GROWTH, statistic: 'median', of: 'number', atMost: 105, check: 120 },
  ],
  withoutPeer: true,
  raw: async (bench) => {
    const bare = async (): Promise<Server> => bench.keep(await startBare({ dir: bench.dir }));
    const few = await crowdOf(bench, await bare(), { count: 1_000, rounds: bench.pick(50, 20), answer: false });
    return [
      { metric: LAST_OF_FEW, unit: 'ms', samples: few.last.slice(FIRST) },
      ...(await measured(bench, await bare(), false)),
    ];
  },
  measure: async (bench, system) =>
    measured(
      bench,
      bench.keep(await startServer(system, { dir: await folder(bench.dir, 'server') })),
      system.needsAnswers,
    ),
};
