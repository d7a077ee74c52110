import assert from 'node:assert/strict';
import { it } from 'node:test';
import { GoneInstances } from './gone-instances.js';
import { type KnownClient, newClient } from './known-client.js';

const PEER = { host: 'h', port: 1, topics: ['t'], connectedAtMs: 0 };

function client(clientId: string, kind: KnownClient['kind'] = 'session', twin?: string): KnownClient {
  return newClient({ kind, subject: null, clientId, twin }, PEER, { instance: 'x', claimedMs: 0, spans: [] });
}

it('the clients of an instance are remembered when it is gone, also if it withdraws them first', () => {
  let nowMs = 0;
  const gone = new GoneInstances(() => nowMs);
  const [a, b] = [client('a'), client('b')];
  const plain = client('1.2.3.4:5', 'plain');
  const all = [
    { instance: 'one', clients: [a, client('a', 'session', 'p'), plain] },
    { instance: 'two', clients: [b] },
  ];
  assert.deepEqual(gone.look(all), []);
  assert.deepEqual(gone.look([{ instance: 'one', clients: [] }]), [{ instance: 'two', keys: [b.key] }]);
  assert.deepEqual(gone.look([]), [
    { instance: 'one', keys: [a.key] },
    { instance: 'two', keys: [b.key] },
  ]);
  nowMs = 900_000;
  assert.deepEqual(gone.look([{ instance: 'one', clients: [a] }]), [{ instance: 'two', keys: [b.key] }]);
  nowMs = 900_001;
  assert.deepEqual(gone.look([]), [{ instance: 'one', keys: [a.key] }], 'after a quarter of an hour they are given up');
});
