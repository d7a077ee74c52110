import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { bearer, tokenOf, withKeys } from '../support/auth.js';
import { backboneOffer } from '../support/backbone-servers.js';
import { field, postJson, request } from '../support/http.js';
import { type Instance, startInstance } from '../support/instance.js';
import { type StartedPeer, startPeer } from '../support/start-peer.js';
import { until } from '../support/until.js';

/** The same attacks on the id of a client from another instance on the same backbone: whose ids are whose is known to all. */

const TOPIC = 'policy_data';
const WITHIN = { withinMs: 20_000 };
const redis = await backboneOffer('Redis');
const postgres = await backboneOffer('Postgres');
const offer = redis.missing === undefined ? redis : postgres;

function session(url: string, token: string): Promise<StartedPeer> {
  return startPeer(url, { 'x-sync-protocol': '2', ...bearer(token) });
}

function subscribe(peer: StartedPeer, client_id: string): Promise<unknown> {
  return peer.call('subscribe', { topics: [TOPIC], client_id });
}

/** `name of the subject` of each client of the shop that is listed, by name; the hashes of derived names are left out. */
async function listed(instance: Instance, token: string, names: ReadonlyMap<string, string>): Promise<string> {
  const { json } = await request(`${instance.url}/clients`, { headers: bearer(token) });
  const clients = field(json, 'clients');
  assert(Array.isArray(clients));
  const ofShop = clients.filter((each) => String(field(each, 'client_id')).startsWith('shop-1'));
  const shown = ofShop.map((each) => {
    const name = String(field(each, 'client_id')).replace(/~[0-9a-f]{8}$/, '~');
    return `${name} of ${names.get(String(field(each, 'subject')))}${field(each, 'connected') === true ? '' : ' away'}`;
  });
  return shown.join(', ');
}

