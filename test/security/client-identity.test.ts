import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { bearer, tokenOf, withKeys } from '../support/auth.js';
import { type Answer, field, postJson, request } from '../support/http.js';
import { startClient } from '../support/start-client.js';
import { type StartedPeer, startPeer } from '../support/start-peer.js';
import { type StartedServer, startServer } from '../support/start-server.js';
import { until } from '../support/until.js';

/** Attacks by the holder of some client token on the name, the data and the reports of another client. */

const TOPIC = 'policy_data';
const OURS = { 'x-sync-protocol': '2' };
const WITHIN = { withinMs: 20_000 };

async function tokens(server: { url: string }): Promise<Record<'victim' | 'attacker' | 'source', string>> {
  const [victim, attacker, source] = await Promise.all([
    tokenOf(server.url),
    tokenOf(server.url),
    tokenOf(server.url, { type: 'datasource' }),
  ]);
  return { victim, attacker, source };
}

function session(serverUrl: string, token?: string): Promise<StartedPeer> {
  return startPeer(serverUrl, { ...OURS, ...(token === undefined ? {} : bearer(token)) });
}

function subscribe(peer: StartedPeer, client_id: string, more: object = {}): Promise<unknown> {
  return peer.call('subscribe', { topics: [TOPIC], client_id, ...more });
}

function report(client_id: string, position: object | null, more: object = {}): object {
  const engine = { kind: 'opa', version: '1.22.0', online: true };
  return { client_id, position, policy_hash: null, ready: true, healthy: true, engine, since: 1, ...more };
}

function publish(serverUrl: string, token: string | undefined, wait: string): Promise<Answer> {
  const entries = [{ url: '', topics: [TOPIC], dst_path: '/users', data: { at: Date.now() } }];
  const headers = token === undefined ? {} : bearer(token);
  return postJson(`${serverUrl}/data/config?wait=applied&timeout=${wait}`, { entries }, headers);
}

async function listed(serverUrl: string, token: string | undefined): Promise<unknown[]> {
  const headers = token === undefined ? {} : bearer(token);
  const { json } = await request(`${serverUrl}/clients`, { headers });
  const clients = field(json, 'clients');
  assert(Array.isArray(clients), JSON.stringify(json));
  return clients;
}

describe('an id that somebody else uses', () => {
  it('keeps its owner: who comes second with another token is served and listed under another name', async () => {
    await using server = await startServer(withKeys());
    const { victim, attacker, source } = await tokens(server);
    await using own = await session(server.url, victim);
    assert.equal(field(await subscribe(own, 'shop-1'), 'listed_as'), undefined);
    await using foreign = await session(server.url, attacker);
    const name = String(field(await subscribe(foreign, 'shop-1'), 'listed_as'));
    assert.match(name, /^shop-1~[0-9a-f]{8}$/);
    const clients = await listed(server.url, source);
    assert.deepEqual(
      clients.map((each) => [field(each, 'client_id'), field(each, 'own_id')]),
      [
        ['shop-1', null],
        [name, 'shop-1'],
      ],
    );
    await publish(server.url, source, '10ms');
    for (const peer of [own, foreign]) assert.equal((await peer.notified(1)).length, 1, 'both are told');
  });

  it('squatted before its owner came: the owner gets its data all the same, in its engine, and says that it is listed otherwise', async () => {
    await using server = await startServer({ ...withKeys(), SYNC_HEARTBEAT_INTERVAL: '0.2' });
    const { victim, attacker, source } = await tokens(server);
    await using squatter = await session(server.url, attacker);
    await subscribe(squatter, 'shop-1');
    await using client = await startClient({
      serverUrl: server.url,
      env: { SYNC_CLIENT_ID: 'shop-1', SYNC_CLIENT_TOKEN: victim, SYNC_POLICY_UPDATER_ENABLED: 'false' },
    });
    const told = () => client.log.find(({ msg }) => msg.startsWith('another client uses the id of this one'));
    await until(told, { ...WITHIN, what: 'the client says so' });
    assert.match(String(told()?.listed_as), /^shop-1~/);
    const answer = await publish(server.url, source, '4s');
    assert.notEqual(await client.data('/users'), undefined, 'the engine has its data');
    assert.equal(answer.status, 202, 'the squatter has not applied it');
    assert.deepEqual(
      (field(answer.json, 'lagging') as unknown[]).map((each) => field(each, 'client_id')),
      ['shop-1'],
    );
    assert.equal(field(answer.json, 'applied'), 1);
  });

  it('is not lost with the connection of its owner, nor with a restart of the server', async () => {
    const keys = withKeys();
    const first = await startServer(keys);
    const { victim, attacker, source } = await tokens(first);
    let second: StartedServer | undefined;
    try {
      const own = await session(first.url, victim);
      await subscribe(own, 'shop-1');
      await own[Symbol.asyncDispose]();
      await using early = await session(first.url, attacker);
      assert.match(String(field(await subscribe(early, 'shop-1'), 'listed_as')), /^shop-1~/);
      await first.stop();
      second = await startServer(keys, { stateDir: first.stateDir });
      await using late = await session(second.url, attacker);
      assert.match(String(field(await subscribe(late, 'shop-1'), 'listed_as')), /^shop-1~/);
      await using back = await session(second.url, victim);
      assert.equal(field(await subscribe(back, 'shop-1'), 'listed_as'), undefined);
      const names = (await listed(second.url, source)).map((each) => String(field(each, 'client_id')));
      assert.match(names.join(), /^shop-1,shop-1~[0-9a-f]{8}$/);
    } finally {
      await second?.stop();
      await first[Symbol.asyncDispose]();
    }
  });

  it('is taken over by its own subject at once, while the connection from before is dead', async () => {
    await using server = await startServer(withKeys());
    const { victim, source } = await tokens(server);
    await using dead = await session(server.url, victim);
    await subscribe(dead, 'shop-1');
    dead.socket.pause();
    await using anew = await session(server.url, victim);
    const startMs = performance.now();
    assert.equal(field(await subscribe(anew, 'shop-1'), 'accepted'), true);
    assert(performance.now() - startMs < 1500, 'no probe is waited for');
    assert.equal((await listed(server.url, source)).length, 1);
    const answer = publish(server.url, source, '15s');
    const [notice] = await anew.notified(1);
    const epoch = field(notice, 'epoch');
    const position = { epoch, applied_through: Number(field(notice, 'seq')) };
    assert.equal(await anew.call('report', report('shop-1', position)), true);
    assert.equal((await answer).status, 200, 'the dead connection is nobody that is waited for');
  });

  it('does not let a bare subscriber of that name hide the client', async () => {
    await using server = await startServer(withKeys());
    const { victim, attacker, source } = await tokens(server);
    await using own = await session(server.url, victim);
    await subscribe(own, 'shop-1');
    await using plain = await startPeer(server.url, bearer(attacker));
    await plain.call('subscribe', { topics: [TOPIC] });
    await plain.call('publish', { topics: ['__opal_stats_add'], data: { client_id: 'shop-1', rpc_id: 'x' } });
    const clients = await listed(server.url, source);
    assert.deepEqual(
      clients.map((each) => field(each, 'kind')),
      ['session', 'plain'],
    );
    assert.deepEqual([field(clients[0], 'client_id'), field(clients[1], 'own_id')], ['shop-1', 'shop-1']);
  });
});

