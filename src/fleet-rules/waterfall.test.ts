import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { TraceClient } from '../wire/trace.js';
import { clientBar, sharedReasons, statesOf, traceFigures, worstFirst } from './waterfall.js';

const FROM = 1_000_000;
const span = { from: FROM, now: FROM + 10_000 };

function client(client_id: string, state: string, more: Partial<TraceClient> = {}): TraceClient {
  return {
    ...{ client_id, state, kind: 'session', connected: true, instance: 'one', reason: null, was_there: true },
    ...{ heard_at: null, fetched_at: null, applied_at: null, refused_at: null },
    ...{ applied_seen_at: null, refused_seen_at: null, reported_at: null },
    ...more,
  };
}

const at = (heard: number, fetched: number, applied: number, seen: number): Partial<TraceClient> => ({
  heard_at: FROM + heard,
  fetched_at: FROM + fetched,
  applied_at: FROM + applied,
  applied_seen_at: FROM + seen,
});

test('a client that holds the change waits, fetches, applies and reports', () => {
  const bar = clientBar(client('a', 'applied', at(10, 50, 200, 900)), span);
  assert.deepEqual(bar.segments, [
    { phase: 'waiting', from: 0, to: 10 },
    { phase: 'fetching', from: 10, to: 50 },
    { phase: 'applying', from: 50, to: 200 },
    { phase: 'reporting', from: 200, to: 900 },
  ]);
  assert.deepEqual([bar.endedAt, bar.refusedAt], [200, null], 'its report came later');
});

test('a client that has not heard of the change waits until now; one that has fetches until now', () => {
  assert.deepEqual(clientBar(client('a', 'not_heard'), span).segments, [{ phase: 'waiting', from: 0, to: 10_000 }]);
  const told = clientBar(client('b', 'pending', { heard_at: FROM + 40 }), span);
  assert.deepEqual(told.segments, [
    { phase: 'waiting', from: 0, to: 40 },
    { phase: 'fetching', from: 40, to: 10_000 },
  ]);
  assert.equal(told.endedAt, null);
});

test('a client that is away, or does not say, has no bar without times', () => {
  assert.deepEqual(clientBar(client('a', 'away', { connected: false }), span).segments, []);
  assert.deepEqual(clientBar(client('b', 'unknown', { kind: 'plain' }), span).segments, []);
});

test('a client that refuses ends with that', () => {
  const bar = clientBar(
    client('a', 'refused', {
      heard_at: FROM + 10,
      fetched_at: FROM + 20,
      refused_at: FROM + 60,
      refused_seen_at: FROM + 61,
    }),
    span,
  );
  assert.deepEqual([bar.refusedAt, bar.endedAt], [60, 60]);
});

test('of a client without times of its own only the end is known', () => {
  const bar = clientBar(client('a', 'applied', { applied_seen_at: FROM + 300 }), span);
  assert.deepEqual([bar.segments, bar.heardAt, bar.endedAt], [[], 300, 300]);
});

test('a client that fails has heard of the change', () => {
  const { segments } = clientBar(client('a', 'failing'), span);
  assert.deepEqual(segments, [{ phase: 'fetching', from: 0, to: 10_000 }]);
});

test('clients with the same reason stand together, the most first', () => {
  const refused = { reason: 'no such function', file: 'a.rego', line: 3 };
  const clients = [
    client('a', 'failing', { reason: 'no answer' }),
    client('b', 'refused', refused),
    client('c', 'refused', refused),
    client('d', 'pending', { reason: 'not yet' }),
  ];
  assert.deepEqual(sharedReasons(clients), [
    { state: 'refused', message: 'no such function', file: 'a.rego', line: 3, clients: 2 },
    { state: 'failing', message: 'no answer', file: null, line: null, clients: 1 },
  ]);
});

test('no time is outside of the span, whatever a client says', () => {
  const wild = clientBar(client('a', 'pending', { heard_at: Number.MAX_VALUE }), span);
  assert(wild.segments.every(({ from, to }) => from >= 0 && to <= 10_000));
});

test('clients that need a person come first, then the slowest', () => {
  const clients = [
    client('late', 'applied', { applied_seen_at: FROM + 90_000, was_there: false }),
    client('quick', 'applied', { applied_seen_at: FROM + 10 }),
    client('slow', 'applied', { applied_seen_at: FROM + 900 }),
    client('new', 'a state of a later version'),
    client('quiet', 'not_heard'),
    client('bad', 'refused'),
    client('gone', 'away'),
    client('busy', 'pending'),
  ];
  assert.deepEqual(
    worstFirst(clients).map(({ client_id }) => client_id),
    ['bad', 'gone', 'quiet', 'busy', 'slow', 'quick', 'late', 'new'],
  );
  assert.deepEqual(statesOf({ applied: 2, away: 0, refused: 1 }), [
    ['refused', 1],
    ['applied', 2],
  ]);
});

test('those that were there count as told from when they heard', () => {
  const clients = [
    client('a', 'applied', at(20, 50, 200, 900)),
    client('b', 'pending', { heard_at: FROM + 5 }),
    client('c', 'not_heard'),
    client('d', 'applied', { ...at(1, 2, 3, 4), was_there: false }),
  ];
  const { told, refused, lastMs, hasOwnTimes } = traceFigures(clients, FROM);
  assert.deepEqual(told, [
    { at: 5, count: 1 },
    { at: 20, count: 2 },
  ]);
  assert.deepEqual([refused, lastMs, hasOwnTimes], [[], 200, true]);
});
