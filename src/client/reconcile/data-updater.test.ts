import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { ACCEPTING_ENGINE } from '../../../test/support/accepting-engine.js';
import { EngineRefusal } from '../../embedded/vocabulary.js';
import { silentLogger } from '../../lib/observe/log.js';
import { type PeerDataConfig, type PeerUpdate, peerDataConfig, peerUpdate } from '../../wire/data.js';
import { parseDocPath } from '../../wire/doc-path.js';
import { parseKeepingData } from '../../wire/inline-data.js';
import { bodyOfText } from '../../wire/json-node.js';
import { DataEvents } from '../status/data-events.js';
import { Status } from '../status/status.js';
import { Applier } from './applier.js';
import { DataUpdater } from './data-updater.js';
import type { Exclusive } from './entry-writer.js';

const never = new AbortController().signal;

interface Parts {
  exclusive?: Exclusive;
  /** What becomes of a write. */
  write?: () => Promise<void>;
  config?: () => Promise<PeerDataConfig>;
  /** Text of the one source. */
  source?: () => string;
}

function updaterWith(more: Parts = {}) {
  const engine = { ...ACCEPTING_ENGINE, ...(more.write === undefined ? {} : { write: more.write }) };
  const applier = new Applier(engine, { takesPolicy: false });
  const status = new Status({ policyEnabled: false, dataEnabled: true }, () => undefined);
  const events = new DataEvents();
  events.subscribe(status.onData);
  const updater = new DataUpdater(
    { topics: ['policy_data'], backoff: { minMs: 1, maxMs: 2 } },
    {
      applier,
      exclusive: more.exclusive ?? ((step) => step(never)),
      fetch: async () => {
        const body = bodyOfText(more.source?.() ?? 'null');
        return { outcome: 'body', body };
      },
      fetchConfig: more.config ?? (async () => peerDataConfig.parse({ entries: [] })),
      events,
      log: silentLogger(),
    },
  );
  const value = (path: string): string | undefined => {
    const node = applier.held.layers.compose(parseDocPath(path));
    return node?.kind === 'leaf' ? node.text() : undefined;
  };
  return { updater, applier, status, value };
}

function receive(updater: DataUpdater, data: unknown, place: { seq: number; epoch: string }): void {
  const entries = [{ url: '', topics: ['policy_data'], dst_path: '/a', data }];
  const text = JSON.stringify({ id: `u${place.seq}`, entries, ...place });
  const update: PeerUpdate = peerUpdate.parse(parseKeepingData(text));
  updater.receive(update, 'policy_data', text);
}

async function settled(condition: () => boolean): Promise<void> {
  for (const giveUp = Date.now() + 20_000; !condition(); ) {
    assert(Date.now() < giveUp, 'it does not come to pass');
    await new Promise((resolve) => setTimeout(resolve, 1));
  }
}

describe('an update that arrives before the first configuration', () => {
  for (const epoch of [undefined, 'before']) {
    it(`wins over what a backup has of a server ${epoch === undefined ? 'whose updates had no places' : 'with another log'}`, () =>
      winsOverBackup(epoch));
  }
});

async function winsOverBackup(epoch: string | undefined): Promise<void> {
  // A server that retains nothing: no epoch in its configuration, but epoch and seq in its updates.
  let answer: (config: PeerDataConfig) => void = () => undefined;
  const { updater, applier, value } = updaterWith({
    config: () => new Promise((resolve) => (answer = resolve)),
  });
  const rank = { era: 1, seq: 57, index: 0 };
  const layer = {
    id: 'live/1/57/0',
    path: ['a'],
    rank,
    content: { kind: 'put', body: bodyOfText('"old"') },
  } as const;
  await applier.held.load({ policy: undefined, layers: [layer], blocked: [] }, never);
  updater.adopt({ epoch, era: 1, next: 58, lastSeq: 57, seen: new Map() }, [
    {
      ...{ id: layer.id, path: ['a'], rank, nextRank: undefined, origin: 'update', epoch, transaction: '' },
      entry: { url: '', topics: ['policy_data'], dst_path: '/a', save_method: 'PUT' },
      ...{ state: { kind: 'applied' }, fetched: undefined },
    },
  ]);
  const stop = new AbortController();
  const run = updater.run(stop.signal);
  updater.resync();
  receive(updater, 'new', { seq: 3, epoch: 'e' });
  await settled(() => value('/a') === '"new"');
  const base = [{ url: '', topics: ['policy_data'], dst_path: '/a', data: 'base' }];
  answer(peerDataConfig.parse(parseKeepingData(JSON.stringify({ entries: base }))));
  await settled(() => updater.pending.length === 0);
  assert.equal(value('/a'), '"new"', 'it came after that configuration was asked for');
  receive(updater, 'newer', { seq: 4, epoch: 'e' });
  await settled(() => value('/a') === '"newer"');
  stop.abort();
  await run;
}

