import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { FleetChange } from '../../wire/fleet.js';
import type { KnownClient, ReportedState } from '../clients/known-client.js';
import { newClient } from '../clients/known-client.js';
import type { DataFacts } from './change-facts.js';
import { changeView, commonestError, othersHeldUp, rulesOf, underWay, withoutPublisher } from './change-rules.js';
import { ChangeTally } from './change-tally.js';
import { distanceOf, worstError } from './row.js';

function change(id: string, counts: Record<string, number>, changes: Partial<FleetChange> = {}): FleetChange {
  return {
    ...{ kind: 'data', id, update_id: null, title: 'why', by: 'billing', at: 0, topics: [], size: 1, paths: [] },
    ...{ state: 'served', error: null, counts, total: 1, convergence: null },
    ...changes,
  };
}

const NOW = 100_000;

function convergence(last: number | null): FleetChange['convergence'] {
  return { from: 1, clients: 1, first: last, half: last, p99: last, last, curve: [] };
}

test('named is what moves, else what the last client has just taken, else what is held up, else the newest', () => {
  const done = change('4', { applied: 1 });
  const held = change('3', { refused: 1 });
  const failing = change('2', { failing: 1, applied: 2 });
  const moving = change('1', { pending: 1 });
  const replaced = change('0', { replaced: 1, pending: 1 }, { kind: 'policy', state: 'replaced' });
  assert.equal(underWay([done, held, failing, moving, replaced], NOW), moving);
  assert.equal(underWay([done, held, failing, replaced], NOW), held);
  assert.equal(underWay([done, failing], NOW), failing);
  assert.equal(underWay([done, replaced], NOW), done);
  assert.equal(underWay([replaced], NOW), null);
  const justDone = change('5', { applied: 1, away: 1 }, { convergence: convergence(NOW - 9000) });
  assert.equal(underWay([held, justDone], NOW), justDone);
  assert.equal(underWay([held, justDone], NOW + 2000), held);
  assert.equal(underWay([moving, justDone], NOW), moving);
});

test('of several the served commit is named, which the answer is about', () => {
  const [newer, failing] = [change('9', { pending: 1 }), change('8', { failing: 3 })];
  const commit = (counts: Record<string, number>): FleetChange => change('c', counts, { kind: 'policy' });
  const [moving, refused, done] = [commit({ not_heard: 1 }), commit({ refused: 3 }), commit({ applied: 3 })];
  assert.equal(underWay([newer, moving], NOW), moving);
  assert.equal(underWay([failing, refused], NOW), refused);
  assert.equal(underWay([failing, done], NOW), failing);
  assert.equal(underWay([newer, refused], NOW), newer);
});

test('counted are the others that some client refuses, or that fail there', () => {
  const [one, other, away] = [change('3', { failing: 1 }), change('2', { refused: 1 }), change('1', { away: 1 })];
  const refusedByServer = change('c', {}, { kind: 'policy', state: 'refused' });
  assert.equal(othersHeldUp([one, other, away, refusedByServer], one), 1);
  assert.equal(othersHeldUp([one, other, away], away), 2);
  assert.equal(othersHeldUp([one], one), 0);
});

test('only some see who published an update, and why; authors of commits all see', () => {
  const { title, by } = withoutPublisher(change('1', {}));
  assert.deepEqual([title, by], ['', null]);
  assert.equal(withoutPublisher(change('c', {}, { kind: 'policy', by: 'ann' })).by, 'ann');
});

test('a change is shown with texts of a few hundred characters, whatever its publisher sent', () => {
  const long = 'x'.repeat(10_000);
  const facts: DataFacts = {
    ...{ kind: 'data', key: 7, updateId: 'u', atMs: 0, publisher: long, reason: long, topics: new Set(['t']) },
    ...{ paths: [`/${long}`, '/a'], size: 2 },
  };
  const { title, by, paths } = changeView(facts, { counts: {}, total: 0, convergence: null, error: null });
  assert.deepEqual([title.length, by?.length, paths.map(({ length }) => length)], [300, 300, [300, 2]]);
});

