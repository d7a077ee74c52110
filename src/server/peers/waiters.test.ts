import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { WELL } from '../../../test/support/session-report.js';
import { SharedPresence } from '../../../test/support/shared-presence.js';
import { until } from '../../../test/support/until.js';
import { silentLogger } from '../../lib/observe/log.js';
import type { SessionPeer } from '../../pubsub/peer.js';
import type { ClientsAnswer } from '../../wire/clients.js';
import type { SessionReport } from '../../wire/session.js';
import { createTraceMemory } from '../changes/change-times.js';
import { IdClaims } from '../clients/id-claims.js';
import { RecentUpdates } from '../clients/recent-updates.js';
import type { AwaitedUpdate } from '../clients/wait-rules.js';
import { type ClientParts, composeClients, runClients } from '../compose-clients.js';
import type { WaitAnswer } from './waiters.js';

const ALL = { permittedTopics: undefined, isLimited: false };

/** One log, and instances that see it as far as they are told. */
class Instance {
  /** The one clock of all clients. */
  static opened = 0;
  head = 0;
  readonly name: string;
  readonly parts: ClientParts;
  readonly #recent = new RecentUpdates(0);
  readonly memory = createTraceMemory();
  readonly plain: { id: string; topics: string[] }[] = [];
  /** How many applied updates were timed. */
  timed = 0;
  readonly #stop = new AbortController();
  readonly #done: Promise<void>;

  constructor(name: string, shared?: SharedPresence) {
    this.name = name;
    const instance = this;
    this.parts = composeClients(
      { instance: name, heartbeatMs: 60_000, memoryMs: 60_000 },
      {
        log: {
          epoch: 'e',
          status: { up: true } as const,
          get head() {
            return instance.head;
          },
          heads: (topics) => Object.fromEntries(topics.map((topic) => [topic, instance.head])),
          audit: async () => ({ records: [], next: undefined }),
          record: async () => undefined,
          row: async () => undefined,
        },
        claims: new IdClaims({ memoryMs: 60_000 }),
        isNewLog: true,
        recent: this.#recent,
        policyHead: () => 'commit',
        servedCommits: () => ['commit'],
        presence: shared?.of(name),
        mail: undefined,
        moduleText: async () => undefined,
        feed: () => this.timed++,
        stored: undefined,
        instances: undefined,
        memory: this.memory,
        connections: () => this.plain.map(({ id, topics }) => ({ ...fakeInfo(id, topics), clientId: id })),
        logger: silentLogger(),
      },
    );
    this.#done = runClients(this.parts, this.#stop.signal);
  }

  /** Waits; whatever it says, the list of clients says the same at that moment. */
  async waitApplied(update: AwaitedUpdate, timeoutMs: number): Promise<WaitAnswer> {
    const answer = await this.parts.waiters.waitApplied(update, timeoutMs);
    const { clients, incomplete } = await this.list();
    if (answer.done) assert.equal(incomplete, null, 'a wait says more than the list');
    if (incomplete !== null) assert.notEqual(answer.incomplete, undefined, `the list says: ${incomplete}`);
    const concerned = clients.filter(({ topics }) => topics.includes('t'));
    const named = new Set([...answer.away, ...answer.lagging].map(({ client_id: id }) => id));
    const missing = concerned.filter(({ connected, client_id: id }) => !connected && !named.has(id));
    assert(
      missing.length <= answer.applied,
      `neither named nor counted: ${missing.map((one) => one.client_id).join()}`,
    );
    return answer;
  }

  list(): Promise<ClientsAnswer> {
    return this.parts.list({ limit: 10_000, limits: ALL });
  }

  sees(seq: number): void {
    this.head = seq;
    this.#recent.add({ seq, timeMs: Date.now(), topics: ['t'] });
    this.parts.peerInstances.changed();
  }

