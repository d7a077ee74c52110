import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { bearer, tokenOf, withKeys } from '../support/auth.js';
import { gitRepo } from '../support/git-repo.js';
import { type Answer, field, request } from '../support/http.js';
import { following, publish, startClient } from '../support/start-client.js';
import { startPeer } from '../support/start-peer.js';
import { startServer } from '../support/start-server.js';
import { until } from '../support/until.js';

/** `GET /clients/{id}`: one client in full, with what it tells when it is asked. */

const OURS = { 'x-sync-protocol': '2' };
const WITHIN = { withinMs: 20_000 };
const GOOD = 'package app\n\nallow := true\n';
const REFUSED = [
  'package app',
  '',
  'allow := true',
  '',
  'deny contains reason if {',
  '\treason := undefined_thing',
  '}',
  '',
];

async function clientAt(url: string, id: string, headers: Record<string, string> = {}): Promise<Answer> {
  return await request(`${url}/clients/${encodeURIComponent(id)}`, { headers });
}

function transactions(
  json: unknown,
): { kind: string; outcome: string; id: string; wrote: string[]; seq: number | null }[] {
  const found = field(json, 'details', 'transactions');
  assert(Array.isArray(found), JSON.stringify(json));
  return found;
}

// One of them waits as long as a server waits for an answer.
describe('one client', { concurrency: true }, () => {
  it('is shown with its topics, its last transactions and its state', async () => {
    await using repo = await gitRepo();
    const good = await repo.commit({ 'app/main.rego': GOOD, 'app/data.json': '{}' });
    await using server = await startServer(following(repo));
    const env = { SYNC_CLIENT_ID: 'c', SYNC_DRIFT_CHECK_INTERVAL: '3600', SYNC_CLIENT_LABELS: 'app=billing' };
    await using client = await startClient({ serverUrl: server.url, env });
    await client.healthy();
    const seq = await publish(server.url, { dst_path: '/users/bob', data: { role: 'editor' } });
    await client.holds('/users/bob', { role: 'editor' });
    const { json } = await until(
      async () => {
        const answer = await clientAt(server.url, 'c');
        return field(answer.json, 'topics', '1', 'held') === seq ? answer : undefined;
      },
      { ...WITHIN, what: 'its report' },
    );
    assert.deepEqual(field(json, 'client', 'labels'), { app: 'billing' });
    assert.equal(field(json, 'client', 'client_id'), 'c');
    assert.deepEqual(field(json, 'topics'), [
      { topic: 'default:policy:.', wanted: null, held: null, behind: null, last: null },
      { topic: 'policy_data', wanted: seq, held: seq, behind: 0, last: 'test' },
    ]);
    assert.equal(field(json, 'details_missing'), null);
    assert.equal(field(json, 'details', 'orphaned_total'), 0);
    assert.equal(field(json, 'details', 'drift', 'repaired'), 0);
    assert.equal(field(json, 'details', 'rego', 'v1'), 1);
    const [last, ...others] = transactions(json);
    assert.deepEqual([last?.kind, last?.outcome, last?.seq, last?.wrote], ['data', 'applied', seq, ['/users/bob']]);
    const policy = others.find(({ kind }) => kind === 'policy');
    assert.deepEqual(
      [policy?.id, policy?.outcome, policy?.wrote],
      [good, 'applied', ['app/data.json', 'app/main.rego']],
    );
    assert.deepEqual(field(json, 'actions'), ['refresh', 'prune', 'drift_check', 'log_level']);
    assert.deepEqual([field(json, 'source'), field(json, 'same_error')], [null, 0]);
  });

  it('that refuses a commit is shown with the lines of the error, and how many refuse it for the same reason', async () => {
    await using repo = await gitRepo();
    await repo.commit({ 'app/main.rego': GOOD });
    await using server = await startServer(following(repo));
    await using client = await startClient({ serverUrl: server.url, env: { SYNC_CLIENT_ID: 'c' } });
    await using other = await startClient({ serverUrl: server.url, env: { SYNC_CLIENT_ID: 'd' } });
    await client.healthy();
    await other.healthy();
    const bad = await repo.commit({ 'app/main.rego': REFUSED.join('\n') });
    const { json } = await until(
      async () => {
        const answer = await clientAt(server.url, 'c');
        // A first report may have the error before its place.
        const isPlaced = field(answer.json, 'source') !== null;
        return isPlaced && field(answer.json, 'same_error') === 2 ? answer : undefined;
      },
      { ...WITHIN, what: 'both refuse it, and where' },
    );
    assert.deepEqual(field(json, 'source'), {
      file: 'app/main.rego',
      line: 6,
      first: 4,
      lines: REFUSED.slice(3, 8),
    });
    const [last] = transactions(json);
    assert.deepEqual([last?.kind, last?.outcome, last?.id], ['policy', 'refused', bad]);
  });

  it('that is away, of OPAL, of an older version or silent is shown without details, and why', async () => {
    await using server = await startServer();
    await using old = await startPeer(server.url, OURS);
    await old.call('subscribe', { topics: ['policy_data'], client_id: 'old' });
    await using plain = await startPeer(server.url);
    await plain.call('subscribe', { topics: ['policy_data'] });
    await using silent = await startPeer(server.url, OURS);
    await silent.call('subscribe', { topics: ['policy_data'], client_id: 'silent', asks: ['details'] });
    {
      await using gone = await startPeer(server.url, OURS);
      await gone.call('subscribe', { topics: ['policy_data'], client_id: 'gone', asks: ['details'] });
    }
    const missing = async (id: string) => {
      const { status, json, text } = await clientAt(server.url, id);
      assert.equal(status, 200, text);
      assert.equal(field(json, 'details'), null);
      return field(json, 'details_missing');
    };
    await until(async () => (await missing('gone')) === 'away', { ...WITHIN, what: 'it is away' });
    const { json } = await request(`${server.url}/clients`);
    const clients = field(json, 'clients') as { kind: string; client_id: string }[];
    const opal = clients.find(({ kind }) => kind === 'plain')?.client_id ?? '';
    assert.deepEqual(
      [await missing('old'), await missing(opal), await missing('silent')],
      ['old', 'plain', 'no_answer'],
    );
    assert(!old.frames.concat(plain.frames).some((frame) => field(frame, 'request', 'method') === 'ask'));
    assert(silent.frames.some((frame) => field(frame, 'request', 'method') === 'ask'));
    const unknown = await clientAt(server.url, 'nobody');
    assert.deepEqual([unknown.status, field(unknown.json, 'detail')], [404, 'no client "nobody" is known']);
  });

  it('is found by a name of any characters and of any length that a client may have', async () => {
    await using server = await startServer();
    for (const client_id of ['a/b', 'é &?#%2F', 'n'.repeat(256), '\u{1f600}'.repeat(60), 'actions']) {
      await using peer = await startPeer(server.url, OURS);
      await peer.call('subscribe', { topics: ['policy_data'], client_id });
      const { status, json, text } = await clientAt(server.url, client_id);
      assert.deepEqual([status, field(json, 'client', 'client_id')], [200, client_id], text);
    }
  });
});

