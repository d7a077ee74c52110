import { request } from 'undici';
import type { Measured } from '../lib/figure.js';
import { publisher } from '../lib/publish.js';
import type { Bench, Scenario } from '../lib/scenario.js';
import { startStage } from '../lib/stage.js';
import type { System } from '../lib/system.js';

const TAIL = 'the tail of one update';
const NEWCOMER = 'a newcomer with one topic';
/** Of entries with a topic each. */
const MANY = ', ten times the entries';
/** A tenth of what is asked at first, and all of it later. */
const ENTRIES = { normal: 100_000, quick: 10_000 };
const IN_ONE_UPDATE = 500;
const ASKED = 30;

async function measure(bench: Bench, system: System): Promise<readonly Measured[]> {
  // Its client has another topic.
  const { server } = await startStage(bench, system);
  const own = bench.keep(publisher(server.url));
  const total = bench.pick(ENTRIES.normal, ENTRIES.quick);
  let made = 0;
  const grow = async (to: number): Promise<void> => {
    for (; made < to; made += IN_ONE_UPDATE) {
      await own.publish(Array.from({ length: IN_ONE_UPDATE }, (_, at) => entry(made + at, made + at)));
    }
  };
  await grow(total / 10);
  const few = await asked();
  await grow(total);
  const many = await asked();
  return [...few, ...many.map((one) => ({ ...one, metric: one.metric + MANY }))];

  /** Each question comes after a change, so that no answer is a kept one. */
  async function asked(): Promise<readonly Measured[]> {
    const tail: number[] = [];
    const newcomer: number[] = [];
    for (let at = -1; at < ASKED; at++) {
      const { epoch, head } = (await answer('/data/updates?limit=1')).body as { epoch: string; head: number };
      await own.publish([entry(at + 1, -at)]);
      const one = await answer(`/data/updates?epoch=${epoch}&after=${head}`);
      const other = await answer(`/data/config?topics=t${at + 1}`);
      if (at < 0) continue; // code that runs for the first time
      tail.push(one.ms);
      newcomer.push(other.ms);
    }
    return [
      { metric: TAIL, unit: 'ms', samples: tail },
      { metric: NEWCOMER, unit: 'ms', samples: newcomer },
    ];
  }

  async function answer(path: string): Promise<{ ms: number; body: unknown }> {
    const startMs = performance.now();
    const { body } = await request(`${server.url}${path}`);
    const parsed: unknown = await body.json();
    return { ms: performance.now() - startMs, body: parsed };
  }
}

function entry(n: number, value: number): object {
  return { url: '', topics: [`t${n}`], dst_path: `/live/d${n}`, data: { value } };
}

export const liveEntriesScenario: Scenario = {
  name: 'live-entries',
  about:
    'What a server with 10,000 and with 100,000 live entries (quick: a tenth), each with a topic of its own, answers those who want one.',
  rawIs: 'nothing: each figure is held against that with a tenth of the entries',
  goals: [TAIL, NEWCOMER].map((metric) => ({
    metric: metric + MANY,
    statistic: 'median' as const,
    of: { system: 'self' as const, metric },
    atMost: 1.5,
    check: 3,
  })),
  withoutPeer: true,
  raw: async () => [],
  measure,
};
