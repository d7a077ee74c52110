import { request } from 'undici';
import type { Measured } from '../lib/figure.js';
import { publisher } from '../lib/publish.js';
import type { Bench, Scenario } from '../lib/scenario.js';
import { startStage } from '../lib/stage.js';
import type { System } from '../lib/system.js';

const NEWCOMER = 'what a newcomer is told';
const MEMORY = 'memory of the server';
/** Of documents that came and went. */
const MANY = ', ten times the documents';
/** A tenth of what is asked at first, and all of it later. */
const DOCUMENTS = { normal: 100_000, quick: 10_000 };
/** So many come at once, and go. */
const AT_ONCE = 500;
/** After so many updates nothing is kept of a deletion. */
const UPDATES_AFTER = 1_100;
const ASKED = 30;
const KB = 1000;
const MB = 1_000_000;
/** What a heap grows by, for a while, with whatever passes through it. */
const HEAP_MB = 50;

async function measure(bench: Bench, system: System): Promise<readonly Measured[]> {
  // Nothing is kept of what is superseded but what has to be.
  const { server } = await startStage(bench, system, {
    server: { own: { policysync: { LOG_RETENTION_RECORDS: '0' } } },
  });
  const own = bench.keep(publisher(server.url));
  const total = bench.pick(DOCUMENTS.normal, DOCUMENTS.quick);
  let made = 0;
  const comeAndGo = async (to: number): Promise<void> => {
    for (; made < to; made += AT_ONCE) {
      const paths = Array.from({ length: AT_ONCE }, (_, at) => `/gone/d${made + at}`);
      await own.publish(paths.map((path) => ({ ...entry(path), data: { value: path } })));
      await own.publish(paths.map((path) => ({ ...entry(path), save_method: 'DELETE' })));
    }
    for (let at = 0; at < UPDATES_AFTER; at++) await own.publish([{ ...entry('/left'), data: { at } }]);
  };
  await comeAndGo(total / 10);
  const few = await asked();
  await comeAndGo(total);
  const many = await asked();
  return [...few, ...many.map((one) => ({ ...one, metric: one.metric + MANY }))];

  /** Each question comes after a change, so that no answer is a kept one. */
  async function asked(): Promise<readonly Measured[]> {
    const told: number[] = [];
    const memory: number[] = [];
    for (let at = -1; at < ASKED; at++) {
      await own.publish([{ ...entry('/left'), data: { at } }]);
      const { body } = await request(`${server.url}/data/config?topics=gone`, { headers: { 'x-sync-protocol': '2' } });
      const { byteLength } = await body.arrayBuffer();
      if (at < 0) continue; // code that runs for the first time
      told.push(byteLength / KB);
      memory.push(server.usage().rssBytes / MB);
    }
    return [
      { metric: NEWCOMER, unit: 'KB', samples: told },
      { metric: MEMORY, unit: 'MB', samples: memory },
    ];
  }
}

function entry(path: string): object {
  return { url: '', topics: ['gone'], dst_path: path };
}

export const deletedEntriesScenario: Scenario = {
  name: 'deleted-entries',
  about:
    'What 10,000 and 100,000 documents (quick: a tenth) that came and went cost a server, and who is new, once their retention is over.',
  rawIs: 'nothing: each figure is held against that with a tenth of the documents',
  goals: [
    { metric: NEWCOMER, atMost: 1.1, check: 1.1 },
    { metric: MEMORY, atMost: 1.1, plus: HEAP_MB, check: 1.3 },
  ].map(({ metric, ...limits }) => ({
    ...{ metric: metric + MANY, statistic: 'median' as const, of: { system: 'self' as const, metric } },
    ...limits,
  })),
  withoutPeer: true,
  raw: async () => [],
  measure,
};
