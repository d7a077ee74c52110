import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { errorText, SyncError } from '../../src/lib/errors.js';
import { Secret, silentLogger } from '../../src/lib/observe/log.js';
import { hexId } from '../../src/lib/run/hex-id.js';
import { inspectBackbone } from '../../src/server/log/backbone/inspect-backbone.js';
import { openBackbone } from '../../src/server/log/backbone/open-backbone.js';
import { BACKBONE_TIMES, type BackboneTimes } from '../../src/server/log/backbone/session-keeper.js';
import type { DedupLimits, LogStore, NewRow, StoredRow } from '../../src/server/log/log-store.js';
import { BACKBONE_PASSWORD, type BackboneKind, type BackboneServer, backboneOffer } from './backbone-servers.js';
import { logStoreContract } from './log-store-contract.js';
import { patience, until } from './until.js';

/** Does something to the log `name` in the server at `uri`. */
export type Damage<T = void> = (uri: string, name: string) => Promise<T>;

/** What differs between backbones. */
export interface BackboneFacts {
  /** What was made beside the rows, by name: each takes one of it away, while the server and its connections stay. */
  readonly deletions: Readonly<Record<string, Damage>>;
  /** What makes presence, or mail, impossible until its end, and the log not. */
  readonly spoilers: Readonly<
    Record<string, { readonly of: 'presence' | 'mail'; readonly spoil: Damage<AsyncDisposable> }>
  >;
  /** What takes the rows alone. */
  readonly loss: Damage;
  /** Lines of a server's configuration that make it weak, and what is said of it. */
  readonly weak: { readonly lines: readonly string[]; readonly reason: RegExp };
  /** Lines of one that takes large rows. */
  readonly lines?: readonly string[];
}

/** A call, and the notice of a loss, in a test that waits for them: no shorter than the load of this machine allows. */
function short(): BackboneTimes {
  const callMs = 1000 * patience();
  return { ...BACKBONE_TIMES, callMs, connectMs: callMs, lookMs: 500, openMs: 5 * callMs };
}

/** Of tests in which no backbone is away: what makes a call late is the machine. */
const UNHURRIED: Partial<BackboneTimes> = { callMs: 120_000, connectMs: 120_000, openMs: 240_000 };