describe('reports', () => {
  it('in the name of another client count for nothing', async () => {
    await using server = await startServer(withKeys());
    const { victim, attacker, source } = await tokens(server);
    await using own = await session(server.url, victim);
    const opened = await subscribe(own, 'shop-1');
    const lie = { epoch: field(opened, 'epoch'), applied_through: 1 };
    await using bystander = await session(server.url, attacker);
    assert.equal(await bystander.call('report', report('shop-1', lie)), false, 'without a session');
    await subscribe(bystander, 'mine');
    assert.equal(await bystander.call('report', report('shop-1', lie)), false, 'from another session');
    await using foreign = await session(server.url, attacker);
    await subscribe(foreign, 'shop-1');
    const answer = publish(server.url, source, '1s');
    await foreign.notified(1);
    assert.equal(await foreign.call('report', report('shop-1', lie)), true, 'it speaks for itself alone');
    const { status, json } = await answer;
    assert.equal(status, 202);
    const lagging = (field(json, 'lagging') as unknown[]).map((each) => field(each, 'client_id'));
    assert(lagging.includes('shop-1'), JSON.stringify(json));
    const [shown] = await listed(server.url, source).then((all) =>
      all.filter((one) => field(one, 'client_id') === 'shop-1'),
    );
    assert.deepEqual([field(shown, 'data', 'held'), field(shown, 'reported_at')], [null, null]);
  });

  it('of what is still to come are refused, so that they answer for no update; an honest position of an older log begins anew', async () => {
    for (const keys of [withKeys(), {}]) {
      await using server = await startServer(keys);
      const isOn = 'SYNC_AUTH_PUBLIC_KEY' in keys;
      const { victim, source } = isOn ? await tokens(server) : { victim: undefined, source: undefined };
      await using liar = await session(server.url, victim);
      const first = await subscribe(liar, 'liar');
      const epoch = field(first, 'epoch');
      const future = { epoch, applied_through: 1_000_000 };
      for (const position of [future, { epoch, applied_through: 0, applied_beyond: [1] }]) {
        assert.equal(await liar.call('report', report('liar', position)), false);
      }
      const { status, json } = await publish(server.url, source, '500ms');
      assert.deepEqual([status, field(json, 'lagging', 0, 'client_id')], [202, 'liar']);
      const [shown] = await listed(server.url, source);
      assert.equal(field(shown, 'data', 'held'), null);
      assert.equal(field(shown, 'data', 'lag_updates'), 1);
      // The same claim when it connects: a log that went back, or a lie. It is served from the beginning, and counts as nothing.
      await using again = await session(server.url, victim);
      const answer = await subscribe(again, 'restored', { position: future });
      assert.deepEqual([field(answer, 'accepted'), field(answer, 'resumes')], [true, false]);
      const restored = (await listed(server.url, source)).find((each) => field(each, 'client_id') === 'restored');
      assert.equal(field(restored, 'data', 'held'), null);
    }
  });
});

describe('with authentication off', () => {
  it('nobody is refused for its id: two that live are both served, and both are waited for', async () => {
    await using server = await startServer();
    await using one = await session(server.url);
    await using two = await session(server.url);
    const opened = await subscribe(one, 'same');
    assert.equal(field(await subscribe(two, 'same'), 'accepted'), true);
    await until(async () => (await listed(server.url, undefined)).length === 2, { ...WITHIN, what: 'both are listed' });
    const answer = publish(server.url, undefined, '1s');
    await two.notified(1);
    await two.call('report', report('same', { epoch: field(opened, 'epoch'), applied_through: 1 }));
    assert.deepEqual([(await answer).status, field((await answer).json, 'applied')], [202, 1], (await answer).text);
    const all = publish(server.url, undefined, '15s');
    for (const peer of [one, two]) {
      await peer.notified(2);
      await peer.call('report', report('same', { epoch: field(opened, 'epoch'), applied_through: 2 }));
    }
    assert.deepEqual([(await all).status, field((await all).json, 'applied')], [200, 2], (await all).text);
  });
});
