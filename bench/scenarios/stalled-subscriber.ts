import { type Measured, watch } from '../lib/figure.js';
import { type Publisher, publisher } from '../lib/publish.js';
import type { Bench, Scenario } from '../lib/scenario.js';
import { folder } from '../lib/stage.js';
import { type Subscribers, subscribers } from '../lib/subscribers.js';
import { type Server, startServer } from '../lib/system.js';
import { startBare } from '../raw/bare.js';

const OTHERS = 200;
const WITHOUT = 'last of 200 notified, all read';
const WITH = 'last of 200 notified, one beside them reads nothing';
const DELIVERED = 'delivered to the 200 beside one that reads nothing';

/** Large, so that what the kernel holds for one that does not read is soon full. */
const DATA = { text: 'x'.repeat(100_000) };
/** Longest wait for one round: a server that waits for the one would hold up all. */
const ROUND_MS = 3_000;

async function rounds(
  publish: Publisher,
  crowd: Subscribers,
  { first, count }: { first: number; count: number },
): Promise<{ last: number[]; delivered: number }> {
  const last: number[] = [];
  let delivered = 0;
  for (let mark = first; mark < first + count; mark++) {
    const send = (reason: string): Promise<void> =>
      publish.publish([{ url: '', topics: ['policy_data'], dst_path: '/large', data: DATA }], reason);
    const times = await crowd.round(mark, OTHERS, send, ROUND_MS);
    delivered += times.length;
    if (times.length === OTHERS) last.push(Math.max(...times));
    else break; // it will not get better, and every round takes all of its time
  }
  return { last, delivered };
}

async function measured(bench: Bench, server: Server, answer: boolean): Promise<readonly Measured[]> {
  const publish = bench.keep(publisher(server.url));
  const crowd = bench.keep(subscribers(server.url, { answer }));
  const stalled = bench.keep(subscribers(server.url, { answer }));
  // It comes first: a server that serves one after the other meets it before all others.
  await stalled.connect(1);
  await crowd.connect(OTHERS);
  const warmUp = bench.pick(20, 5);
  const count = bench.pick(250, 40);
  await rounds(publish, crowd, { first: 0, count: warmUp });
  const before = watch({ server });
  const quiet = await rounds(publish, crowd, { first: warmUp, count });
  const quietCost = before();
  await stalled.stall(1);
  const used = watch({ server });
  const beside = await rounds(publish, crowd, { first: warmUp + count, count });
  const cost = used();
  return [
    { metric: WITHOUT, unit: 'ms', samples: quiet.last, cost: quietCost },
    { metric: DELIVERED, unit: '%', samples: [(100 * beside.delivered) / (count * OTHERS)], cost },
    ...(beside.last.length === 0 ? [] : [{ metric: WITH, unit: 'ms' as const, samples: beside.last, cost }]),
  ];
}

export const stalledSubscriberScenario: Scenario = {
  name: 'stalled-subscriber',
  about: 'Updates of 100 KB to 200 subscribers, alone and beside one that does not read.',
  rawIs: 'a bare ws server that sends one frame to all',
  goals: [
    { metric: DELIVERED, statistic: 'median', of: 'number', atLeast: 100, check: 100 },
    { metric: WITH, statistic: 'p99', of: { system: 'self', metric: WITHOUT }, atMost: 1.2, check: 4 },
  ],
  raw: async (bench) => measured(bench, bench.keep(await startBare({ dir: bench.dir })), false),
  measure: async (bench, system) =>
    measured(
      bench,
      bench.keep(await startServer(system, { dir: await folder(bench.dir, 'server') })),
      system.needsAnswers,
    ),
};