  async connect(
    clientId: string,
    topics = ['t'],
    through: number | null = 0,
  ): Promise<{ report: (more: Partial<SessionReport>) => void; leave: () => void; goodbye: () => void }> {
    const peer: SessionPeer = {
      id: Math.random().toString(16).slice(2).padEnd(8, '0'),
      info: fakeInfo(clientId, topics),
      tell: () => undefined,
      isAlive: async () => true,
      drop: () => undefined,
    };
    const position =
      through === null ? undefined : { epoch: 'e', applied_through: through, applied_beyond: [], unresolved: [] };
    const answer = await this.parts.handler.open(
      peer,
      { topics, client_id: clientId, position, at: ++Instance.opened },
      () => true,
    );
    assert.equal((answer as { accepted?: boolean }).accepted, true, JSON.stringify(answer));
    return {
      report: (more) => assert(this.parts.handler.call(peer, 'report', { ...report(clientId), ...more })),
      leave: () => this.parts.handler.closed(peer, 'its connection broke'),
      goodbye: () => this.parts.handler.closed(peer, 'it closed the connection', true),
    };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort();
    await this.#done;
  }
}

function fakeInfo(id: string, topics: string[]): SessionPeer['info'] {
  return {
    id,
    clientId: undefined,
    subject: null,
    rpcId: undefined,
    host: 'h',
    port: 1,
    connectedAtMs: Date.now(),
    topics,
    query: {},
    extended: true,
    protocol: 2,
  };
}

function report(clientId: string): SessionReport {
  return {
    client_id: clientId,
    position: null,
    ...WELL,
  };
}

const through = (seq: number, unresolved: number[] = []): Pick<SessionReport, 'position'> => ({
  position: { epoch: 'e', applied_through: seq, applied_beyond: [], unresolved },
});
const UPDATE = { seq: 1, topics: ['t'], paths: ['/a'] };
const LONG_MS = 10_000;