test('a tally counts each client once, in its last state', () => {
  const tally = new ChangeTally();
  assert.equal(tally.set(0, 'pending', true), true);
  assert.equal(tally.set(0, 'pending', true), false);
  assert.equal(tally.set(500, 'unknown', false), true);
  assert.deepEqual([tally.counts, tally.total], [{ pending: 1, unknown: 1 }, 2]);
  assert.equal(tally.set(0, 'applied', true), true);
  assert.equal(tally.set(500, undefined, false), true);
  assert.deepEqual([tally.counts, tally.total], [{ applied: 1 }, 1]);
  assert.deepEqual(
    [tally.isApplied(0), tally.isCounted(0), tally.isApplied(500), tally.isCounted(500)],
    [true, true, false, false],
  );
});

test('of the errors of clients the commonest is told, with its place and how many say it; a limited caller gets the kind', () => {
  const client = (clientId: string, error: string): KnownClient => ({
    ...newClient(
      { kind: 'session', subject: null, clientId },
      { host: 'h', port: 1, topics: ['t'], connectedAtMs: 0 },
      { instance: 'i', claimedMs: 0, spans: [] },
    ),
    position: { epoch: 'e', applied_through: 7, applied_beyond: [], unresolved: [7] },
    state: { ...REPORTED, failing: [{ path: '/a', error, kind: 'source' }] },
  });
  const facts: DataFacts = {
    ...{
      kind: 'data',
      key: 7,
      updateId: 'u',
      atMs: 0,
      publisher: null,
      reason: null,
      topics: new Set(['t']),
      paths: ['/a'],
    },
    size: 1,
  };
  const clients = [client('a', 'no answer'), client('b', 'HTTP 404'), client('c', 'HTTP 404')];
  const error = (isLimited: boolean, some = clients) =>
    commonestError(rulesOf(facts, { memories: [], epoch: 'e', isLimited }), some);
  assert.deepEqual(error(false), { message: 'HTTP 404', file: '/a', clients: 2 });
  assert.deepEqual(error(true), { message: 'its data source does not give it', clients: 3 });
  assert.equal(error(false, []), null);
});

const REPORTED: ReportedState = {
  ...{ policy_hash: null, ready: true, healthy: true, failing: [], blocked: [], since: 0 },
  engine: { kind: 'opa', version: '1.22.0', online: true },
};

test('the distance is that of served commits', () => {
  const order = ['c', 'b', 'a'];
  assert.deepEqual(
    ['c', 'b', 'a', 'x', null].map((held) => distanceOf(held, order)),
    [0, 1, 2, null, null],
  );
});

test('the worst error is why a client is away, then that of the policy, then of what the engine refuses, then of the engine, then of sources', () => {
  const failing = [
    { path: '/a', error: 'no answer', kind: 'source', since: 3 },
    { path: '/b', error: 'conflicting rule', kind: 'refused', since: 4 },
  ];
  const well = { wanted: null, held: null, current: null };
  const bad = { ...well, error: { message: 'm'.repeat(400), file: 'a.rego', line: 3 }, since: 5 };
  const engine = { kind: 'opa', version: null, online: false, error: 'connection refused', since: 6 };
  const worst = (facts: object) => {
    const error = worstError({ policy: well, engine: null, failing: [], ...facts } as never);
    return error && [error.kind, error.place, error.since];
  };
  assert.equal(worst({}), null);
  const away = { away_since: 7, away_reason: 'no answer to pings for 20 s' };
  assert.deepEqual(worst({ ...away, policy: bad, engine, failing }), ['away', '', 7]);
  assert.deepEqual(worst({ policy: bad, engine, failing }), ['policy', 'a.rego:3', 5]);
  assert.deepEqual(worst({ engine, failing }), ['blocked', '/b', 4]);
  assert.deepEqual(worst({ engine, failing: failing.slice(0, 1) }), ['engine', '', 6]);
  assert.deepEqual(worst({ failing: failing.slice(0, 1) }), ['source', '/a', 3]);
});
