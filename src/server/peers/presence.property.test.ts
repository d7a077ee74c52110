import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { runSize } from '../../../test/support/run-size.js';
import { WELL } from '../../../test/support/session-report.js';
import { SharedPresence } from '../../../test/support/shared-presence.js';
import { SyncError } from '../../lib/errors.js';
import { silentLogger } from '../../lib/observe/log.js';
import { type KnownClient, newClient, reportedAtOf } from '../clients/known-client.js';
import type { Presence, PresenceText } from '../log/log-store.js';
import { PresenceJournal } from './presence-journal.js';
import { PresenceReader } from './presence-reader.js';

/**
 * Whatever is lost, late, twice or from another moment: what is read of an instance is the whole of
 * what it was at one moment, and no moment before one that was read already; once nothing fails any
 * more it is what the instance is now.
 */

const INSTANCE = 'one';
const QUIET_MS = 1000;
/** How far the clock of each client is ahead. */
const AHEAD_MS = 5;

/**
 * How a call of the presence goes wrong: before it has an effect, after it, or with an effect that
 * comes later.
 */
type Failure = 'before' | 'after' | 'late';
type Step =
  | { readonly do: 'connect' | 'leave' | 'forget' | 'report' | 'fail'; readonly who: number }
  | { readonly do: 'position'; readonly who: number; readonly seq: number }
  | { readonly do: 'everybody'; readonly seq: number }
  | { readonly do: 'say'; readonly failing?: { readonly call: number; readonly how: Failure } }
  | { readonly do: 'pass'; readonly ms: number }
  | { readonly do: 'read'; readonly from: 'now' | 'before'; readonly by: 'old' | 'new'; readonly times: boolean }
  | { readonly do: 'mark' | 'lose text' }
  | { readonly do: 'lose part'; readonly number: number };

const who = fc.nat(300);
const failing = (...how: Failure[]): fc.Arbitrary<Step> =>
  fc.record({
    do: fc.constant('say' as const),
    failing: fc.record({ call: fc.constantFrom(0, 1, 1), how: fc.constantFrom(...how) }),
  });
/** What loses nothing. */
const MILD: fc.WeightedArbitrary<Step>[] = [
  {
    weight: 6,
    arbitrary: fc.record({ do: fc.constantFrom('connect' as const, 'leave', 'forget', 'report', 'fail'), who }),
  },
  { weight: 3, arbitrary: fc.record({ do: fc.constant('position' as const), who, seq: fc.nat(5) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('everybody' as const), seq: fc.nat(5) }) },
  { weight: 3, arbitrary: fc.constant({ do: 'say' } as const) },
  { weight: 5, arbitrary: failing('before', 'after') },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('pass' as const), ms: fc.constantFrom(10, 700, 20_000) }) },
  {
    weight: 5,
    arbitrary: fc.record({
      do: fc.constant('read' as const),
      from: fc.constantFrom('now' as const, 'now', 'before'),
      by: fc.constantFrom('old' as const, 'old', 'new'),
      times: fc.boolean(),
    }),
  },
  { weight: 1, arbitrary: fc.constantFrom({ do: 'mark' } as const, { do: 'lose text' } as const) },
];
const ROUGH: fc.WeightedArbitrary<Step>[] = [
  ...MILD,
  { weight: 2, arbitrary: failing('late') },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('lose part' as const), number: fc.nat(5) }) },
];

/** An instance, and others that read what it says. */
class World {
  readonly shared = new SharedPresence();
  readonly clients = new Map<string, KnownClient>();
  /** What the instance was at each announcement, by what it said that it had seen. */
  readonly moments = new Map<number, { readonly clients: readonly KnownClient[]; readonly atMs: number }>();
  readonly old = this.reader();
  nowMs = 1_000_000;
  said = 0;
  seen = 0;
  /** Nothing was lost, and nothing came late: whatever failed, what is there is whole. */
  isIntact = true;
  #failing: { call: number; readonly how: Failure } | undefined;
  readonly #late: (() => Promise<unknown>)[] = [];
  /** Texts of a moment that is over: what a reader is given that asks elsewhere. */
  #before: ReadonlyMap<string, PresenceText> | undefined;
  #marked: ReadonlyMap<string, PresenceText> | undefined;
  readonly #journal: PresenceJournal;

