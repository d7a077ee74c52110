import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { errorCode } from '../../lib/errors.js';
import { silentLogger } from '../../lib/observe/log.js';
import type { PeerInfo, SessionPeer } from '../../pubsub/peer.js';
import { ASK_KINDS } from '../../wire/session.js';
import { ClientAsks, type ClientAsksOptions, whyNotAsked } from './client-asks.js';
import { type KnownClient, newClient } from './known-client.js';

function client(clientId: string, more: Partial<KnownClient> = {}): KnownClient {
  const made = newClient(
    { kind: 'session', subject: null, clientId },
    { host: 'h', port: 1, topics: ['t'], connectedAtMs: 0 },
    { instance: 'i', claimedMs: 0, spans: [] },
  );
  return { ...made, asks: ASK_KINDS, ...more };
}

function peer(): SessionPeer & { readonly told: { id: string; kind: string }[] } {
  const told: { id: string; kind: string }[] = [];
  return {
    id: 'p',
    info: {} as PeerInfo,
    told,
    tell: (_method, args) => void told.push(args as (typeof told)[number]),
    isAlive: async () => true,
    drop: () => undefined,
  };
}

function world(options: ClientAsksOptions = {}) {
  const peers = new Map<string, SessionPeer>();
  const asks = new ClientAsks(
    { registry: { peerByKey: (key) => peers.get(key) }, log: silentLogger() },
    { actMs: 60_000, tellMs: 60_000, ...options },
  );
  const connect = (one: KnownClient) => {
    const made = peer();
    peers.set(one.key, made);
    return made;
  };
  return { asks, connect };
}

const outcome = (asking: Promise<unknown>): Promise<unknown> => asking.catch((error: unknown) => errorCode(error));

describe('asks of clients', () => {
  it('are refused for those that cannot be asked, as the table says', () => {
    const TABLE: [string, Partial<KnownClient>, string | undefined][] = [
      ['connected', {}, undefined],
      ['an OPAL client', { kind: 'plain' }, 'client_not_askable'],
      ['away', { awaySinceMs: 1 }, 'client_away'],
      ['of an older version', { asks: [] }, 'client_not_askable'],
      ['closed by its operator', { asks: ['details'] }, 'client_not_askable'],
    ];
    for (const [what, more, code] of TABLE) {
      assert.equal(whyNotAsked(client('a', more), 'prune')?.code, code, what);
    }
    assert.equal(whyNotAsked(client('a', { asks: ['details'] }), 'details'), undefined);
  });

  it('end with the answer of the client that was asked, and of no other', async () => {
    const { asks, connect } = world();
    const one = client('a');
    const [own, other] = [connect(one), connect(client('b'))];
    const asking = asks.ask(one, { kind: 'log_level', level: 'debug' });
    const [told] = own.told;
    assert.deepEqual(told, { id: told?.id, kind: 'log_level', level: 'debug' });
    const answer = { id: told?.id ?? '', done: true, text: 'yes' };
    assert.equal(asks.answered(other, answer, 10), false);
    assert.equal(asks.answered(own, { ...answer, id: 'x' }, 10), false);
    assert.equal(asks.answered(own, answer, 10), true);
    assert.deepEqual(await asking, answer);
    assert.equal(asks.answered(own, answer, 10), false, 'it is over');
  });

  it('end in time without an answer, and with one that cannot be used', async () => {
    const { asks, connect } = world({ actMs: 20, tellMs: 20 });
    const one = client('a');
    const own = connect(one);
    assert.equal(await outcome(asks.ask(one, { kind: 'prune' })), 'client_no_answer');
    assert.equal(await outcome(asks.ask(one, { kind: 'details' })), 'client_no_answer');
    const asking = outcome(asks.ask(one, { kind: 'prune' }));
    assert.equal(asks.answered(own, { id: own.told.at(-1)?.id, done: true, text: 'x' }, 70_000), false);
    assert.equal(await asking, 'client_no_answer');
  });

  it('are one of a kind at a client: the same is shared, another one is busy; and there are only so many', async () => {
    const { asks, connect } = world({ maxOpen: 3 });
    const one = client('a');
    const own = connect(one);
    const shared = [asks.ask(one, { kind: 'prune' }), asks.ask(one, { kind: 'prune' })];
    const level = asks.ask(one, { kind: 'log_level', level: 'debug' });
    assert.equal(await outcome(asks.ask(one, { kind: 'log_level', level: 'info' })), 'client_busy');
    const refresh = asks.ask(one, { kind: 'refresh' });
    assert.equal(await outcome(asks.ask(one, { kind: 'details' })), 'client_busy', 'the fourth');
    assert.deepEqual(
      own.told.map(({ kind }) => kind),
      ['prune', 'log_level', 'refresh'],
    );
    asks.left(own);
    for (const asking of [...shared, level, refresh]) assert.equal(await outcome(asking), 'client_away');
    const back = connect(one);
    const again = outcome(asks.ask(one, { kind: 'details' }));
    assert.equal(back.told.length, 1, 'the room is free again');
    asks.left(back);
    assert.equal(await again, 'client_away');
  });

  it('for details leave room to act', async () => {
    const { asks, connect } = world({ maxOpen: 4 });
    const clients = ['a', 'b', 'c'].map((id) => client(id));
    const peers = clients.map(connect);
    const [a, b, c] = clients as [KnownClient, KnownClient, KnownClient];
    const details = [a, b].map((one) => outcome(asks.ask(one, { kind: 'details' })));
    assert.equal(await outcome(asks.ask(c, { kind: 'details' })), 'client_busy');
    const actions = [outcome(asks.ask(c, { kind: 'prune' })), outcome(asks.ask(c, { kind: 'refresh' }))];
    assert.deepEqual(
      peers.map(({ told }) => told.map(({ kind }) => kind)),
      [['details'], ['details'], ['prune', 'refresh']],
    );
    assert.equal(await outcome(asks.ask(b, { kind: 'prune' })), 'client_busy', 'the fifth');
    for (const one of peers) asks.left(one);
    for (const asking of [...details, ...actions]) assert.equal(await asking, 'client_away');
    const again = peers.map((_, at) => connect(clients[at] as KnownClient));
    const later = outcome(asks.ask(c, { kind: 'details' }));
    assert.equal(again[2]?.told.length, 1, 'the room is free again');
    for (const one of again) asks.left(one);
    assert.equal(await later, 'client_away');
  });
});
