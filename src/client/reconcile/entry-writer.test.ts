import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { ACCEPTING_ENGINE } from '../../../test/support/accepting-engine.js';
import { silentLogger } from '../../lib/observe/log.js';
import { peerDataConfig } from '../../wire/data.js';
import { parseDocPath } from '../../wire/doc-path.js';
import { bodyOfText } from '../../wire/json-node.js';
import type { DataOp } from '../desired/layers.js';
import type { FetchRequest, FetchResult } from '../fetch/provider.js';
import { DataEvents } from '../status/data-events.js';
import { Applier } from './applier.js';
import { DataUpdater } from './data-updater.js';

/** Entries of the base configuration; their sources answer when the test says so. */
function loading(count: number) {
  const transactions: number[] = [];
  const engine = { ...ACCEPTING_ENGINE, write: async (ops: readonly DataOp[]) => void transactions.push(ops.length) };
  const applier = new Applier(engine, { takesPolicy: false });
  const asked: { answer(): void; fail(): void }[] = [];
  const entries = Array.from({ length: count }, (_, n) => ({
    url: `http://source/${n}`,
    topics: ['policy_data'],
    dst_path: `/acl/t${n}`,
  }));
  const updater = new DataUpdater(
    { topics: ['policy_data'], backoff: { minMs: 60_000, maxMs: 60_000 } },
    {
      applier,
      exclusive: (step) => step(new AbortController().signal),
      fetch: ({ url }: FetchRequest, signal) =>
        new Promise<FetchResult>((resolve, reject) => {
          signal.addEventListener('abort', () => reject(signal.reason));
          asked.push({
            answer: () => {
              const body = bodyOfText(JSON.stringify(url));
              resolve({ outcome: 'body', body });
            },
            fail: () => reject(new Error('not there')),
          });
        }),
      fetchConfig: async () => peerDataConfig.parse({ entries }),
      events: new DataEvents(),
      log: silentLogger(),
    },
  );
  const written = (): number => entries.filter(({ dst_path }) => isHeld(applier, dst_path)).length;
  return { updater, asked, transactions, written };
}

function isHeld(applier: Applier, path: string): boolean {
  return applier.held.layers.compose(parseDocPath(path)) !== undefined;
}

async function until(condition: () => boolean): Promise<void> {
  for (const giveUp = Date.now() + 20_000; !condition(); ) {
    assert(Date.now() < giveUp, 'it does not come to pass');
    await new Promise((resolve) => setTimeout(resolve, 1));
  }
}

async function withLoad(count: number, use: (load: ReturnType<typeof loading>) => Promise<void>): Promise<void> {
  const load = loading(count);
  const stop = new AbortController();
  const running = load.updater.run(stop.signal);
  load.updater.connected(undefined);
  await until(() => load.asked.length === count);
  await use(load);
  stop.abort();
  await running;
}

describe('contents that arrive shortly after each other at a start', () => {
  it('go to the engine in few transactions', async () => {
    await withLoad(300, async ({ asked, transactions, written }) => {
      for (const { answer } of asked) {
        answer();
        await new Promise(setImmediate);
      }
      await until(() => written() === 300);
      assert(transactions.length <= 100, `${transactions.length} transactions for 300 entries`);
    });
  });

  it('are written although most sources say nothing', async () => {
    await withLoad(100, async ({ asked, transactions, written }) => {
      asked[0]?.answer();
      await until(() => written() === 1);
      assert.deepEqual(transactions, [1]);
    });
  });
});

describe('a content that arrives alone', () => {
  it('waits for nobody while the sources of others fail', async () => {
    await withLoad(100, async ({ asked, written }) => {
      for (const { fail } of asked.slice(1)) fail();
      await new Promise(setImmediate);
      asked[0]?.answer();
      // No timer: a few turns of the event loop.
      for (let turn = 0; turn < 20 && written() === 0; turn++) await new Promise(setImmediate);
      assert.equal(written(), 1);
    });
  });
});
