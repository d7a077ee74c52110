import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { DataStory, type StoryEntry } from '../../../test/support/data-story.js';
import type { PeerEntry } from '../../wire/data.js';
import { healthDocument } from '../health/health-document.js';
import { Status } from './status.js';

/** A status whose story a test tells in short words. */
class Story extends DataStory {
  readonly status: Status;
  readonly finished: string[] = [];
  readonly #known = new Map<string, StoryEntry>();

  constructor(enabled: { policy?: boolean; data?: boolean } = {}) {
    super();
    const { policy = true, data = true } = enabled;
    this.status = new Status({ policyEnabled: policy, dataEnabled: data }, ({ id, success }) => {
      this.finished.push(`${id} ${success ? 'applied' : 'failed'}`);
    });
    this.events.subscribe(this.status.onData);
  }

  /**
   * An update (or `initial-load`) with entries; `a PATCH` has that method. Known entries of another
   * one move to it.
   */
  brings(id: string, ...entries: string[]): void {
    const named = entries.map((text) => {
      const [name = '', method = 'PUT'] = text.split(' ');
      const entry = this.#known.get(name) ?? this.entry(name, { save_method: method as PeerEntry['save_method'] });
      this.#known.set(name, entry);
      return entry;
    });
    this.update(id, ...named);
  }