/** All that is promised of a backbone, against a real server that is killed, frozen, emptied and started again. */
export async function backboneContract(kind: BackboneKind, facts: BackboneFacts): Promise<void> {
  const offer = await backboneOffer(kind);
  const skip = offer.missing ?? false;
  let server: BackboneServer;

  const openOn = (
    uri: string,
    name: string,
    times: Partial<BackboneTimes> = short(),
    dedup?: DedupLimits,
  ): Promise<LogStore> =>
    openBackbone({ uri: new Secret(uri), name, times, dedup, natsSyncAlways: true }, { log: silentLogger() });
  const open = async (name: string, times?: Partial<BackboneTimes>): Promise<LogStore & AsyncDisposable> => {
    const store = await openOn(server.uri, name, times);
    return Object.assign(store, { [Symbol.asyncDispose]: () => store.close() });
  };

  describe(kind, { skip }, () => {
    before(async () => {
      server = await offer.start({ lines: facts.lines ?? [] });
    });
    after(async () => {
      await server[Symbol.asyncDispose]();
    });

    describe(`backbone: ${kind}`, { skip }, () => {
      test('is durable when it is set up so, and says why it is weak when not', async () => {
        await using store = await open(newName());
        assert.deepEqual(store.durability, { level: 'durable' });
        await using other = await offer.start({ lines: facts.weak.lines });
        const weak = await openBackbone(
          { uri: new Secret(other.uri), name: newName(), times: short() },
          { log: silentLogger() },
        );
        await weak.close();
        assert.equal(weak.durability.level, 'weak');
        assert.match(weak.durability.level === 'weak' ? weak.durability.reason : '', facts.weak.reason);
      });

      test('is inspected without a trace: durability, and why it does not answer', async () => {
        const [name, uri] = [newName(), new Secret(server.uri)];
        const ask = () => inspectBackbone({ uri, name, times: short(), natsSyncAlways: true });
        const before = await ask();
        // Of NATS it is a fact of the stream, which is not there yet.
        assert.deepEqual(before.durability, kind === 'NATS' ? undefined : { level: 'durable' });
        await (await open(name)).close();
        assert.deepEqual((await ask()).durability, { level: 'durable' });
        const wrong = new URL(server.uri);
        wrong.password = 'another';
        const refused = inspectBackbone({ uri: new Secret(wrong.href), name, times: short() });
        await assert.rejects(refused, (error: unknown) => {
          assert(error instanceof SyncError);
          assert.match(error.code, /^(?:backbone_unavailable|config_invalid)$/);
          return error.message.includes(before.what) && !error.message.includes('another');
        });
      });

      test('killed amid appends of two handles and started again: every answered row is there once, in order', async () => {
        const name = newName();
        await using one = await open(name);
        await using other = await open(name);
        const { epoch } = one;
        const answered = new Map<number, string>();
        const stop = new AbortController();
        let refusals = 0;
        const writers = [one, other].map(async (store, writer) => {
          for (let count = 0; !stop.signal.aborted; count++) {
            const text = `${writer} ${count}`;
            // As a publisher does: again and again with one key, until it is told where it went.
            for (;;) {
              try {
                const [place] = await store.append([row(text, { dedup: text })]);
                answered.set(place?.seq ?? 0, text);
                break;
              } catch (error) {
                assert.ok(error instanceof SyncError && error.code === 'backbone_unavailable', String(error));
                assert.ok((error.retryAfterSeconds ?? 0) > 0 && error.status === 503);
                refusals++;
                await new Promise((resolve) => setTimeout(resolve, 20));
              }
            }
          }
        });
        for (let round = 0; round < 2; round++) {
          const before = answered.size;
          await until(() => answered.size >= before + 30, { withinMs: 20_000, what: 'rows are appended' });
          await server.kill();
          await until(() => !one.status.up && !other.status.up, { withinMs: 20_000, what: 'both notice' });
          await server.start();
          await until(() => one.status.up && other.status.up, { withinMs: 20_000, what: 'both are back' });
        }
        const before = answered.size;
        await until(() => answered.size >= before + 10, { withinMs: 20_000, what: 'rows are appended after it' });
        stop.abort();
        await Promise.all(writers);
        assert.ok(refusals > 0, 'some were refused meanwhile');
        assert.equal(one.epoch, epoch);
        const rows = await readAll(other);
        assert.deepEqual(
          rows.map(({ seq }) => seq),
          rows.map((_, index) => index + 1),
        );
        assert.equal(new Set(rows.map(({ body }) => body)).size, rows.length, 'no row twice');
        for (const [seq, text] of answered) assert.equal(rows[seq - 1]?.body, JSON.stringify(text));
        for (const writer of [0, 1]) {
          const own = rows.map(({ body }) => JSON.parse(body).split(' ').map(Number)).filter(([who]) => who === writer);
          assert.deepEqual(
            own.map(([, count]) => count),
            own.map((_, index) => index),
          );
        }
      });

      test('frozen: calls end within their time, later ones at once; thawed: it goes on', async () => {
        const times = short();
        await using store = await open(newName(), times);
        await store.append([row('before')]);
        const changes: boolean[] = [];
        store.watch(() => changes.push(store.status.up));
        const startedMs = Date.now();
        await server.freeze();
        try {
          const calls = [store.append([row('amid', { dedup: 'amid' })]), store.read(0, 10), store.presence.list()];
          for (const outcome of await Promise.allSettled(calls))
            assert.equal(refusalOf(outcome), 'backbone_unavailable');
          assert.ok(Date.now() - startedMs < 3 * times.callMs, `it took ${Date.now() - startedMs} ms`);
          const { status } = store;
          assert.ok(!status.up && status.reason !== '' && status.sinceMs >= startedMs && status.sinceMs <= Date.now());
          const againMs = Date.now();
          await assert.rejects(store.append([row('amid', { dedup: 'amid' })]));
          assert.ok(Date.now() - againMs < 100 * patience(), 'while it is known to be down nobody waits');
          assert.equal(changes.at(-1), false, 'watchers are told');
        } finally {
          server.thaw();
        }
        await until(() => store.status.up, { withinMs: 20_000, what: 'it is back' });
        assert.equal(changes.at(-1), true, 'watchers are told');
        await store.append([row('amid', { dedup: 'amid' })]);
        assert.deepEqual(bodies(await readAll(store)), ['before', 'amid']);
      });

      test('a handle that only reads notices a frozen server, and rows of others after it', async () => {
        const name = newName();
        await using reader = await open(name);
        await server.freeze();
        try {
          await until(() => !reader.status.up, { withinMs: 20_000, what: 'the heartbeat notices' });
        } finally {
          server.thaw();
        }
        await using writer = await open(name);
        await writer.append([row('after')]);
        await until(async () => reader.status.up && (await reader.read(0, 1)).length === 1, {
          withinMs: 20_000,
          what: 'the reader reads',
        });
      });

      test('emptied: it is not taken for the log that was there; who opens it anew gets another epoch', async () => {
        const name = newName();
        const store = await open(name);
        await store.append([row('a'), row('b')]);
        await server.empty();
        await assert.rejects(
          within(10_000, store.failed),
          (error) => error instanceof SyncError && error.code === 'backbone_replaced',
        );
        assert.equal(store.status.up, false);
        await assert.rejects(store.append([row('c')]), (error) => {
          assert.equal(refusal(error), 'backbone_unavailable');
          assert.equal(
            errorText(error).split(`:${server.port}`).length,
            2,
            `names the backbone once: ${errorText(error)}`,
          );
          return true;
        });
        await store.close();
        await using again = await open(name);
        assert.notEqual(again.epoch, store.epoch);
        assert.deepEqual(await again.append([row('c')]), [{ seq: 1, duplicate: false }]);
      });

      test('gone back to a backup: nobody takes new rows for those that were there; it has another epoch', async () => {
        const name = newName();
        const store = await open(name);
        await store.append([row('a')]);
        const goBack = await server.backup();
        await until(() => store.status.up, { withinMs: 20_000, what: 'it is back' });
        await store.append([row('b'), row('c')]);
        await store.read(0, 10);
        await goBack();
        await assert.rejects(
          within(10_000, store.failed),
          (error) => error instanceof SyncError && error.code === 'backbone_replaced',
        );
        await store.close();
        await using again = await open(name);
        assert.notEqual(again.epoch, store.epoch);
        assert.deepEqual(bodies(await readAll(again)), ['a']);
      });

      test('gone back, and written by another instance up to the same place: the row that was read tells', async () => {
        const name = newName();
        const store = await open(name, { ...short(), lookMs: 60_000 });
        const goBack = await server.backup();
        await until(() => store.status.up, { withinMs: 20_000, what: 'it is back' });
        await store.append([row('lost')]);
        await store.read(0, 10);
        await goBack();
        {
          const other = await openOn(server.uri, name);
          // Whoever connects first decides: either this append is in the old epoch, or the log has a new one already.
          // It is refused where the new epoch came between its opening and this.
          await other.append([row('other')]).catch((error) => assert.equal(refusal(error), 'backbone_unavailable'));
          await other.close();
        }
        await assert.rejects(
          within(10_000, store.failed),
          (error) => error instanceof SyncError && error.code === 'backbone_replaced',
        );
        await store.close();
      });

      test('two logs in one backbone have nothing to do with each other', async () => {
        const name = newName();
        await using one = await open(name);
        await using other = await open(`${name}x`);
        await one.append([row('one', { dedup: 'key' })]);
        await one.presence.putParts('instance', new Map([[0, 'a part']]), 60_000);
        await one.presence.put('instance', 'one', 60_000, 1);
        assert.deepEqual(await other.append([row('other', { dedup: 'key' })]), [{ seq: 1, duplicate: false }]);
        assert.deepEqual(bodies(await readAll(other)), ['other']);
        assert.equal((await other.presence.list()).size, 0);
        assert.equal((await other.presence.parts('instance', [0])).size, 0);
      });

      test('killed and started again: presence and mail are as they were, the loss is told once, and all of it by itself', async () => {
        const name = newName();
        await using one = await open(name);
        await using other = await open(name);
        const heard: string[] = [];
        other.mail.watch((text) => heard.push(text));
        await exchange(one, other, heard, 'before');
        const losses = lossesOf(one);
        await server.kill();
        await until(() => !one.status.up && !other.status.up, { withinMs: 20_000, what: 'both notice' });
        await server.start();
        await until(() => one.status.up && other.status.up, { withinMs: 20_000, what: 'both are back' });
        await exchange(one, other, heard, 'after', 5000);
        // As a server does, and for longer than what looks after it needs.
        const endMs = performance.now() + 3 * short().lookMs;
        for (let count = 0; performance.now() < endMs; count++) {
          await one.presence.put('one', String(count), 60_000);
          assert.equal((await other.presence.list()).get('one')?.text, String(count));
        }
        assert.equal(losses.length, 1, losses.join());
      });

      for (const [what, remove] of Object.entries(facts.deletions)) {
        test(`${what} deleted alone: within seconds all is as before, and the log was never lost`, async () => {
          const name = newName();
          await using one = await open(name);
          await using other = await open(name);
          const heard: string[] = [];
          other.mail.watch((text) => heard.push(text));
          await exchange(one, other, heard, 'before');
          const losses = [lossesOf(one), lossesOf(other)];
          await one.presence.put('soon gone', 'text', 1000);
          await remove(server.uri, name);
          await exchange(one, other, heard, 'after', 5000);
          await until(async () => !(await other.presence.list()).has('soon gone'), {
            withinMs: 5000,
            what: 'it is gone',
          });
          const { seq = 0 } = (await one.append([row('after', { dedup: 'after' })]))[0] ?? {};
          assert.deepEqual(await other.append([row('after', { dedup: 'after' })]), [{ seq, duplicate: true }]);
          await one.retire([seq - 1]);
          const live: number[] = [];
          for await (const page of (await other.load()).rows) live.push(...page.map((each) => each.seq));
          assert.ok(live.includes(seq) && !live.includes(seq - 1), live.join());
          await one.dropRetired(Date.now() + 60_000);
          assert.deepEqual(losses.flat(), []);
          await one.close();
          await using again = await open(name);
          assert.equal(again.epoch, other.epoch);
        });
      }

      for (const [what, { of, spoil }] of Object.entries(facts.spoilers)) {
        test(`${what}: ${of} alone is away, and back by itself; the log works as fast as before`, async () => {
          const name = newName();
          await using one = await open(name);
          await using other = await open(name);
          const heard: string[] = [];
          other.mail.watch((text) => heard.push(text));
          await exchange(one, other, heard, 'before');
          const losses = [lossesOf(one), lossesOf(other)];
          {
            await using _spoiled = await spoil(server.uri, name);
            const use = (): Promise<unknown> =>
              of === 'mail'
                ? one.mail.send('unheard')
                : Promise.all([
                    one.presence.put('one', 'unseen', 60_000),
                    one.presence.list(),
                    one.presence.putParts('one', new Map([[0, 'unseen']]), 60_000),
                    one.presence.parts('one', [0]),
                  ]);
            for (let count = 0; count < 2; count++) {
              const used = use().then(
                () => undefined,
                (error: unknown) => error,
              );
              const startedMs = performance.now();
              for (let appends = 0; appends < 5; appends++) await one.append([row('amid')]);
              await other.read(0, 10);
              const tookMs = performance.now() - startedMs;
              assert.ok(tookMs < 500 * patience(), `appends took ${tookMs} ms`);
              assert.equal(refusal(await used), 'presence_unavailable');
            }
          }
          await exchange(one, other, heard, 'after', 5000);
          assert.deepEqual(losses.flat(), []);
        });
      }

      test('the rows alone are lost: it is not taken for the log that was there, and can be opened anew', async () => {
        const name = newName();
        const store = await open(name);
        await store.append([row('a'), row('b')]);
        await store.read(0, 10);
        await facts.loss(server.uri, name);
        await assert.rejects(
          within(10_000, store.failed),
          (error) => error instanceof SyncError && error.code === 'backbone_replaced',
        );
        await store.close();
        await using again = await open(name);
        assert.notEqual(again.epoch, store.epoch);
        const [place] = await again.append([row('c')]);
        assert.deepEqual(
          (await again.read((place?.seq ?? 0) - 1, 10)).map(({ body }) => body),
          ['"c"'],
        );
      });

      test('a wrong password is no start, and nothing that is said has it', async () => {
        const wrong = server.uri.replace(encodeURIComponent(BACKBONE_PASSWORD), 'wr0ng-secret');
        await assert.rejects(openOn(wrong, newName(), { ...short(), openMs: 500 }), (error) => {
          assert.ok(error instanceof SyncError, String(error));
          assert.equal(error.code, 'backbone_unavailable');
          assert.doesNotMatch(error.message, /wr0ng/);
          assert.match(error.message, /no start within 0\.5 s: .+; start it, or correct SYNC_BROADCAST_URI$/);
          assert.match(error.message, new RegExp(`127.0.0.1:${server.port}`));
          return true;
        });
      });

      test('a server that comes up later than we do is waited for', async () => {
        await server.kill();
        const opening = open(newName(), { ...short(), openMs: 20_000 });
        opening.catch(() => undefined); // looked at below
        await server.start();
        await using store = await opening;
        assert.deepEqual(store.status, { up: true });
      });
    });

    // After what restarts and copies the server: its large rows would be read back each time.
    logStoreContract(kind, {
      shared: true,
      skip,
      countsNoRows: kind === 'NATS',
      newLog: async (dedup) => {
        const name = newName();
        return { open: () => openOn(server.uri, name, UNHURRIED, dedup), [Symbol.asyncDispose]: async () => undefined };
      },
    });
  });
}