describe('what waits for the engine when the client is disconnected', () => {
  it('has not failed, and goes in once it follows again', async () => {
    const stop = new AbortController();
    let isThere = false;
    let waits = false;
    const { updater, status, value } = updaterWith({
      exclusive: (step) => {
        if (isThere) return step(never);
        waits = true;
        return new Promise((_resolve, reject) => {
          stop.signal.addEventListener('abort', () => reject(stop.signal.reason));
        });
      },
    });
    const run = updater.run(stop.signal);
    receive(updater, 1, { seq: 1, epoch: 'e' });
    await settled(() => waits);
    stop.abort(new DOMException('disconnected from the sync server', 'AbortError'));
    await run;
    assert.deepEqual([...status.failing.values()], []);
    assert.notEqual(status.transactions.data.last?.success, false);

    isThere = true;
    const again = new AbortController();
    const next = updater.run(again.signal);
    await settled(() => value('/a') === '1');
    again.abort();
    await next;
  });
});

describe('a base entry that is read again after a reconnect', () => {
  const config = async (): Promise<PeerDataConfig> =>
    peerDataConfig.parse({
      entries: [{ url: 'http://source/', topics: ['policy_data'], dst_path: '/' }],
      epoch: 'e',
      head: 1,
    });

  it('goes in when its source was mended, although the engine had refused what it had before', async () => {
    let text = '5';
    const { updater, status, value } = updaterWith({ config, source: () => text });
    const stop = new AbortController();
    const run = updater.run(stop.signal);
    updater.resync();
    await settled(() => [...status.failing.values()].some((each) => each.error.includes('must be an object')));
    text = '{"a":1}';
    updater.resync();
    await settled(() => value('/a') === '1' && status.failing.size === 0);
    stop.abort();
    await run;
  });

  it('has the newest content, also where the one before still waits for the engine', async () => {
    let text = '{"a":1}';
    let open: () => void = () => undefined;
    const isThere = new Promise<void>((resolve) => (open = resolve));
    let waits = 0;
    const { updater, value } = updaterWith({
      config,
      source: () => text,
      exclusive: async (step) => {
        waits++;
        await isThere;
        return step(never);
      },
    });
    const stop = new AbortController();
    const run = updater.run(stop.signal);
    updater.resync();
    await settled(() => waits === 1);
    text = '{"a":2}';
    await updater.refresh();
    open();
    await settled(() => updater.pending.length === 0 && value('/a') === '2');
    stop.abort();
    await run;
  });

  for (const [when, slowWrite] of [
    ['refused', 1],
    ['tried again', 3],
  ] as const) {
    it(`has the newest content, also where that arrives while the one before is ${when}`, async () => {
      let text = '{"b":1}';
      let writes = 0;
      let goOn: () => void = () => undefined;
      const gate = new Promise<void>((resolve) => (goOn = resolve));
      const { updater, status, value } = updaterWith({
        config,
        source: () => text,
        write: async () => {
          writes++;
          if (writes === slowWrite) await gate;
          if (writes === 1) throw new EngineRefusal('a rule is there', []);
        },
      });
      const stop = new AbortController();
      const run = updater.run(stop.signal);
      updater.resync();
      if (slowWrite > 1) {
        await settled(() => status.failing.size === 1);
        // Another document changes where the withheld one lies: that one is tried again.
        receive(updater, 0, { seq: 2, epoch: 'e' });
      }
      await settled(() => writes === slowWrite);
      text = '{"b":2}';
      await updater.refresh();
      await settled(() => updater.pending.some((line) => line.includes(': ready')));
      goOn();
      await settled(() => updater.pending.length === 0 && status.failing.size === 0 && value('/b') === '2');
      stop.abort();
      await run;
    });
  }
});