describe('a client id on two instances', { skip: offer.missing ?? false }, () => {
  const ends: (() => PromiseLike<void>)[] = [];
  const use = <T extends AsyncDisposable>(part: T): T => {
    ends.push(() => part[Symbol.asyncDispose]());
    return part;
  };
  let one: Instance;
  let other: Instance;
  before(async () => {
    const backbone = use(await offer.start());
    const env = {
      SYNC_BROADCAST_URI: backbone.uri,
      SYNC_HEARTBEAT_INTERVAL: '0.5',
      SYNC_PATCHES_PER_PATH_LIMIT: '10',
      ...withKeys(),
    };
    one = use(await startInstance(env));
    other = use(await startInstance(env));
  });
  after(async () => {
    for (const end of ends.reverse()) await end();
  });

  it('is what a wait and its reasons go by, also for a client of another instance; a lie told there counts nowhere', async () => {
    const source = await tokenOf(one.url, { type: 'datasource' });
    const limited = await tokenOf(one.url, { type: 'datasource', claims: { permitted_topics: [TOPIC] } });
    const own = await tokenOf(one.url);
    await using far = await session(other.url, own);
    const opened = await subscribe(far, 'far');
    const epoch = field(opened, 'epoch');
    const secret = 'HTTP 500: password hunter2';
    const engine = { kind: 'opa', version: null, online: true };
    const state = { client_id: 'far', policy_hash: null, ready: true, healthy: false, engine, since: 1 };
    assert.equal(await far.call('report', { ...state, position: { epoch, applied_through: 1_000_000 } }), false);
    const clients = async (url: string, token: string) =>
      field((await request(`${url}/clients`, { headers: bearer(token) })).json, 'clients');
    await until(async () => field(await clients(one.url, source), 0) !== undefined, {
      ...WITHIN,
      what: 'far is known',
    });
    assert.equal(field(await clients(one.url, source), 0, 'data', 'held'), null);

    for (const token of [limited, source]) {
      const entries = [{ url: '', topics: [TOPIC], dst_path: '/users', data: { at: Date.now() } }];
      const waiting = postJson(`${one.url}/data/config?wait=applied&timeout=4s`, { entries }, bearer(token));
      const seq = Number(field((await far.notified(token === limited ? 1 : 2)).at(-1), 'seq'));
      const position = { epoch, applied_through: seq, unresolved: [seq] };
      const failing = [{ path: '/users', error: secret, kind: 'source' }];
      assert.equal(await far.call('report', { ...state, position, failing }), true);
      const { status, text } = await waiting;
      assert.equal(status, 202);
      assert.equal(text.includes('hunter2'), token === source, text);
      assert.match(text, token === source ? /failing: \/users: HTTP 500/ : /failing: its data source does not give it/);
      const shown = JSON.stringify(await clients(one.url, token));
      assert.equal(shown.includes('hunter2'), token === source, shown);
    }

    // Its subject comes to the other instance while this connection is dead: it is the client, at once.
    far.socket.pause();
    await using near = await session(one.url, own);
    assert.equal(field(await subscribe(near, 'far'), 'listed_as'), undefined);
    const where = async (url: string) => {
      const all = await clients(url, source);
      return JSON.stringify([field(all, 'length'), field(all, 0, 'client_id'), field(all, 0, 'connected')]);
    };
    for (const { url } of [one, other]) {
      await until(async () => (await where(url)) === '[1,"far",true]', { ...WITHIN, what: 'one client, connected' });
    }
    const entries = [{ url: '', topics: [TOPIC], dst_path: '/moved', data: 1 }];
    const moved = postJson(`${one.url}/data/config?wait=applied&timeout=10s`, { entries }, bearer(source));
    const at = { epoch, applied_through: Number(field((await near.notified(1)).at(-1), 'seq')) };
    assert.equal(await near.call('report', { ...state, healthy: true, position: at }), true);
    assert.deepEqual([(await moved).status, field((await moved).json, 'applied')], [200, 1], (await moved).text);

    // Such a patch replaces none before it.
    const data = [{ op: 'move', from: '/x', path: '/y' }];
    const patch = { entries: [{ url: '', topics: [TOPIC], dst_path: '/patched', save_method: 'PATCH', data }] };
    const answers = await Promise.all(
      Array.from({ length: 20 }, () =>
        [one, other].map(({ url }) => postJson(`${url}/data/config`, patch, bearer(source))),
      ).flat(),
    );
    const counts = [200, 409].map((status) => answers.filter((answer) => answer.status === status).length);
    assert.deepEqual(counts, [10, 30], [...new Set(answers.map(({ text }) => text.slice(0, 200)))].join('\n'));
  });

  it('belongs to the subject that used it first on any of them, also when that instance is gone', async () => {
    const ids = { victim: '11'.repeat(16), attacker: '22'.repeat(16) };
    const names = new Map([
      [ids.victim, 'victim'],
      [ids.attacker, 'attacker'],
    ]);
    const victim = await tokenOf(one.url, { id: ids.victim });
    const attacker = await tokenOf(one.url, { id: ids.attacker });
    const source = await tokenOf(one.url, { type: 'datasource' });
    const own = await session(one.url, victim);
    const opened = await subscribe(own, 'shop-1');
    assert.equal(field(opened, 'accepted'), true);
    await until(async () => (await listed(other, source, names)) === 'shop-1 of victim', {
      ...WITHIN,
      what: 'known there',
    });

    await using foreign = await session(other.url, attacker);
    assert.equal(field(await subscribe(foreign, 'shop-1'), 'accepted'), true, 'it is served');
    for (const instance of [one, other]) {
      const both = 'shop-1 of victim, shop-1~ of attacker';
      await until(async () => (await listed(instance, source, names)) === both, { ...WITHIN, what: both });
    }
    await until(
      () => foreign.frames.some((frame) => /^shop-1~/.test(String(field(frame, 'request', 'arguments', 'listed_as')))),
      { ...WITHIN, what: 'the attacker is told its name' },
    );

    // What the attacker reports on the other instance does not end a wait for the victim on this one.
    const entries = [{ url: '', topics: [TOPIC], dst_path: '/users', data: { a: 1 } }];
    const waiting = postJson(`${one.url}/data/config?wait=applied&timeout=4s`, { entries }, bearer(source));
    const [notice] = await foreign.notified(1);
    const position = { epoch: field(notice, 'epoch'), applied_through: Number(field(notice, 'seq')) };
    const engine = { kind: 'opa', version: null, online: true };
    const report = { client_id: 'shop-1', position, policy_hash: null, ready: true, healthy: true, engine, since: 1 };
    assert.equal(await foreign.call('report', report), true);
    const answer = await waiting;
    assert.deepEqual(
      [answer.status, field(answer.json, 'lagging', 0, 'client_id'), field(answer.json, 'applied')],
      [202, 'shop-1', 1],
      answer.text,
    );

    // The instance of the victim dies: the victim is away, and its id stays its own.
    await one.kill();
    await own[Symbol.asyncDispose]();
    const without = 'shop-1 of victim away, shop-1~ of attacker';
    await until(async () => (await listed(other, source, names)) === without, {
      withinMs: 30_000,
      what: 'the dead instance is silent',
    });
    await using moved = await session(other.url, victim);
    assert.equal(field(await subscribe(moved, 'shop-1'), 'listed_as'), undefined);
    await until(async () => (await listed(other, source, names)) === 'shop-1 of victim, shop-1~ of attacker', {
      ...WITHIN,
      what: 'the victim has its name',
    });
  });
});
