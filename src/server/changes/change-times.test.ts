import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ChangeTimes, mergedClients, type UpdateStage } from './change-times.js';

const times = (limits = { changes: 3, clients: 4 }) => new ChangeTimes<number, UpdateStage>(limits);

test('each stage and each time of a client keeps its first value', () => {
  const updates = times();
  updates.reached(1, 'durable', 10, { subscribers: 2, id: 'a' });
  updates.reached(1, 'durable', 20, { subscribers: 3 });
  updates.reached(1, 'received', 5);
  updates.said(1, 'c', { appliedSeen: 30 });
  updates.said(1, 'c', { appliedSeen: 40, applied: 25 });
  const known = updates.get(1);
  assert.deepEqual([known?.stages, known?.subscribers, known?.id], [{ durable: 10, received: 5 }, 2, 'a']);
  assert.deepEqual([known?.clients.get('c')?.appliedSeen, known?.clients.get('c')?.applied], [30, 25]);
});

test('the oldest changes are forgotten, and nothing is kept of unknown ones', () => {
  const updates = times();
  for (const seq of [1, 2, 3, 4]) updates.reached(seq, 'durable', seq);
  updates.said(1, 'c', { appliedSeen: 1 });
  assert.deepEqual(
    updates.newest().map(([seq]) => seq),
    [4, 3, 2],
  );
});

test('times of clients are bounded over all changes, the oldest change first', () => {
  const updates = times();
  for (const seq of [1, 2]) updates.reached(seq, 'durable', seq);
  for (const client of ['a', 'b', 'c']) updates.said(1, client, { appliedSeen: 1 });
  for (const client of ['a', 'b']) updates.said(2, client, { appliedSeen: 2 });
  assert.deepEqual([updates.get(1)?.clients.size, updates.get(1)?.isShort], [0, true]);
  assert.deepEqual([updates.get(2)?.clients.size, updates.get(2)?.isShort], [2, undefined]);
  updates.said(1, 'a', { appliedSeen: 9 }); // of some clients alone it would say the wrong thing
  assert.equal(updates.get(1)?.clients.size, 0);
});

test('a change that goes gives back the room of its clients', () => {
  const updates = times();
  for (let seq = 1; seq <= 100; seq++) {
    updates.reached(seq, 'durable', seq);
    updates.said(seq, 'a', { appliedSeen: seq });
  }
  assert.deepEqual(
    updates.newest().map(([, { clients }]) => clients.size),
    [1, 1, 1],
  );
});

test('the times of several instances are one map with the first of each', () => {
  const [one, other] = [times(), times()];
  for (const each of [one, other]) each.reached(1, 'announced', 1);
  one.said(1, 'a', { appliedSeen: 5 });
  other.said(1, 'a', { appliedSeen: 9, heard: 2 });
  other.said(1, 'b', { refusedSeen: 7 });
  const memories = [one, other].flatMap((each) => each.get(1) ?? []);
  const merged = mergedClients(memories);
  assert.deepEqual([merged.get('a')?.appliedSeen, merged.get('a')?.heard, merged.get('b')?.refusedSeen], [5, 2, 7]);
  assert.equal(mergedClients([]).size, 0);
});

test('a change that is forgotten gives back the room of its clients, and may come again', () => {
  const updates = times();
  for (let round = 1; round <= 10; round++) {
    updates.reached(1, 'durable', round);
    for (const client of ['a', 'b', 'c']) updates.said(1, client, { appliedSeen: round });
    assert.deepEqual([updates.get(1)?.stages.durable, updates.get(1)?.clients.size], [round, 3]);
    updates.forget(1);
    assert.equal(updates.get(1), undefined);
  }
  updates.forget(2);
});