describe('waiting for an update on one instance', () => {
  it('nobody is concerned: done at once', async () => {
    await using one = new Instance('one');
    await one.connect('other', ['elsewhere']);
    one.sees(1);
    const answer = await one.waitApplied(UPDATE, LONG_MS);
    const nobody = { lagging: [], lagging_count: 0, away: [], away_count: 0, unknown: [] };
    assert.deepEqual(answer, { done: true, applied: 0, ...nobody });
  });

  it('ends when the last client reports, and says how many there were', async () => {
    await using one = new Instance('one');
    const [a, b] = [await one.connect('a'), await one.connect('b')];
    one.sees(1);
    const waiting = one.waitApplied(UPDATE, LONG_MS);
    a.report(through(1));
    let isOver = false;
    void waiting.then(() => {
      isOver = true;
    });
    await new Promise((resolve) => setImmediate(resolve));
    assert(!isOver, 'b has not said so yet');
    b.report(through(1));
    const { done, applied } = await waiting;
    assert.deepEqual({ done, applied }, { done: true, applied: 2 });
  });

  it('the time is up: names who lags, and why', async () => {
    await using one = new Instance('one');
    await one.connect('slow');
    one.sees(1);
    const { done, lagging } = await one.waitApplied(UPDATE, 20);
    assert.equal(done, false);
    assert.deepEqual(lagging, [{ client_id: 'slow', reason: 'it has applied up to 0' }]);
  });

  it('a client that leaves stays in the set; it counts when it is back under the same id with a position beyond', async () => {
    await using one = new Instance('one');
    const a = await one.connect('a');
    one.sees(1);
    a.leave();
    assert.match((await one.waitApplied(UPDATE, 20)).lagging[0]?.reason ?? '', /^away since/);
    const waiting = one.waitApplied(UPDATE, LONG_MS);
    await one.connect('a', ['t'], 1);
    assert.equal((await waiting).done, true);
  });

  it('who came after the append, or left before it, is not waited for', async () => {
    await using one = new Instance('one');
    const gone = await one.connect('gone');
    gone.leave();
    one.sees(1);
    await one.connect('late', ['t'], null);
    const { done, applied, away } = await one.waitApplied(UPDATE, LONG_MS);
    assert.deepEqual([done, applied, away.map(({ client_id: id }) => id)], [true, 0, ['gone']]);
  });

  it('who is away is named and counted, also where nobody else is concerned and it left just now', async () => {
    await using one = new Instance('one');
    const [cut] = [await one.connect('cut'), await one.connect('elsewhere', ['x'])];
    cut.leave();
    one.sees(1);
    const { done, applied, away, away_count: count } = await one.waitApplied(UPDATE, LONG_MS);
    assert.deepEqual([done, applied, count, away.map(({ client_id: id }) => id)], [true, 0, 1, ['cut']]);
    assert.match(away[0]?.reason ?? '', /^away since \d{4}-\S+: its connection broke$/);
  });

  it('who comes back during the wait, or with an older state of the log, is waited for', async () => {
    await using one = new Instance('one');
    const [busy, cut] = [await one.connect('busy'), await one.connect('cut')];
    cut.leave();
    one.sees(1);
    const waiting = one.waitApplied(UPDATE, LONG_MS);
    const [back, stranger] = [await one.connect('cut'), await one.connect('stranger')];
    busy.report(through(1));
    stranger.report(through(1));
    assert.equal((await one.waitApplied(UPDATE, 20)).lagging[0]?.client_id, 'cut');
    back.report(through(1));
    const { done, applied, away } = await waiting;
    assert.deepEqual([done, applied, away], [true, 3, []]);
  });

  it('who says goodbye is not away, not listed, and nobody to wait for; a connection that breaks is', async () => {
    await using one = new Instance('one');
    const [early, late, lost] = [await one.connect('early'), await one.connect('late'), await one.connect('lost')];
    early.goodbye();
    one.sees(1);
    const waiting = one.waitApplied(UPDATE, LONG_MS);
    late.goodbye();
    lost.report(through(1));
    const { done, applied, away_count: away } = await waiting;
    assert.deepEqual([done, applied, away], [true, 1, 0]);
    lost.leave();
    const { clients } = await one.list();
    assert.deepEqual(
      clients.map(({ client_id: id, connected }) => [id, connected]),
      [['lost', false]],
    );
    assert.equal(one.parts.counts().away, 1);
    await one.connect('early');
    assert.equal((await one.list()).clients.find(({ client_id: id }) => id === 'early')?.connected, true);
  });

  it('after a rolling update of forty clients, with new names or the same, none is away', async () => {
    await using one = new Instance('one');
    for (const next of [(at: number) => `new-${at}`, (at: number) => `old-${at}`]) {
      const old = await Promise.all(Array.from({ length: 40 }, (_, at) => one.connect(`old-${at}`)));
      for (const [at, client] of old.entries()) {
        await one.connect(next(at));
        client.goodbye();
      }
      const { connected, away } = one.parts.counts();
      assert.deepEqual([connected >= 40, away], [true, 0]);
    }
  });

  it('a client that blocks it ends the wait as soon as nothing else is open', async () => {
    await using one = new Instance('one');
    const [a, b] = [await one.connect('a'), await one.connect('b')];
    one.sees(1);
    const waiting = one.waitApplied(UPDATE, LONG_MS);
    a.report({ ...through(1, [1]), blocked: [1], failing: [{ path: '/a', error: 'a rule is there' }] });
    b.report(through(1));
    const { done, applied, lagging } = await waiting;
    assert.deepEqual(
      { done, applied, lagging },
      { done: false, applied: 1, lagging: [{ client_id: 'a', reason: 'blocked: /a: a rule is there' }] },
    );
  });

  it('of two that use one id both are waited for, also when one of them leaves', async () => {
    await using a = new Instance('a');
    const [one, two] = [await a.connect('same'), await a.connect('same')];
    await until(async () => (await a.parts.list({ limit: 10, limits: ALL })).total === 2, {
      withinMs: 5000,
      what: 'both live',
    });
    a.sees(1);
    const waiting = a.waitApplied(UPDATE, 300);
    two.report(through(1));
    one.leave();
    const { done, applied, lagging } = await waiting;
    assert.deepEqual([done, applied, lagging.length], [false, 1, 1]);
    assert.match(`${lagging[0]?.client_id} ${lagging[0]?.reason}`, /^same~[0-9a-f]{8} away since/);

    const [three, four] = [await a.connect('again'), await a.connect('again')];
    await until(async () => (await a.parts.list({ id: 'again', limit: 10, limits: ALL })).total === 2, {
      withinMs: 5000,
      what: 'both live',
    });
    a.sees(2);
    const later = a.waitApplied({ ...UPDATE, seq: 2 }, 300);
    three.report(through(2));
    four.leave();
    assert((await later).lagging.some(({ client_id, reason }) => client_id === 'again' && /^away since/.test(reason)));
  });

  it('an OPAL client is named as unknown and not waited for', async () => {
    await using one = new Instance('one');
    one.plain.push({ id: 'opal', topics: ['t'] }, { id: 'opal-elsewhere', topics: ['x'] });
    one.sees(1);
    const { done, unknown } = await one.waitApplied(UPDATE, LONG_MS);
    assert.deepEqual({ done, unknown }, { done: true, unknown: ['opal'] });
  });

  it('a stop of the server ends the wait with what is known', async () => {
    const one = new Instance('one');
    await one.connect('a');
    one.sees(1);
    const waiting = one.waitApplied(UPDATE, LONG_MS);
    await one[Symbol.asyncDispose]();
    assert.equal((await waiting).done, false);
  });
});

