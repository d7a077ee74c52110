import assert from 'node:assert/strict';
import { test } from 'node:test';
import { effect } from '@preact/signals';
import { addDelta, changeKey, nothingPending } from '../../ui/src/stream/pending.js';
import { createStore, type FilledStore } from '../../ui/src/stream/store.js';
import { fleetRow } from '../support/fleet-row.js';
import { fleetSummary } from '../support/fleet-summary.js';
import { fleetChange, fleetSnapshot } from './support/small-fleet.js';

/** How often each client is drawn again. */
function draws(store: FilledStore): Record<string, number> {
  const drawn: Record<string, number> = {};
  for (const [id, row] of store.rows) {
    effect(() => {
      drawn[row.value.id] = (drawn[id] ?? -1) + 1;
    });
  }
  return drawn;
}

test('a delta of one client draws that one again, and nothing twice', () => {
  const store = createStore();
  store.take({ snapshot: fleetSnapshot({ clients: ['a', 'b', 'c'].map((id) => fleetRow({ id })) }) });
  store.draw();
  const drawn = draws(store);
  const listed = store.listed.value;
  const told = fleetRow({ id: 'b', policy: { state: 'told' } });
  store.take({ delta: { at: 2, clients: [told] } });
  store.take({ delta: { at: 3, clients: [fleetRow({ id: 'b', policy: { state: 'refused' } })] } });
  assert.deepEqual(drawn, { a: 0, b: 0, c: 0 }, 'before the draw nothing changes');
  store.draw();
  assert.deepEqual(drawn, { a: 0, b: 1, c: 0 });
  assert.equal(store.rows.get('b')?.value.policy.state, 'refused');
  assert.deepEqual([store.rows.size, store.listed.value, store.at.value], [3, listed, 3]);
});

test('the same row again draws nothing', () => {
  const store = createStore();
  store.take({ snapshot: fleetSnapshot({ clients: [fleetRow({ id: 'a' })] }) });
  store.draw();
  const { changed } = store;
  const before = changed.value;
  store.take({ delta: { at: 2, clients: [fleetRow({ id: 'a' })] } });
  store.draw();
  assert.equal(changed.value, before);
});

test('a snapshot after a break replaces everything, and draws only what is different', () => {
  const store = createStore();
  store.take({ snapshot: fleetSnapshot({ clients: ['a', 'b'].map((id) => fleetRow({ id })) }) });
  store.draw();
  const drawn = draws(store);
  store.take({ delta: { at: 2, clients: [fleetRow({ id: 'a', engine: 'opa 1.9.0' })], gone: ['b'] } });
  const clients = [fleetRow({ id: 'a' }), fleetRow({ id: 'z' })];
  store.take({ snapshot: fleetSnapshot({ at: 9, epoch: 'second', clients }) });
  store.draw();
  assert.deepEqual([...store.rows.keys()].sort(), ['a', 'z']);
  assert.deepEqual(drawn, { a: 0, b: 0 }, 'what was pending before the snapshot is void');
  assert.deepEqual([store.epoch.value, store.at.value], ['second', 9]);
});

test('a client that goes and comes back, before it is drawn and after', () => {
  const store = createStore();
  store.take({ snapshot: fleetSnapshot({ clients: [fleetRow({ id: 'a' })] }) });
  store.take({ delta: { at: 2, gone: ['a'] } });
  store.take({ delta: { at: 3, clients: [fleetRow({ id: 'a', engine: 'opa 1.9.0' })] } });
  store.draw();
  assert.equal(store.rows.get('a')?.value.engine, 'opa 1.9.0');
  store.take({ delta: { at: 4, clients: [fleetRow({ id: 'a' })] } });
  store.take({ delta: { at: 5, gone: ['a'] } });
  store.draw();
  assert.equal(store.rows.size, 0);
});

test('changes stand once each, the newest first, at most 50', () => {
  const store = createStore();
  store.take({
    snapshot: fleetSnapshot({ changes: [fleetChange({ id: '2', at: 20 }), fleetChange({ id: '1', at: 10 })] }),
  });
  store.draw();
  const sameTime = fleetChange({ id: '3', at: 20, title: 'third' });
  store.take({ delta: { at: 30, changes: [sameTime, fleetChange({ id: '1', at: 10, title: 'first, again' })] } });
  store.take({ delta: { at: 31, changes: [fleetChange({ kind: 'policy', id: '3', at: 15 })] } });
  store.draw();
  assert.deepEqual(store.changes.value.map(changeKey), ['data:3', 'data:2', 'policy:3', 'data:1']);
  assert.equal(store.changes.value.at(-1)?.title, 'first, again');
  const many = Array.from({ length: 60 }, (_, index) => fleetChange({ id: String(100 + index), at: 100 + index }));
  store.take({ delta: { at: 200, changes: many } });
  store.draw();
  assert.equal(store.changes.value.length, 50);
  assert.equal(store.changes.value[0]?.id, '159');
});

test('however long nothing is drawn, what waits stays as small as what there is', () => {
  const pending = nothingPending();
  const drawn = new Set(['a', 'b']);
  for (let at = 1; at <= 200; at++) {
    const id = `short-lived-${at}`;
    addDelta(pending, { at, clients: [fleetRow({ id })], changes: [fleetChange({ id: String(at), at })] }, drawn);
    addDelta(pending, { at, gone: [id, 'a'] }, drawn);
  }
  assert.deepEqual([pending.clients.size, [...pending.gone], pending.changes.size], [0, ['a'], 50]);
  assert.deepEqual([pending.changes.has('data:200'), pending.changes.has('data:150')], [true, false]);
});

test('a client that a snapshot has and that goes before it is drawn is not there', () => {
  const store = createStore();
  store.take({ snapshot: fleetSnapshot({ clients: ['a', 'b'].map((id) => fleetRow({ id })) }) });
  store.take({ delta: { at: 2, gone: ['a'], clients: [fleetRow({ id: 'c' })] } });
  store.draw();
  assert.deepEqual([...store.rows.keys()], ['b', 'c']);
});

test('the title of a tab that is not seen hears the newest summary before it is drawn', () => {
  const store = createStore();
  store.take({ snapshot: fleetSnapshot({ summary: fleetSummary({ needing: 1 }) }) });
  store.take({ delta: { at: 2, summary: fleetSummary({ needing: 2 }) } });
  const needing = () => [store.heard.value.summary?.needing, store.summary.value?.needing];
  assert.deepEqual(needing(), [2, undefined]);
  store.draw();
  assert.deepEqual(needing(), [2, 2]);
});

test('what a delta does not have stays', () => {
  const store = createStore();
  store.take({ snapshot: fleetSnapshot({ head: 12, source: { state: 'following' } }) });
  store.draw();
  store.take({ delta: { at: 2, head: 13 } });
  store.draw();
  assert.deepEqual([store.head.value, store.source.value], [13, { state: 'following' }]);
  store.take({ delta: { at: 3, source: null } });
  store.draw();
  assert.equal(store.source.value, null);
});

test('signing out forgets everything', () => {
  const store = createStore();
  store.take({ snapshot: fleetSnapshot({ clients: [fleetRow()], changes: [fleetChange({ id: '1' })] }) });
  store.draw();
  store.take({ delta: { at: 2, clients: [fleetRow({ id: 'late' })] } });
  store.clear();
  store.draw();
  assert.deepEqual([store.rows.size, store.summary.value, store.changes.value, store.at.value], [0, undefined, [], 0]);
});