/** Presence and mail of one handle reach the other, within a time; a row wakes it, and is read. */
async function exchange(
  one: LogStore,
  other: LogStore,
  heard: readonly string[],
  text: string,
  withinMs = 20_000,
): Promise<void> {
  const [place] = await one.append([row(`${text} 1`), row(`${text} 2`)]);
  const isListed = async (): Promise<boolean> => {
    const instance = `one ${text}`;
    const part = new Map([[0, text]]);
    await one.presence.putParts(instance, part, 60_000);
    if ((await one.presence.put(instance, text, 60_000, 1)) !== 1) return false;
    const isPart = (await other.presence.parts(instance, [0])).get(0) === text;
    return isPart && (await other.presence.list()).get(instance)?.text === text;
  };
  await until(isListed, { withinMs, what: 'presence is listed' });
  const isHeard = async (): Promise<boolean> => {
    await one.mail.send(text);
    return heard.includes(text);
  };
  await until(isHeard, { withinMs, what: 'mail is heard' });
  let calls = 0;
  const stop = other.watch(() => calls++);
  await one.append([row(`${text} 3`)]);
  await until(() => calls > 0, { withinMs, what: 'the watcher is called' });
  stop();
  assert.ok(place !== undefined);
  assert.deepEqual(
    (await other.read(place.seq - 1, 3)).map(({ body }) => body),
    [1, 2, 3].map((count) => JSON.stringify(`${text} ${count}`)),
  );
}

