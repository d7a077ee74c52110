import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { SyncError } from '../../src/lib/errors.js';
import { JsonText } from '../../src/lib/json/json-text.js';
import { Secret, silentLogger } from '../../src/lib/observe/log.js';
import { openBackbone } from '../../src/server/log/backbone/open-backbone.js';
import { FoldedLog } from '../../src/server/log/folded-log.js';
import type { LogStore } from '../../src/server/log/log-store.js';
import { updateBodyText } from '../../src/server/log/row.js';
import { type BackboneKind, backboneOffer } from './backbone-servers.js';
import { cutCable } from './cut-cable.js';
import { until } from './until.js';

/** What is done to a store, each for itself: what one leaves behind another may free. */
const SOAK = { updates: 12_000, reconnects: 200 } as const;
/** Until then caches fill. */
const WARM = { updates: 2500, reconnects: 10 } as const;
/** Calls under way at a time. */
const TOGETHER = 16;
/** Updates between two of what instances tell each other. */
const TOLD_EVERY = 20;
/** Drivers keep timers of calls that are over until the time limit of a call. */
const TIMES = { callMs: 2000, lookMs: 1000, backoff: { minMs: 1, maxMs: 10 } } as const;
const SETTLED_MS = 4 * TIMES.callMs;
/** What the heap may grow by, of which most is compiled code: 260 bytes for each update. A reaction that stays, with its result, has 1 to 3 KB. */
const NOISE_BYTES = 3 * 1024 * 1024;

/** Why the backbones are left out: each takes ten to fifteen seconds of a core. */
const ONLY_IN_CI = '12,000 updates on a backbone: only with SYNC_TEST_SOAK=1, which .ci/run sets';

/** {@link heapStaysFlat} for a backbone, as a suite of one test. SQLite's is part of each run, the backbones' of those in CI. */
export async function backboneHeap(kind: BackboneKind): Promise<void> {
  const offer = await backboneOffer(kind);
  test(`${kind}: the heap stays as large as it is, however many updates there are, and however often it is connected again`, {
    skip: offer.missing ?? (process.env.SYNC_TEST_SOAK === '1' ? false : ONLY_IN_CI),
  }, async () => {
    await using server = await offer.start({ isHasty: true });
    await using cable = await cutCable(`http://127.0.0.1:${server.port}`);
    const uri = new URL(server.uri);
    uri.port = new URL(cable.url).port;
    const store = await openBackbone(
      { uri: new Secret(uri.href), name: 'soaked', times: TIMES },
      { log: silentLogger() },
    );
    await heapStaysFlat(store, () => {
      cable.cut();
      cable.mend();
    });
  });
}

/** Fails if the heap, after a full collection, grows with updates, or with reconnects. `cut` ends all connections; undefined: there are none. */
export async function heapStaysFlat(store: LogStore, cut?: () => void): Promise<void> {
  const options = { exclusive: false, patchesPerPath: 10, retention: { maxAgeMs: 1, maxRows: 500 } };
  // As a server: every row is read, folded and retired.
  const log = await FoldedLog.open(store, options, { log: silentLogger() });
  let heard = 0;
  store.mail.watch(() => heard++);
  let returns = 0;
  let wasUp = true;
  store.watch(() => {
    const { up } = store.status;
    if (up && !wasUp) returns++;
    wasUp = up;
  });
  let count = 0;
  const publish = async (updates: number): Promise<void> => {
    const end = count + updates;
    const work = async (): Promise<void> => {
      while (count < end) await updateOnce(store, count++);
    };
    await Promise.all(Array.from({ length: TOGETHER }, work));
    await until(() => log.head >= count, { withinMs: 60_000, what: 'all rows are read' });
  };
  const reconnect = async (times: number): Promise<void> => {
    if (cut === undefined) return;
    for (let made = 0; made < times; made++) {
      const before = returns;
      cut();
      await until(() => returns > before, { withinMs: 60_000, what: 'it is connected again' });
    }
  };

  try {
    await publish(WARM.updates);
    await reconnect(WARM.reconnects);
    const liveBytes = heapMeter();
    const before = await liveBytes();
    await publish(SOAK.updates);
    await settled(liveBytes, before, `${SOAK.updates} updates`);
    await reconnect(SOAK.reconnects);
    await settled(liveBytes, before, `${SOAK.reconnects} reconnects`);
    assert.ok(cut === undefined || heard > 0, 'no mail came');
  } finally {
    await log.close();
  }
}

/** Waits for the heap as it was: see {@link TIMES}. */
async function settled(liveBytes: () => Promise<number>, before: number, after: string): Promise<void> {
  let grown = 0;
  const isFlat = async (): Promise<boolean> => {
    grown = (await liveBytes()) - before;
    return grown < NOISE_BYTES;
  };
  await until(isFlat, { withinMs: SETTLED_MS, what: 'the heap as before' }).catch((error: unknown) => {
    throw new Error(`after ${after} the heap has ${grown} bytes more`, { cause: error });
  });
}

async function updateOnce(store: LogStore, at: number): Promise<void> {
  const data = JsonText.of(at);
  const entries = [{ url: '', topics: ['t'], dst_path: `/p${at % 50}`, save_method: 'PUT' as const, data }];
  const body = updateBodyText({ id: `id ${at}`, publisher: null, reason: null, entries, callbacks: [] });
  await whileAway(() => store.append([{ kind: 'update', body }]));
  if (at % TOLD_EVERY !== 0) return;
  await whileAway(() => tell(store, at));
}

async function tell(store: LogStore, at: number): Promise<void> {
  await store.presence.putParts(`instance ${at % 3}`, new Map([[at % 5, `part at ${at}`]]), 60_000);
  await store.presence.put(`instance ${at % 3}`, `clients at ${at}`, 60_000, 5);
  await store.presence.list();
  await store.presence.parts(`instance ${at % 3}`, [0, 1, 2, 3, 4]);
  await store.mail.send(`mail ${at}`);
}

/** Repeats a call until it is answered: on a machine with other work some are late. */
async function whileAway<T>(call: () => Promise<T>): Promise<T> {
  for (;;) {
    try {
      return await call();
    } catch (error) {
      if (!(error instanceof SyncError && /^(?:backbone|presence)_unavailable$/.test(error.code))) throw error;
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  }
}

/** Tells the bytes that live in the heap of this process after a full collection. */
function heapMeter(): () => Promise<number> {
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc') as () => void; // once: a context is as large as what is looked for
  return async () => {
    for (let count = 0; count < 3; count++) {
      await new Promise((resolve) => setImmediate(resolve));
      collect();
    }
    return process.memoryUsage().heapUsed;
  };
}