  constructor() {
    const clock = { now: () => this.nowMs, elapsed: () => this.nowMs };
    const options = { instance: INSTANCE, ttlMs: 1_000_000_000, quietMs: QUIET_MS, renewMs: 1, ...clock };
    this.#journal = new PresenceJournal(options, this.#breaking(this.shared.of(INSTANCE)));
  }

  reader(): PresenceReader {
    const presence = this.shared.of('reader');
    const list = async (): Promise<ReadonlyMap<string, PresenceText>> => {
      const texts = this.#before ?? (await presence.list());
      this.#before = undefined;
      return texts;
    };
    const about = {
      instance: 'reader',
      memoryMs: 1e9,
      clockAheadMs: () => 0,
      onClients: () => undefined,
      log: silentLogger(),
    };
    return new PresenceReader({ presence: { ...presence, list }, ...about });
  }

  #breaking(presence: Presence): Presence {
    const call = async <T>(work: () => Promise<T>): Promise<T> => {
      const failing = this.#failing;
      if (failing === undefined || failing.call-- > 0) return await work();
      this.#failing = undefined;
      if (failing.how === 'after') await work();
      if (failing.how === 'late') {
        this.#late.push(work);
        this.isIntact = false;
      }
      throw new SyncError('presence_unavailable', 'away');
    };
    return {
      ...presence,
      put: (...args) => call(() => presence.put(...args)),
      putParts: (...args) => call(() => presence.putParts(...args)),
    };
  }

  #set(at: number, change: (client: KnownClient) => KnownClient): void {
    const client = this.clients.get(String(at));
    if (client !== undefined) this.clients.set(String(at), change(client));
  }

  async take(step: Step): Promise<void> {
    this.nowMs++;
    switch (step.do) {
      case 'connect':
        this.clients.set(String(step.who), connected(step.who, this.nowMs));
        return;
      case 'leave':
        return this.#set(step.who, (client) => ({ ...client, awaySinceMs: this.nowMs, awayReason: 'gone' }));
      case 'forget':
        this.clients.delete(String(step.who));
        return;
      case 'report':
        return this.#set(step.who, (client) => reported(client, this.nowMs, client.state?.healthy ?? true));
      case 'fail':
        return this.#set(step.who, (client) => reported(client, this.nowMs, false));
      case 'position':
        return this.#set(step.who, (client) => ({ ...client, position: at(step.seq) }));
      case 'everybody':
        for (const [key, client] of this.clients) this.clients.set(key, { ...client, position: at(step.seq) });
        return;
      case 'say':
        await this.say(step.failing);
        return;
      case 'pass':
        this.nowMs += step.ms;
        for (const work of this.#late.splice(0)) await work();
        return;
      case 'read':
        if (step.from === 'before') this.#before = this.#marked;
        await this.look(step.by === 'old' ? this.old : this.reader(), step.times, step.from === 'now');
        return;
      case 'mark':
        this.#marked = this.shared.live();
        return;
      case 'lose text':
        this.shared.texts.clear();
        return;
      case 'lose part':
        this.isIntact = false;
        this.shared.parts.get(INSTANCE)?.delete(step.number);
    }
  }

  async say(failing?: { readonly call: number; readonly how: Failure }): Promise<void> {
    this.#failing = failing && { ...failing };
    const clients = [...this.clients.values()];
    const seen = ++this.said;
    this.moments.set(seen, { clients, atMs: this.nowMs });
    await this.#journal.say({ clients, seen }).catch((error: unknown) => {
      if (!(error instanceof SyncError)) throw error;
    });
    this.#failing = undefined;
  }

  /**
   * Reads, and checks what was read. Returns what the instance had seen; undefined: nothing was
   * read.
   */
  async look(reader: PresenceReader, withTimes = false, isNow = true): Promise<number | undefined> {
    const { texts } = await reader.read(withTimes);
    const view = texts.get(INSTANCE)?.view;
    const isThere = this.shared.texts.has(INSTANCE);
    assert(view !== undefined || !isThere || !isNow || !this.isIntact, 'what it says is there, and cannot be read');
    if (view === undefined) return undefined;
    const moment = this.moments.get(view.seen);
    assert(moment !== undefined, `it has never seen ${view.seen}`);
    const [read, truth] = [byKey(view.clients), byKey(moment.clients)];
    assert.deepEqual(read.map(told), truth.map(told), `what it was when it had seen ${view.seen}`);
    for (const [index, client] of read.entries()) isTrueTime(client, truth[index], moment.atMs);
    if (reader === this.old) {
      assert(view.seen >= this.seen, `${view.seen} after ${this.seen}`);
      this.seen = view.seen;
    }
    return view.seen;
  }
}