describe('waiting over several instances', () => {
  it('waits for the clients of the others, and for an instance that has not seen the record yet', async () => {
    const shared = new SharedPresence();
    await using one = new Instance('one', shared);
    await using two = new Instance('two', shared);
    await two.parts.peerInstances.join();
    const far = await two.connect('far');
    one.sees(1);
    const first = await one.waitApplied(UPDATE, 400);
    assert.equal(first.done, false);
    assert.match(first.incomplete ?? '', /instance two has not said/);
    const waiting = one.waitApplied(UPDATE, LONG_MS);
    two.sees(1);
    far.report(through(1));
    const { done, applied } = await waiting;
    assert.deepEqual({ done, applied }, { done: true, applied: 1 });
  });

  it('a client that moves to another instance under the same id continues', async () => {
    const shared = new SharedPresence();
    await using one = new Instance('one', shared);
    await using two = new Instance('two', shared);
    const a = await one.connect('a');
    one.sees(1);
    two.sees(1);
    const waiting = one.waitApplied(UPDATE, LONG_MS);
    a.leave();
    const moved = await two.connect('a');
    moved.report(through(1));
    const { done, applied } = await waiting;
    assert.deepEqual({ done, applied }, { done: true, applied: 1 });
    const { clients } = await one.parts.list({ id: 'a', limit: 10, limits: ALL });
    assert.deepEqual(
      clients.map(({ instance, connected, duplicates }) => ({ instance, connected, duplicates })),
      [{ instance: 'two', connected: true, duplicates: 0 }],
    );
  });

  it('an instance an hour ahead, or behind, takes no other one for silent', async () => {
    for (const ahead of [3_600_000, -3_600_000]) {
      const shared = new SharedPresence();
      await using two = new Instance('two', shared);
      await two.parts.peerInstances.join();
      for (const [name, { text, untilMs }] of shared.texts) {
        const view = JSON.parse(text) as { atMs: number };
        shared.texts.set(name, { text: JSON.stringify({ ...view, atMs: view.atMs - ahead }), untilMs });
      }
      await using one = new Instance('one', shared);
      assert.equal((await one.parts.list({ limit: 10, limits: ALL })).incomplete, null, `${ahead} ms ahead`);
    }
  });

  /** Two instances, of which the first has read that `far` is connected to the second. */
  async function apart() {
    const shared = new SharedPresence();
    const [one, two] = [new Instance('one', shared), new Instance('two', shared)];
    const far = await two.connect('far');
    await two.parts.peerInstances.join();
    assert.equal((await one.list()).clients[0]?.connected, true);
    const end = async (): Promise<void> => {
      for (const each of [one, two]) await each[Symbol.asyncDispose]();
    };
    return { shared, one, two, far, [Symbol.asyncDispose]: end };
  }
  const MINUTES = 60_000;
  const SILENT =
    /^server instance two has said nothing for \d+ s, and not all of its clients have come to another one$/;

  it('an instance that is cut off or frozen may have clients: no wait says that all have it, and they are named', async () => {
    await using world = await apart();
    const { shared, one, two, far } = world;
    shared.cutOff.add('two');
    one.sees(1);
    assert.match((await one.waitApplied(UPDATE, 20)).incomplete ?? '', /instance two has not said who is connected/);
    // As long as it lasts: its announcement, which tells nothing new, counts for no more than that.
    for (const ms of [8000, 5 * MINUTES, 9 * MINUTES]) {
      shared.pass(ms);
      const { done, incomplete, away } = await one.waitApplied(UPDATE, 20);
      assert.deepEqual([done, away.map(({ client_id: id }) => id)], [false, ['far']], `after ${ms} ms`);
      assert.match(incomplete ?? '', SILENT);
      assert.match(away[0]?.reason ?? '', /^away since \S+: nothing is heard of its server instance two$/);
      assert.equal((await one.list()).incomplete, incomplete);
    }
    shared.cutOff.delete('two');
    two.sees(1);
    far.report(through(1));
    const { done, applied, away } = await one.waitApplied(UPDATE, LONG_MS);
    assert.deepEqual([done, applied, away], [true, 1, []]);
  });

  it('the same if the backbone loses what it announced, and for an instance that starts meanwhile', async () => {
    await using world = await apart();
    const { shared, one } = world;
    shared.cutOff.add('two');
    shared.pass(8000);
    await using later = new Instance('later', shared);
    for (const each of [one, later]) {
      each.sees(1);
      const { done, incomplete, away } = await each.waitApplied(UPDATE, 20);
      assert.deepEqual([done, away.map(({ client_id: id }) => id)], [false, ['far']], each.name);
      assert.match(incomplete ?? '', SILENT);
    }
    shared.texts.delete('two');
    assert.match((await one.waitApplied(UPDATE, 20)).incomplete ?? '', SILENT);
  });

  it('an instance that is not heard is gone once all of its clients have come elsewhere, older views notwithstanding', async () => {
    await using world = await apart();
    const { shared, one } = world;
    shared.cutOff.add('two');
    shared.pass(8000);
    one.sees(1);
    const old = await one.connect('other');
    old.goodbye();
    assert.match((await one.waitApplied(UPDATE, 20)).incomplete ?? '', SILENT);
    const moved = await one.connect('far');
    const waiting = one.waitApplied(UPDATE, LONG_MS);
    moved.report(through(1));
    const { done, applied, incomplete } = await waiting;
    assert.deepEqual([done, applied, incomplete], [true, 1, undefined]);
    shared.pass(10);
    assert.equal(shared.live().has('two'), false, 'what it announced is removed: nobody reads it any more');
  });

  it('a client that was here before it went to the instance that is cut off has not come back', async () => {
    const shared = new SharedPresence();
    await using one = new Instance('one', shared);
    await using two = new Instance('two', shared);
    const before = await one.connect('far');
    before.leave();
    await two.connect('far');
    await two.parts.peerInstances.join();
    await one.list();
    shared.cutOff.add('two');
    shared.pass(8000);
    one.sees(1);
    const { done, incomplete } = await one.waitApplied(UPDATE, 20);
    assert.equal(done, false);
    assert.match(incomplete ?? '', SILENT);
  });

  it('the clients of an instance that ended in order are away until they come elsewhere, and hold up no wait', async () => {
    await using world = await apart();
    const { shared, one, two } = world;
    await two[Symbol.asyncDispose]();
    await using later = new Instance('later', shared);
    for (const each of [one, later]) {
      each.sees(1);
      await each.parts.peerInstances.join();
    }
    for (const each of [one, later]) {
      const { done, away, incomplete } = await each.waitApplied(UPDATE, LONG_MS);
      assert.deepEqual([done, away.length, incomplete], [true, 1, undefined], each.name);
      assert.match(away[0]?.reason ?? '', /^away since \S+: its server stopped$/);
    }
    assert.deepEqual([one.parts.counts().away, later.parts.counts().away].toSorted(), [0, 1]);
    const back = await one.connect('far');
    back.report(through(1));
    const { done, applied, away_count: count } = await one.waitApplied(UPDATE, LONG_MS);
    assert.deepEqual([done, applied, count], [true, 1, 0]);
  });

  it('OPAL clients of an instance that is not heard are still among those that never say what they hold', async () => {
    const shared = new SharedPresence();
    await using one = new Instance('one', shared);
    await using two = new Instance('two', shared);
    two.plain.push({ id: 'opal', topics: ['t'] });
    await two.parts.peerInstances.join();
    shared.cutOff.add('two');
    shared.pass(8000);
    one.sees(1);
    const { done, unknown, incomplete } = await one.waitApplied(UPDATE, 20);
    assert.deepEqual([done, unknown], [false, ['opal']]);
    assert.match(incomplete ?? '', /has said nothing for 8 s: clients may be connected to it$/);
  });

  it('a goodbye counts at all instances, whatever older views of the client they have', async () => {
    const shared = new SharedPresence();
    await using one = new Instance('one', shared);
    await using two = new Instance('two', shared);
    const first = await two.connect('far');
    (await one.connect('far')).goodbye();
    // It notices later that the connection of before has ended.
    first.leave();
    for (const each of [one, two]) await each.parts.peerInstances.join();
    for (const each of [one, two]) {
      each.sees(1);
      assert.deepEqual((await each.list()).clients, [], each.name);
    }
    for (const each of [one, two]) await each.parts.peerInstances.join();
    for (const each of [one, two]) {
      assert.deepEqual((await each.waitApplied(UPDATE, LONG_MS)).away, [], each.name);
      assert.equal(each.parts.counts().away, 0, each.name);
    }
  });

  it('over all instances a client that is away is counted once', async () => {
    const shared = new SharedPresence();
    await using one = new Instance('one', shared);
    await using two = new Instance('two', shared);
    for (const each of [one, two]) (await each.connect('far')).leave();
    for (const each of [one, two]) await each.parts.peerInstances.join();
    for (const each of [one, two]) await each.list();
    assert.equal(one.parts.counts().away + two.parts.counts().away, 1);
    shared.cutOff.add('two');
    shared.pass(8000);
    await one.waitApplied(UPDATE, 20);
    assert.equal(one.parts.counts().away, 1, 'also of one that is not heard');
  });

  it('while the backbone is away nobody says that all have it', async () => {
    const shared = new SharedPresence();
    await using one = new Instance('one', shared);
    one.sees(1);
    shared.down = true;
    const { done, incomplete } = await one.waitApplied(UPDATE, 50);
    assert.equal(done, false);
    assert.match(incomplete ?? '', /cannot be asked/);
    assert.match((await one.parts.list({ limit: 10, limits: ALL })).incomplete ?? '', /cannot be asked/);
  });
});

it('an update is timed once for each client that was there when it came, also by the first report', async () => {
  await using a = new Instance('a');
  a.sees(1);
  const [fresh, known, late] = [await a.connect('fresh', ['t'], null), await a.connect('known', ['t'], 1), 'late'];
  a.sees(2);
  const after = await a.connect(late, ['t'], null);
  fresh.report(through(2));
  assert.equal(a.timed, 1);
  known.report(through(2));
  assert.equal(a.timed, 2);
  after.report(through(2));
  fresh.report(through(2));
  assert.equal(a.timed, 2);
});