  /** A load that names entries of another one, which keeps them. */
  names(id: string, ...entries: string[]): void {
    const transaction = this.begin(id);
    for (const name of entries) this.named(transaction, this.#entry(name));
    this.seal(transaction);
  }

  applied = (name: string): void => this.settle(this.#entry(name), { kind: 'applied' });
  fails = (name: string, error = '404'): void => this.settle(this.#entry(name), { kind: 'fetching', error });
  blocked = (name: string): void => this.settle(this.#entry(name), { kind: 'blocked', error: 'a rule is there' });
  ready = (name: string): void => this.settle(this.#entry(name), { kind: 'ready', body: undefined, error: undefined });
  forgotten = (name: string): void => this.forget(this.#entry(name));

  policy = (id: string, error = ''): void => this.status.policyResult(id, error);
  engine = (online: boolean): void => this.status.engineSeen(online, online ? undefined : 'it is away');
  config = (): void => this.configRead();

  /** Everything that makes a client with these initial entries healthy. */
  good(...entries: string[]): void {
    this.engine(true);
    this.policy('c1');
    this.brings('initial-load', ...entries);
    this.config();
    for (const name of entries) this.applied(name.split(' ')[0] ?? '');
  }

  #entry(name: string): StoryEntry {
    const entry = this.#known.get(name);
    assert(entry !== undefined);
    return entry;
  }
}

type Expected = 'not ready' | 'ready' | 'healthy';

function stateOf({ status }: Story): Expected {
  if (!status.ready) {
    assert.equal(status.healthy, false, 'healthy without being ready');
    return 'not ready';
  }
  return status.healthy ? 'healthy' : 'ready';
}

/**
 * Each rule of specification "Health states", and the decisions of design D39, as stories: what
 * happens, what then holds.
 */
const RULES: readonly {
  rule: string;
  enabled?: { policy?: boolean; data?: boolean };
  story: [(s: Story) => void, Expected][];
}[] = [
  {
    rule: 'policy and all initial data sources, in either order, and a reachable engine',
    story: [
      [() => undefined, 'not ready'],
      [(s) => s.engine(true), 'not ready'],
      [(s) => s.policy('c1'), 'not ready'],
      [(s) => s.brings('initial-load', 'a', 'b'), 'not ready'],
      [(s) => s.config(), 'not ready'],
      [(s) => s.applied('a'), 'not ready'],
      [(s) => s.applied('b'), 'healthy'],
    ],
  },
  {
    rule: 'data first',
    story: [
      [(s) => s.brings('initial-load', 'a'), 'not ready'],
      [(s) => s.applied('a'), 'not ready'],
      [(s) => s.policy('c1'), 'ready'],
      [(s) => s.engine(true), 'healthy'],
    ],
  },
  {
    rule: 'no data source configured counts as done',
    story: [
      [(s) => s.engine(true), 'not ready'],
      [(s) => s.policy('c1'), 'not ready'],
      [(s) => s.brings('initial-load'), 'healthy'],
      [(s) => s.config(), 'healthy'],
    ],
  },
  {
    rule: 'a later update does in place of the initial sources, but what fails still fails',
    story: [
      [(s) => s.engine(true), 'not ready'],
      [(s) => s.policy('c1'), 'not ready'],
      [(s) => s.brings('initial-load', 'a'), 'not ready'],
      [(s) => s.fails('a'), 'not ready'],
      [(s) => s.brings('u1', 'b'), 'not ready'],
      [(s) => s.applied('b'), 'ready'],
      [(s) => s.applied('a'), 'healthy'],
    ],
  },
  {
    rule: 'what the engine refuses of the initial sources is listed as failing, and holds up nothing',
    story: [
      [(s) => s.engine(true), 'not ready'],
      [(s) => s.policy('c1'), 'not ready'],
      [(s) => s.brings('initial-load', 'a', 'b'), 'not ready'],
      [(s) => s.config(), 'not ready'],
      [(s) => s.blocked('a'), 'not ready'],
      [(s) => s.fails('b'), 'not ready'],
      [(s) => s.applied('b'), 'ready'],
      [(s) => s.applied('a'), 'healthy'],
    ],
  },
  {
    rule: 'what came with an update before the load named it counts as what the load brings',
    story: [
      [(s) => s.engine(true), 'not ready'],
      [(s) => s.policy('c1'), 'not ready'],
      [(s) => s.brings('u1', 'a'), 'not ready'],
      [(s) => s.names('initial-load', 'a'), 'not ready'],
      [(s) => s.config(), 'not ready'],
      [(s) => s.blocked('a'), 'ready'],
      [(s) => s.forgotten('a'), 'healthy'],
    ],
  },
  {
    rule: 'what a load names fails, is refused, and has other content: ready is one that is settled',
    story: [
      [(s) => s.engine(true), 'not ready'],
      [(s) => s.policy('c1'), 'not ready'],
      [(s) => s.brings('initial-load', 'a', 'b'), 'not ready'],
      [(s) => s.blocked('a'), 'not ready'],
      [(s) => s.ready('a'), 'not ready'],
      [(s) => s.applied('b'), 'not ready'],
      [(s) => s.blocked('a'), 'ready'],
    ],
  },
  {
    rule: 'an update whose entries only moved to another load is no success',
    story: [
      [(s) => s.engine(true), 'not ready'],
      [(s) => s.policy('c1'), 'not ready'],
      [(s) => s.brings('initial-load', 'a'), 'not ready'],
      [(s) => s.fails('a'), 'not ready'],
      [(s) => s.brings('initial-load', 'a'), 'not ready'],
      [(s) => s.config(), 'not ready'],
      [(s) => s.applied('a'), 'healthy'],
    ],
  },
  {
    rule: 'the policy updater disabled',
    enabled: { policy: false },
    story: [
      [(s) => s.engine(true), 'not ready'],
      [(s) => s.brings('initial-load'), 'healthy'],
    ],
  },
  {
    rule: 'the data updater disabled',
    enabled: { data: false },
    story: [
      [(s) => s.engine(true), 'not ready'],
      [(s) => s.policy('c1'), 'healthy'],
    ],
  },
  {
    rule: 'both updaters disabled',
    enabled: { policy: false, data: false },
    story: [
      [() => undefined, 'ready'],
      [(s) => s.engine(true), 'healthy'],
    ],
  },
  {
    rule: 'a first policy that is refused does not count',
    story: [
      [(s) => s.engine(true), 'not ready'],
      [(s) => s.brings('initial-load'), 'not ready'],
      [(s) => s.policy('c1', 'a.rego:1: it does not compile'), 'not ready'],
      [(s) => s.policy('c2'), 'healthy'],
    ],
  },
  {
    rule: 'a refused policy, until the next good one',
    story: [
      [(s) => s.good('a'), 'healthy'],
      [(s) => s.policy('c2', 'a.rego:1: it does not compile'), 'ready'],
      [(s) => s.policy('c3'), 'healthy'],
    ],
  },
  {
    rule: 'a failing update counts from the first failed attempt and heals by itself',
    story: [
      [(s) => s.good('a'), 'healthy'],
      [(s) => s.brings('u1', 'b'), 'healthy'],
      [(s) => s.fails('b'), 'ready'],
      [(s) => s.fails('b'), 'ready'],
      [(s) => s.ready('b'), 'ready'],
      [(s) => s.applied('b'), 'healthy'],
    ],
  },
  {
    rule: 'one partly failed update is a failed transaction; a later good one heals only when nothing fails any more',
    story: [
      [(s) => s.good('a'), 'healthy'],
      [(s) => s.brings('u1', 'b', 'c'), 'healthy'],
      [(s) => s.applied('b'), 'healthy'],
      [(s) => s.fails('c'), 'ready'],
      [(s) => s.brings('u2', 'd'), 'ready'],
      [(s) => s.applied('d'), 'ready'],
      [(s) => s.applied('c'), 'healthy'],
    ],
  },
  {
    rule: 'what the engine refuses, until a policy or another document makes room',
    story: [
      [(s) => s.good('a'), 'healthy'],
      [(s) => s.brings('u1', 'b'), 'healthy'],
      [(s) => s.blocked('b'), 'ready'],
      [(s) => s.applied('b'), 'healthy'],
    ],
  },
  {
    rule: 'a failing entry that a later update replaced fails no longer',
    story: [
      [(s) => s.good('a'), 'healthy'],
      [(s) => s.brings('u1', 'b'), 'healthy'],
      [(s) => s.fails('b'), 'ready'],
      [(s) => s.brings('u2', 'c'), 'ready'],
      [(s) => s.forgotten('b'), 'healthy'],
    ],
  },
  {
    rule: 'an entry that fails after its update had ended (an interval, a new rule)',
    story: [
      [(s) => s.good('a'), 'healthy'],
      [(s) => s.fails('a'), 'ready'],
      [(s) => s.applied('a'), 'healthy'],
      [(s) => s.blocked('a'), 'ready'],
      [(s) => s.forgotten('a'), 'healthy'],
    ],
  },
  {
    rule: 'the data configuration cannot be read',
    story: [
      [(s) => s.good('a'), 'healthy'],
      [(s) => s.status.configFailed('502'), 'ready'],
      [(s) => s.brings('initial-load'), 'ready'],
      [(s) => s.config(), 'healthy'],
    ],
  },
  {
    rule: 'the engine is away and back',
    story: [
      [(s) => s.good('a'), 'healthy'],
      [(s) => s.engine(false), 'ready'],
      [(s) => s.engine(true), 'healthy'],
    ],
  },
];

describe('ready and healthy', () => {
  for (const { rule, enabled, story } of RULES) {
    it(rule, () => {
      const told = new Story(enabled);
      const held: Expected[] = [];
      for (const [happens] of story) {
        happens(told);
        held.push(stateOf(told));
      }
      assert.deepEqual(
        held,
        story.map(([, expected]) => expected),
      );
    });
  }
});

describe('the health document', () => {
  const none = { actions: [], error: '', id: '', success: false };

  it('is whole before the first transaction', () => {
    assert.deepEqual(healthDocument(new Story().status), {
      ready: false,
      healthy: false,
      last_policy_transaction: none,
      last_data_transaction: none,
      last_failed_policy_transaction: none,
      last_failed_data_transaction: none,
      transaction_policy_statistics: { successful: 0, failed: 0 },
      transaction_data_statistics: { successful: 0, failed: 0 },
    });
  });

  it('has the commit hash, the update id and what was done', () => {
    const s = new Story();
    s.good();
    s.brings('u1', 'b', 'c PATCH', 'd DELETE', 'e');
    for (const name of ['b', 'c', 'd', 'e']) s.applied(name);
    const document = healthDocument(s.status);
    assert.deepEqual(document.last_policy_transaction, {
      id: 'c1',
      success: true,
      error: '',
      actions: ['set_policies'],
    });
    assert.deepEqual(document.last_data_transaction, {
      id: 'u1',
      success: true,
      error: '',
      actions: ['set_policy_data', 'patch_policy_data', 'delete_policy_data'],
    });
    assert.deepEqual([document.ready, document.healthy], [true, true]);
  });

  it('a client without data sources has loaded what there was', () => {
    const s = new Story();
    s.good();
    assert.deepEqual(healthDocument(s.status).last_data_transaction, {
      id: 'initial-load',
      success: true,
      error: '',
      actions: [],
    });
  });

  it('keeps the last failures apart, and counts each transaction once however often it is tried', () => {
    const s = new Story();
    s.good('a');
    s.policy('c2', 'a.rego:1: no');
    s.policy('c2', 'a.rego:1: no');
    s.policy('c3');
    s.policy('c3');
    s.brings('u1', 'b');
    s.fails('b', '503');
    s.fails('b', '503');
    assert.deepEqual(healthDocument(s.status).last_data_transaction, {
      id: 'u1',
      success: false,
      error: '503',
      actions: ['set_policy_data'],
    });
    s.applied('b');
    const document = healthDocument(s.status);
    assert.equal(document.healthy, true);
    assert.deepEqual(document.last_failed_policy_transaction, {
      id: 'c2',
      success: false,
      error: 'a.rego:1: no',
      actions: ['set_policies'],
    });
    assert.deepEqual(
      [document.last_failed_data_transaction.id, document.last_failed_data_transaction.error],
      ['u1', '503'],
    );
    assert.deepEqual(document.transaction_policy_statistics, { successful: 2, failed: 1 });
    assert.deepEqual(document.transaction_data_statistics, { successful: 2, failed: 1 });
  });

  it('content that has arrived after a failure still fails until it is in', () => {
    const s = new Story();
    s.good('a');
    s.fails('a', '503');
    s.ready('a');
    assert.deepEqual(
      s.status.failures.map(({ path, error, kind }) => [path, error, kind]),
      [['/p/a', '503', 'source']],
    );
    s.applied('a');
    assert.equal(s.status.failing.size, 0);
  });

  it('a load of which the engine refuses a part did not fail: what is refused is listed', () => {
    const s = new Story();
    s.engine(true);
    s.policy('c1');
    s.brings('initial-load', 'a', 'b');
    s.blocked('a');
    s.applied('b');
    const document = healthDocument(s.status);
    assert.deepEqual([document.ready, document.healthy], [true, false]);
    assert.deepEqual(document.last_data_transaction, {
      id: 'initial-load',
      success: true,
      error: '',
      actions: ['set_policy_data'],
    });
    assert.equal(document.transaction_data_statistics.failed, 0);
    assert.deepEqual(
      s.status.failures.map(({ path, kind }) => [path, kind]),
      [['/p/a', 'refused']],
    );
    // A policy that comes later and blocks what was in says the same.
    s.blocked('b');
    assert.deepEqual(healthDocument(s.status).transaction_data_statistics, { successful: 1, failed: 0 });
    assert.equal(healthDocument(s.status).last_data_transaction.success, true);
    assert.equal(s.status.failing.size, 2);
  });

  it('an error is never empty where something failed', () => {
    const s = new Story();
    s.good('a');
    s.fails('a', '');
    const { last_data_transaction: last } = healthDocument(s.status);
    assert.equal(last.success, false);
    assert.notEqual(last.error, '');
    assert.equal(last.id, 'initial-load');
  });
});

describe('a transaction is told', () => {
  it('when the engine refused a part, and again when that went in after all; not for an entry that fails later', () => {
    const s = new Story();
    s.brings('u1', 'a', 'b');
    s.applied('a');
    s.blocked('b');
    s.blocked('b');
    assert.deepEqual(s.finished, ['u1 failed']);
    s.applied('b');
    assert.deepEqual(s.finished, ['u1 failed', 'u1 applied']);
    s.fails('b');
    s.applied('b');
    assert.deepEqual(s.finished, ['u1 failed', 'u1 applied']);
  });

  it('not when its last open entry counts for another one from now on', () => {
    const s = new Story();
    s.brings('initial-load', 'a', 'b');
    s.applied('a');
    s.fails('b');
    s.brings('u2', 'b');
    assert.deepEqual(s.finished, []);
    s.applied('b');
    assert.deepEqual(s.finished, ['u2 applied']);
  });
});

it('whoever watches hears of everything that may have changed what is told', () => {
  const s = new Story();
  let heard = 0;
  s.status.watch(() => heard++);
  const hears = (happens: () => void): void => {
    const before = heard;
    happens();
    assert(heard > before, happens.toString());
  };
  hears(() => s.engine(true));
  hears(() => s.policy('c1'));
  hears(() => s.brings('initial-load', 'a'));
  hears(() => s.config());
  hears(() => s.applied('a'));
  hears(() => s.status.configFailed('502'));
  hears(() => s.forgotten('a'));
});

describe('a server that is cut off from its backbone', () => {
  for (const isUnhealthy of [false, true]) {
    it(`${isUnhealthy ? 'makes a client unhealthy where that is set' : 'leaves a client healthy, which says since when'}`, () => {
      const status = new Status(
        { policyEnabled: false, dataEnabled: false, cutOffIsUnhealthy: isUnhealthy },
        () => undefined,
      );
      let changes = 0;
      status.watch(() => changes++);
      status.engineSeen(true);
      assert.deepEqual([status.healthy, status.serverCutOffSinceMs], [true, undefined]);
      status.serverCutOff(5);
      assert.deepEqual([status.ready, status.healthy, status.serverCutOffSinceMs], [true, !isUnhealthy, 5]);
      status.serverCutOff(undefined);
      assert.deepEqual([status.healthy, status.serverCutOffSinceMs, changes], [true, undefined, 3]);
    });
  }
});