describe('one client for a limited token', () => {
  it('is the permitted part, and a client that is not permitted is as one that does not exist', async () => {
    await using server = await startServer(withKeys());
    const as = async (type: string, claims: object = {}) => bearer(await tokenOf(server.url, { type, claims }));
    await using client = await startClient({
      serverUrl: server.url,
      env: {
        SYNC_CLIENT_ID: 'c',
        SYNC_DATA_TOPICS: 'a,b',
        SYNC_POLICY_UPDATER_ENABLED: 'false',
        SYNC_CLIENT_TOKEN: (await as('client')).authorization.slice('Bearer '.length),
      },
    });
    await client.healthy();
    const [whole, listener] = [await as('datasource'), await as('listener')];
    const [some, all, other, paths] = [
      await as('datasource', { permitted_topics: ['a'] }),
      await as('datasource', { permitted_topics: ['a', 'b'] }),
      await as('datasource', { permitted_topics: ['z'] }),
      await as('datasource', { permitted_paths: ['/users'] }),
    ];
    const seen = async (headers: Record<string, string>) => {
      const { json } = await clientAt(server.url, 'c', headers);
      const topics = field(json, 'topics') as { topic: string }[];
      return [topics.map(({ topic }) => topic).join(), field(json, 'details_missing'), field(json, 'actions')];
    };
    const ACTIONS = ['refresh', 'prune', 'drift_check', 'log_level'];
    assert.deepEqual(await seen(whole), ['a,b', null, ACTIONS]);
    assert.deepEqual(await seen(listener), ['a,b', null, []]);
    assert.deepEqual(await seen(some), ['a', 'limited', []]);
    assert.deepEqual(await seen(all), ['a,b', null, ACTIONS.filter((action) => action !== 'prune')]);
    assert.deepEqual(await seen(paths), ['a,b', 'limited', []]);
    const hidden = await clientAt(server.url, 'c', other);
    const none = await clientAt(server.url, 'd', other);
    assert.deepEqual([hidden.status, hidden.text.replaceAll('\\"c\\"', '\\"d\\"')], [404, none.text]);
  });
});
