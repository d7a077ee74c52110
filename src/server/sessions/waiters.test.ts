import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { WELL } from '../../../test/support/session-report.js';
import { until } from '../../../test/support/until.js';
import { silentLogger } from '../../lib/log.js';
import type { SessionPeer } from '../../pubsub/peer.js';
import type { SessionReport } from '../../wire/session.js';
import type { Presence } from '../log/log-store.js';
import { createTraceMemory } from '../trace/change-times.js';
import { IdClaims } from './id-claims.js';
import { RecentUpdates } from './recent-updates.js';
import { Sessions } from './sessions.js';

const ALL = { permittedTopics: undefined, isLimited: false };

/** One log, and instances that see it as far as they are told. */
class Instance {
  head = 0;
  readonly name: string;
  readonly sessions: Sessions;
  readonly memory = createTraceMemory();
  readonly plain: { id: string; topics: string[] }[] = [];
  /** How many applied updates were timed. */
  timed = 0;
  readonly #stop = new AbortController();
  readonly #done: Promise<void>;

  constructor(name: string, presence?: Presence) {
    this.name = name;
    const instance = this;
    this.sessions = new Sessions(
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
        },
        claims: new IdClaims({ memoryMs: 60_000 }),
        isNewLog: true,
        recent: new RecentUpdates(0),
        policyHead: () => 'commit',
        servedCommits: () => ['commit'],
        presence,
        mail: undefined,
        moduleText: async () => undefined,
        onApplied: () => this.timed++,
        memory: this.memory,
        peers: () => this.plain.map(({ id, topics }) => ({ ...fakeInfo(id, topics), clientId: id })),
        logger: silentLogger(),
      },
    );
    this.#done = this.sessions.run(this.#stop.signal);
  }

  sees(seq: number): void {
    this.head = seq;
    this.sessions.recorded({ seq, timeMs: Date.now(), topics: ['t'] });
  }

  async connect(
    clientId: string,
    topics = ['t'],
    through: number | null = 0,
  ): Promise<{ report: (more: Partial<SessionReport>) => void; leave: () => void }> {
    const peer: SessionPeer = {
      id: Math.random().toString(16).slice(2).padEnd(8, '0'),
      info: fakeInfo(clientId, topics),
      tell: () => undefined,
      isAlive: async () => true,
      drop: () => undefined,
    };
    const position =
      through === null ? undefined : { epoch: 'e', applied_through: through, applied_beyond: [], unresolved: [] };
    const answer = await this.sessions.handler.open(peer, { topics, client_id: clientId, position }, () => true);
    assert.equal((answer as { accepted?: boolean }).accepted, true, JSON.stringify(answer));
    return {
      report: (more) => assert(this.sessions.handler.call(peer, 'report', { ...report(clientId), ...more })),
      leave: () => this.sessions.handler.closed(peer),
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

/** A backbone's presence, in memory. */
function presence(): Presence & { down: boolean } {
  const texts = new Map<string, string>();
  return {
    down: false,
    async put(instance, text) {
      if (this.down) throw new Error('away');
      texts.set(instance, text);
    },
    async list() {
      if (this.down) throw new Error('away');
      return new Map(texts);
    },
  };
}

describe('waiting for an update on one instance', () => {
  it('nobody is concerned: done at once', async () => {
    await using one = new Instance('one');
    await one.connect('other', ['elsewhere']);
    one.sees(1);
    const answer = await one.sessions.waitApplied(UPDATE, LONG_MS);
    assert.deepEqual(answer, { done: true, applied: 0, lagging: [], lagging_count: 0, unknown: [] });
  });

  it('ends when the last client reports, and says how many there were', async () => {
    await using one = new Instance('one');
    const [a, b] = [await one.connect('a'), await one.connect('b')];
    one.sees(1);
    const waiting = one.sessions.waitApplied(UPDATE, LONG_MS);
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
    const { done, lagging } = await one.sessions.waitApplied(UPDATE, 20);
    assert.equal(done, false);
    assert.deepEqual(lagging, [{ client_id: 'slow', reason: 'it has applied up to 0' }]);
  });

  it('a client that leaves stays in the set; it counts when it is back under the same id with a position beyond', async () => {
    await using one = new Instance('one');
    const a = await one.connect('a');
    one.sees(1);
    a.leave();
    assert.match((await one.sessions.waitApplied(UPDATE, 20)).lagging[0]?.reason ?? '', /^away since/);
    const waiting = one.sessions.waitApplied(UPDATE, LONG_MS);
    await one.connect('a', ['t'], 1);
    assert.equal((await waiting).done, true);
  });

  it('who came after the append, or left before it, is not waited for', async () => {
    await using one = new Instance('one');
    const gone = await one.connect('gone');
    gone.leave();
    one.sees(1);
    await one.connect('late');
    assert.deepEqual((await one.sessions.waitApplied(UPDATE, LONG_MS)).done, true);
  });

  it('a client that blocks it ends the wait as soon as nothing else is open', async () => {
    await using one = new Instance('one');
    const [a, b] = [await one.connect('a'), await one.connect('b')];
    one.sees(1);
    const waiting = one.sessions.waitApplied(UPDATE, LONG_MS);
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
    await until(async () => (await a.sessions.clients({ limit: 10, limits: ALL })).total === 2, {
      withinMs: 5000,
      what: 'both live',
    });
    a.sees(1);
    const waiting = a.sessions.waitApplied(UPDATE, 300);
    two.report(through(1));
    one.leave();
    const { done, applied, lagging } = await waiting;
    assert.deepEqual([done, applied, lagging.length], [false, 1, 1]);
    assert.match(`${lagging[0]?.client_id} ${lagging[0]?.reason}`, /^same~[0-9a-f]{8} away since/);

    const [three, four] = [await a.connect('again'), await a.connect('again')];
    await until(async () => (await a.sessions.clients({ id: 'again', limit: 10, limits: ALL })).total === 2, {
      withinMs: 5000,
      what: 'both live',
    });
    a.sees(2);
    const later = a.sessions.waitApplied({ ...UPDATE, seq: 2 }, 300);
    three.report(through(2));
    four.leave();
    assert((await later).lagging.some(({ client_id, reason }) => client_id === 'again' && /^away since/.test(reason)));
  });

  it('an OPAL client is named as unknown and not waited for', async () => {
    await using one = new Instance('one');
    one.plain.push({ id: 'opal', topics: ['t'] }, { id: 'opal-elsewhere', topics: ['x'] });
    one.sees(1);
    const { done, unknown } = await one.sessions.waitApplied(UPDATE, LONG_MS);
    assert.deepEqual({ done, unknown }, { done: true, unknown: ['opal'] });
  });

  it('a stop of the server ends the wait with what is known', async () => {
    const one = new Instance('one');
    await one.connect('a');
    one.sees(1);
    const waiting = one.sessions.waitApplied(UPDATE, LONG_MS);
    await one[Symbol.asyncDispose]();
    assert.equal((await waiting).done, false);
  });
});

describe('waiting over several instances', () => {
  it('waits for the clients of the others, and for an instance that has not seen the record yet', async () => {
    const shared = presence();
    await using one = new Instance('one', shared);
    await using two = new Instance('two', shared);
    await two.sessions.join();
    const far = await two.connect('far');
    one.sees(1);
    const first = await one.sessions.waitApplied(UPDATE, 400);
    assert.equal(first.done, false);
    assert.match(first.incomplete ?? '', /instance two has not said/);
    const waiting = one.sessions.waitApplied(UPDATE, LONG_MS);
    two.sees(1);
    far.report(through(1));
    const { done, applied } = await waiting;
    assert.deepEqual({ done, applied }, { done: true, applied: 1 });
  });

  it('a client that moves to another instance under the same id continues', async () => {
    const shared = presence();
    await using one = new Instance('one', shared);
    await using two = new Instance('two', shared);
    const a = await one.connect('a');
    one.sees(1);
    two.sees(1);
    const waiting = one.sessions.waitApplied(UPDATE, LONG_MS);
    a.leave();
    const moved = await two.connect('a');
    moved.report(through(1));
    const { done, applied } = await waiting;
    assert.deepEqual({ done, applied }, { done: true, applied: 1 });
    const { clients } = await one.sessions.clients({ id: 'a', limit: 10, limits: ALL });
    assert.deepEqual(
      clients.map(({ instance, connected, duplicates }) => ({ instance, connected, duplicates })),
      [{ instance: 'two', connected: true, duplicates: 0 }],
    );
  });

  it('an instance an hour ahead, or behind, takes no other one for silent', async () => {
    for (const ahead of [3_600_000, -3_600_000]) {
      const shared = presence();
      await using two = new Instance('two', shared);
      await two.sessions.join();
      const list = shared.list.bind(shared);
      const texts = async (): Promise<Map<string, string>> =>
        new Map(
          [...(await list())].map(([name, text]) => {
            const view = JSON.parse(text) as { atMs: number };
            return [name, JSON.stringify({ ...view, atMs: view.atMs - ahead })];
          }),
        );
      await using one = new Instance('one', { put: shared.put.bind(shared), list: texts });
      assert.equal((await one.sessions.clients({ limit: 10, limits: ALL })).incomplete, null, `${ahead} ms ahead`);
    }
  });

  it('while the backbone is away nobody says that all have it', async () => {
    const shared = presence();
    await using one = new Instance('one', shared);
    one.sees(1);
    shared.down = true;
    const { done, incomplete } = await one.sessions.waitApplied(UPDATE, 50);
    assert.equal(done, false);
    assert.match(incomplete ?? '', /cannot be asked/);
    assert.match((await one.sessions.clients({ limit: 10, limits: ALL })).incomplete ?? '', /cannot be asked/);
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