function byKey(clients: readonly KnownClient[]): readonly KnownClient[] {
  return clients.toSorted((a, b) => (a.key < b.key ? -1 : 1));
}

function connected(who: number, nowMs: number): KnownClient {
  const identity = { kind: who % 7 === 0 ? 'plain' : 'session', subject: null, clientId: `c${who}` } as const;
  const peer = { host: 'h', port: who, topics: who % 2 === 0 ? ['t'] : ['t', `own ${who}`], connectedAtMs: nowMs };
  return newClient(identity, peer, { instance: INSTANCE, claimedMs: nowMs, spans: [{ from: 0, until: null }] });
}

function reported(client: KnownClient, atMs: number, healthy: boolean): KnownClient {
  if (client.awaySinceMs !== null || client.kind === 'plain') return client;
  return { ...client, state: { ...WELL, healthy, at: atMs + AHEAD_MS }, reportedAtMs: atMs };
}

function at(seq: number): KnownClient['position'] {
  return { epoch: 'e', applied_through: seq, applied_beyond: seq % 2 === 0 ? [] : [seq + 2], unresolved: [] };
}

/**
 * All but when it reported: of that {@link isTrueTime} tells. The text of JSON has no undefined
 * members.
 */
function told({ reportedAtMs: _, heard: _heard, state, ...client }: KnownClient): unknown {
  return JSON.parse(JSON.stringify({ ...client, state: state && { ...state, at: 0 } }));
}

/** A time of report is never later than the true one, and not long before. */
function isTrueTime(client: KnownClient, truth: KnownClient | undefined, atMs: number): void {
  const [said, is] = [reportedAtOf(client), truth?.reportedAtMs ?? null];
  if (said === null || is === null) {
    assert.equal(said, is);
    return;
  }
  assert(said <= is && (said === is || said >= atMs - QUIET_MS), `${said}, reported at ${is}, said at ${atMs}`);
  assert.equal(client.state?.at, (client.reportedAtMs ?? 0) + AHEAD_MS);
}

for (const [what, steps] of [
  ['with any failure between them', MILD],
  ['with losses and late effects, too', ROUGH],
] as const) {
  test(`any split of changes over announcements, ${what}, is read as the whole`, async () => {
    let read = 0;
    await fc.assert(
      fc.asyncProperty(fc.array(fc.oneof(...steps), { maxLength: 150, size: 'max' }), async (taken) => {
        const world = new World();
        for (let each = 0; each < 290; each++) await world.take({ do: 'connect', who: each });
        for (const each of taken) await world.take(each);
        // What was on its way has come, and nothing fails any more.
        for (let round = 0; round < 2; round++) {
          await world.take({ do: 'pass', ms: 20_000 });
          await world.say();
        }
        for (const reader of [world.old, world.reader()]) {
          assert.equal(await world.look(reader), world.said);
          read++;
        }
      }),
      { numRuns: runSize({ long: 400, ci: 40, quick: 12 }) },
    );
    assert(read > 0);
  });
}
