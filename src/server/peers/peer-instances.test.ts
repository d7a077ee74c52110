import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { isConcerned, type KnownClient, newClient } from '../clients/known-client.js';
import { ConcernedCounts } from './peer-instances.js';

const topic = fc.constantFrom('a', 'b', 'a\nb', 'a,b', '', '__ALL_TOPICS__');

/** A client, of which `seen` is called each time that its topics are looked at. */
function client(id: string, more: Partial<KnownClient>, seen: () => void): KnownClient {
  const { topics = [], ...rest } = more;
  const identity = { kind: 'session', id, clientId: id, subject: null } as const;
  const info = { host: '127.0.0.1', port: 1, topics: [], connectedAtMs: 0 };
  const made = { ...newClient(identity, info, { instance: 'one', claimedMs: 0, spans: [] }), ...rest };
  return Object.defineProperty(made, 'topics', {
    get: () => {
      seen();
      return topics;
    },
  });
}

describe('clients that a publication concerns', () => {
  it('property: are as many as one by one, for every list of clients and topics', () => {
    const drawn = fc.record({
      topics: fc.array(topic, { maxLength: 3 }),
      awaySinceMs: fc.constantFrom(null, 5),
      topicsLeftOut: fc.constantFrom(0, 0, 3),
    });
    fc.assert(
      fc.property(fc.array(drawn, { maxLength: 12 }), fc.array(fc.array(topic)), (facts, publications) => {
        const clients = facts.map((more, at) => client(String(at), more, () => undefined));
        const counts = new ConcernedCounts();
        for (const published of publications) {
          const wanted = clients.filter((one) => one.awaySinceMs === null && isConcerned(one, published)).length;
          assert.equal(counts.count(clients, published), wanted);
          assert.equal(counts.count(clients, new Set(published)), wanted);
        }
      }),
    );
  });

  it('are looked through once, however many publications there are', () => {
    let looks = 0;
    const clients = Array.from({ length: 1000 }, (_, at) => client(String(at), { topics: ['a'] }, () => looks++));
    const counts = new ConcernedCounts();
    assert.equal(counts.count(clients, ['a']), 1000);
    const first = looks;
    for (let more = 0; more < 100; more++) assert.equal(counts.count(clients, ['b']), 0);
    assert.equal(looks - first, 100, 'one client stands for all that are alike');
  });
});