/** Why a store was away from now on, each time. */
function lossesOf(store: LogStore): string[] {
  const losses: string[] = [];
  let wasUp = store.status.up;
  store.watch(() => {
    const { status } = store;
    if (wasUp && !status.up) losses.push(status.reason);
    wasUp = status.up;
  });
  return losses;
}

function newName(): string {
  return `t${hexId().slice(0, 12)}`;
}

function row(text: string, more: Partial<NewRow> = {}): NewRow {
  return { kind: 'update', body: JSON.stringify(text), ...more };
}

function bodies(rows: readonly StoredRow[]): unknown[] {
  return rows.map(({ body }) => JSON.parse(body));
}

async function readAll(store: LogStore): Promise<StoredRow[]> {
  const rows: StoredRow[] = [];
  for (;;) {
    const page = await store.read(rows.at(-1)?.seq ?? 0, 300);
    if (page.length === 0) return rows;
    rows.push(...page);
  }
}

function refusalOf(outcome: PromiseSettledResult<unknown>): unknown {
  return outcome.status === 'rejected' ? refusal(outcome.reason) : 'it was answered';
}

function refusal(error: unknown): unknown {
  return error instanceof SyncError ? error.code : error;
}

async function within<T>(ms: number, work: Promise<T>): Promise<T> {
  const signal = AbortSignal.timeout(ms * patience());
  const late = new Promise<never>((_resolve, reject) => {
    signal.addEventListener('abort', () => reject(new Error(`not within ${ms} ms`)), { once: true });
  });
  return await Promise.race([work, late]);
}
