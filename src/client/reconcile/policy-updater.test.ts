import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ACCEPTING_ENGINE } from '../../../test/support/accepting-engine.js';
import { until } from '../../../test/support/until.js';
import { EngineRefusal } from '../../embedded/vocabulary.js';
import { SyncError } from '../../lib/errors.js';
import { silentLogger } from '../../lib/observe/log.js';
import type { PolicyBundle } from '../../wire/bundle.js';
import type { PolicyEngine } from '../engine/engine.js';
import { Status } from '../status/status.js';
import { Applier } from './applier.js';
import { PolicyUpdater } from './policy-updater.js';

const WITHIN = { withinMs: 10_000 };

function bundle(hash: string, rego: string): PolicyBundle {
  return {
    manifest: ['a.rego'],
    hash,
    data_modules: [],
    policy_modules: [{ path: 'a.rego', package_name: 'a', rego }],
  };
}

/**
 * A running updater whose server answers complete bundles; `engine` replaces parts of one that
 * takes everything.
 */
function running(engine: Partial<PolicyEngine>) {
  const stop = new AbortController();
  const status = new Status({ policyEnabled: true, dataEnabled: false }, () => undefined);
  const calls = { activated: [] as string[] };
  const activate: PolicyEngine['activate'] = async ({ hash }) => void calls.activated.push(hash);
  const applier = new Applier({ ...ACCEPTING_ENGINE, isGuarded: false, activate, ...engine }, { takesPolicy: true });
  const server = {
    bundle: bundle('c1', 'package a'),
    /** Throws what it refuses. */
    screen: (_base: string | undefined): void => undefined,
    asked: [] as (string | undefined)[],
  };
  const updater = new PolicyUpdater(
    { backoff: { minMs: 1, maxMs: 2 }, firstWaitMs: 0 },
    {
      applier,
      exclusive: (step) => step(stop.signal),
      withDocuments: (step) => step(() => []),
      fetchBundle: async (base) => {
        server.asked.push(base);
        server.screen(base);
        return server.bundle;
      },
      onApplied: () => undefined,
      status,
      log: silentLogger(),
    },
  );
  const run = updater.run(stop.signal);
  return {
    ...{ updater, status, server, calls },
    [Symbol.asyncDispose]: async () => {
      stop.abort();
      await run;
    },
  };
}

test('a commit with the same policy activates nothing, and is held all the same', async () => {
  await using it = running({});
  it.updater.request();
  await until(() => it.updater.hash === 'c1', { ...WITHIN, what: 'the first commit' });
  it.server.bundle = bundle('c2', 'package a');
  it.updater.headIs('c2');
  assert.equal(it.status.policy.wanted, 'c2');
  await until(() => it.updater.hash === 'c2', { ...WITHIN, what: 'the second commit' });
  assert.deepEqual(it.calls.activated, ['c1']);
  assert.deepEqual(
    [it.status.policy.held, it.status.transactions.policy.last?.id, it.status.ready],
    ['c2', 'c2', true],
  );
  it.server.bundle = bundle('c3', 'package a\n\nx := 1\n');
  it.updater.headIs('c3');
  await until(() => it.updater.hash === 'c3', { ...WITHIN, what: 'the third commit' });
  assert.deepEqual(it.calls.activated, ['c1', 'c3']);
});

test('modules of others that cannot be put right are told until they are', async () => {
  let tidied = 0;
  let isStubborn = false;
  await using it = running({
    policyMode: 'bundle',
    tidy: async () => {
      tidied++;
      if (isStubborn) throw new EngineRefusal('it stays', [{ message: 'it stays', file: 'hand.rego', row: 2 }]);
      return [];
    },
  });
  it.updater.request();
  await until(() => tidied === 1, { ...WITHIN, what: 'a look after the first commit' });
  isStubborn = true;
  it.updater.refetch();
  await until(() => it.status.policy.error !== null, { ...WITHIN, what: 'the failure' });
  assert.deepEqual(it.status.policy.error, { message: 'it stays', file: 'hand.rego', line: 2 });
  assert.equal(it.status.transactions.policy.last?.success, false);
  isStubborn = false;
  await until(() => it.status.policy.error === null, { ...WITHIN, what: 'it is over' });
  assert.deepEqual([it.status.transactions.policy.last?.success, it.status.policy.held], [true, 'c1']);
  assert.deepEqual(it.calls.activated, ['c1']);
});

