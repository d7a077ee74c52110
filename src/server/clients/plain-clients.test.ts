import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { chosenClients } from './chosen-clients.js';
import { type KnownClient, newClient } from './known-client.js';
import { plainClients } from './plain-clients.js';

interface Given {
  readonly host?: string;
  readonly port: number;
  readonly topics: readonly string[];
  readonly id?: string;
  readonly subject?: string;
  readonly at?: number;
}

function connection({ host = '10.0.0.1', port, topics, id, subject = 's', at = port }: Given): KnownClient {
  const clientId = id ?? `${host}:${port}`;
  const peer = { host, port, topics, connectedAtMs: at };
  const about = { instance: 'i', claimedMs: at, spans: [{ from: 0, until: null }] };
  return newClient({ kind: 'plain', subject, clientId }, peer, about);
}

/** Id and topics of each. */
function listed(given: readonly Given[]): [string, readonly string[]][] {
  return plainClients(given.map(connection)).map(({ clientId, topics }) => [clientId, topics]);
}

const POLICY = ['policy:.'];
const DATA = ['policy_data'];

describe('connections without a session', () => {
  it('are one client by the id that both announce', () => {
    const two = [
      { port: 1, topics: POLICY, id: 'CLIENT_a' },
      { host: '10.0.0.2', port: 2, topics: DATA, id: 'CLIENT_a' },
    ];
    assert.deepEqual(listed(two), [['CLIENT_a', ['policy:.', 'policy_data']]]);
  });

  it('are one client as a half for policy and a half for data, of one host and one subject', () => {
    assert.deepEqual(
      listed([
        { port: 2, topics: DATA },
        { port: 3, topics: ['policy:a', 'policy:b'] },
      ]),
      [['10.0.0.1:3', ['policy:a', 'policy:b', 'policy_data']]],
    );
  });

  const APART: Readonly<Record<string, readonly [Given, Given]>> = {
    'two hosts': [
      { port: 1, topics: POLICY },
      { host: '10.0.0.2', port: 2, topics: DATA },
    ],
    'two subjects': [
      { port: 1, topics: POLICY },
      { port: 2, topics: DATA, subject: 't' },
    ],
    'two ids': [
      { port: 1, topics: POLICY, id: 'a' },
      { port: 2, topics: DATA, id: 'b' },
    ],
    'an id and none': [
      { port: 1, topics: POLICY, id: 'a' },
      { port: 2, topics: DATA },
    ],
    'policy twice': [
      { port: 1, topics: POLICY },
      { port: 2, topics: POLICY },
    ],
    'data twice': [
      { port: 1, topics: DATA },
      { port: 2, topics: DATA },
    ],
    'one with both': [
      { port: 1, topics: [...POLICY, ...DATA] },
      { port: 2, topics: DATA },
    ],
    'one of all topics': [
      { port: 1, topics: POLICY },
      { port: 2, topics: ['__EventNotifier_ALL_TOPICS__'] },
    ],
  };
  for (const [what, two] of Object.entries(APART)) {
    it(`are two clients: ${what}`, () => {
      assert.deepEqual(
        listed(two),
        two.map(({ host = '10.0.0.1', port, id = `${host}:${port}`, topics }) => [id, topics]),
      );
    });
  }

  it('of many clients behind one address are as many clients, however they come in', () => {
    const halves = fc.record({ policy: fc.nat(20), data: fc.nat(20) });
    fc.assert(
      fc.property(halves, fc.array(fc.nat(1000), { minLength: 40, maxLength: 40 }), ({ policy, data }, times) => {
        const given = [...Array(policy + data).keys()].map((port) => ({
          port,
          topics: port < policy ? POLICY : DATA,
          at: times[port] ?? 0,
        }));
        const clients = plainClients(given.map(connection));
        assert.equal(clients.length, Math.max(policy, data));
        const whole = clients.filter(({ topics }) => topics.length === 2);
        assert.equal(whole.length, Math.min(policy, data));
        // The same again changes nothing.
        assert.deepEqual(plainClients(clients), clients);
      }),
    );
  });

  it('at two instances are one client, too', () => {
    const chosen = chosenClients([[connection({ port: 1, topics: POLICY })], [connection({ port: 2, topics: DATA })]]);
    assert.deepEqual(
      [...chosen.values()].map(({ address, topics }) => [address, topics]),
      [['10.0.0.1:1', ['policy:.', 'policy_data']]],
    );
  });
});