test('a check from afar takes no commit that may be older: not of a server behind, nor of two that differ', async () => {
  await using it = running({});
  it.server.bundle = bundle('c2', 'package a\n\nx := 2\n');
  it.updater.request();
  await until(() => it.updater.hash === 'c2', { ...WITHIN, what: 'the second commit' });
  // Now a server answers that does not know the commit yet: it refuses a request that names it, and
  // no other.
  it.server.bundle = bundle('c1', 'package a\n\nx := 1\n');
  it.server.screen = (base) => {
    if (base === 'c2') throw new SyncError('policy_not_ready', 'commit c2 is not known here yet', { retryable: true });
  };
  it.updater.recheck();
  await until(() => it.server.asked.length > 5, { ...WITHIN, what: 'several attempts' });
  assert.deepEqual([it.updater.hash, it.calls.activated], ['c2', ['c2']]);
  // One that knows it responds to the first request, and the one behind to the second.
  it.server.screen = (base) => {
    it.server.bundle = base === 'c2' ? bundle('c2', 'package a\n\nx := 2\n') : bundle('c1', 'package a\n\nx := 1\n');
  };
  const before = it.server.asked.length;
  await until(() => it.server.asked.length > before + 5, { ...WITHIN, what: 'several attempts' });
  assert.deepEqual([it.updater.hash, it.calls.activated], ['c2', ['c2']]);
  it.server.bundle = bundle('c3', 'package a\n\nx := 3\n');
  it.server.screen = () => undefined;
  await until(() => it.updater.hash === 'c3', { ...WITHIN, what: 'the third commit' });
  assert.deepEqual(it.calls.activated, ['c2', 'c3']);
  assert.deepEqual(it.server.asked.slice(-2), ['c2', undefined]);
});

test('a client that was restarted meanwhile is well again, too, when the server goes back to what it holds', async () => {
  await using it = running({
    activate: async ({ hash }) => {
      if (hash === 'bad') throw new EngineRefusal('no', [{ message: 'no', file: 'a.rego', row: 1 }]);
    },
  });
  it.status.engineSeen(true);
  it.updater.adopt({ hash: 'c1', modules: new Map([['a.rego', 'package a']]), data: [] }, true);
  it.status.restored({ hasPolicy: true });
  for (const hears of ['notified', 'headIs', 'request'] as const) {
    it.server.bundle = bundle('bad', `package a\n\nx := "${hears}"\n`);
    it.updater.refetch();
    await until(() => it.status.policy.error !== null, { ...WITHIN, what: 'the refusal' });
    assert.deepEqual([it.status.healthy, it.status.policy.wanted, it.updater.hash], [false, 'bad', 'c1']);
    it.server.bundle = bundle('c1', 'package a');
    if (hears === 'notified') it.updater.notified('"c1"');
    else if (hears === 'headIs') it.updater.headIs('c1');
    else it.updater.request();
    await until(() => it.status.healthy, { ...WITHIN, what: `it is over (${hears})` });
    assert.deepEqual(it.status.policy, { ...it.status.policy, wanted: 'c1', held: 'c1', error: null });
    const isNoted = (): boolean => it.status.recent.list().at(0)?.outcome === 'unchanged';
    await until(isNoted, { ...WITHIN, what: 'its transaction' });
  }
});

test('a server that was not ready is asked as soon as it announces a commit, whatever time it had named', async () => {
  await using it = running({});
  let isReady = false;
  it.server.screen = () => {
    const later = { retryable: true, retryAfterSeconds: 600 };
    if (!isReady) throw new SyncError('policy_not_ready', 'policy repo is not ready', later);
  };
  it.updater.request();
  await until(() => it.status.transactions.policy.last?.success === false, { ...WITHIN, what: 'it is not ready' });
  // It may mean any commit: the time holds for all but an announcement.
  it.updater.engineBack();
  assert.equal(it.server.asked.length, 1);
  isReady = true;
  it.updater.notified('"c1"');
  await until(() => it.updater.hash === 'c1', { ...WITHIN, what: 'the first commit' });
  assert.equal(it.server.asked.length, 2);
});
