import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { bearer, keyPair, tokenOf, withKeys } from '../support/auth.js';
import { startCallbackReceiver } from '../support/callback-receiver.js';
import { field, postJson, request } from '../support/http.js';
import { publishText, type StartedClient, startClient } from '../support/start-client.js';
import { type StartedServer, startServer } from '../support/start-server.js';
import { until } from '../support/until.js';

const REPORTING = { SYNC_POLICY_UPDATER_ENABLED: 'false', SYNC_SHOULD_REPORT_ON_DATA_UPDATES: 'true' };
const NO_DEFAULTS = { ...REPORTING, SYNC_DEFAULT_UPDATE_CALLBACKS: '{"callbacks":[]}' };

const remove = (url: string) => request(url, { method: 'DELETE' });

describe('a client without a default callback', () => {
  let server: StartedServer;
  let client: StartedClient;
  before(async () => {
    server = await startServer();
    client = await startClient({ serverUrl: server.url, env: { ...NO_DEFAULTS, SYNC_FETCH_METHODS: 'PUT' } });
    await client.healthy();
  });
  after(async () => {
    await client?.[Symbol.asyncDispose]();
    await server?.[Symbol.asyncDispose]();
  });

  it('callbacks are registered, listed, read and deleted; a registered one hears of the next update', async () => {
    await using receiver = await startCallbackReceiver();
    const callbacks = `${client.url}/callbacks`;
    assert.deepEqual((await request(callbacks)).json, []);

    const url = `${receiver.url}/cb`;
    const saved = await postJson(callbacks, { url, config: { headers: { 'X-Key': 's3cret' }, method: 'PUT' } });
    assert.equal(saved.status, 200);
    const key = String(field(saved.json, 'key'));
    assert.match(key, /^[0-9a-f]{64}$/);
    const entry = {
      key,
      url,
      config: {
        fetcher: null,
        headers: { 'X-Key': '***' },
        is_json: true,
        process_data: true,
        method: 'put',
        data: null,
      },
    };
    assert.deepEqual(saved.json, entry);
    assert.deepEqual((await request(callbacks)).json, [entry]);
    assert.deepEqual((await request(`${callbacks}/${key}`)).json, entry);

    await publishText(
      server.url,
      '{"id":"u1","entries":[{"url":"","topics":["policy_data"],"dst_path":"/x","data":1}]}',
    );
    await until(() => receiver.updates('/cb').length === 1, { withinMs: 20_000, what: 'it hears of the update' });
    const [call] = receiver.at('/cb');
    assert.deepEqual([call?.method, call?.headers['x-key']], ['PUT', 's3cret']);

    const gone = await remove(`${callbacks}/${key}`);
    assert.deepEqual([gone.status, gone.text], [204, '']);
    for (const answer of [await remove(`${callbacks}/${key}`), await request(`${callbacks}/${key}`)]) {
      assert.equal(answer.status, 404);
      assert.deepEqual(answer.json, { detail: 'no callback found with this key' });
    }
    assert.deepEqual((await request(callbacks)).json, []);
  });

  it('a registration that cannot be called is a 422 that names the field and shows no secret', async () => {
    const url = 'http://receiver.example/cb';
    const bad: readonly (readonly [body: unknown, field: string | undefined])[] = [
      [{}, 'url'],
      [{ url: 7 }, 'url'],
      [{ url: 'ftp://x' }, 'url'],
      [{ url: 'javascript:alert(1)' }, 'url'],
      [{ url: `http://x/${'y'.repeat(3000)}` }, 'url'],
      [{ url, key: '' }, 'key'],
      [{ url, key: 'a/b' }, 'key'],
      [{ url, key: 7 }, 'key'],
      [{ url, config: [] }, 'config'],
      [{ url, config: { method: 'brew' } }, 'config'],
      [{ url, config: { fetcher: 'PostgresFetchProvider' } }, 'config'],
      [{ url, config: { headers: { 'x-key': 7 } } }, 'config'],
      [{ url, config: { headers: { 'x-key': 's3cret\r\nx-other: 1' } } }, 'config'],
      ['{"url":', undefined],
      ['[]', undefined],
    ];
    for (const [body, name] of bad) {
      const answer = await postJson(`${client.url}/callbacks`, body);
      assert.equal(answer.status, 422, JSON.stringify(body));
      if (name !== undefined) assert.equal(field(answer.json, 'detail', 0, 'loc', 1), name, answer.text);
      assert(!answer.text.includes('s3cret'));
    }
    assert.deepEqual((await request(`${client.url}/callbacks`)).json, []);
  });

  it('there is room for a hundred callbacks; the next one is refused', async () => {
    const register = (at: number) => postJson(`${client.url}/callbacks`, { url: `http://127.0.0.1:1/${at}` });
    for (let at = 0; at < 100; at++) assert.equal((await register(at)).status, 200);
    const refused = await register(100);
    assert.deepEqual([refused.status, refused.headers.get('x-sync-error')], [409, 'callback_limit']);
  });
});

describe('a client with settings of its own', () => {
  it('the default callback is registered under the key that OPAL gives it, and another key takes its place', async () => {
    await using server = await startServer();
    const url = 'http://localhost:7002/data/callback_report';
    const env = { ...REPORTING, SYNC_DEFAULT_UPDATE_CALLBACKS: JSON.stringify({ callbacks: [url] }) };
    await using client = await startClient({ serverUrl: server.url, env });
    const callbacks = `${client.url}/callbacks`;
    const key = 'b62a7242e3386cf4ef615f33be0734f6b3ba34a6cd71156c65a633b6cda8c355';
    const config = {
      fetcher: null,
      headers: { 'content-type': '***' },
      is_json: true,
      process_data: false,
      method: 'post',
      data: null,
    };
    assert.deepEqual((await request(callbacks)).json, [{ key, url, config }]);
    assert.equal((await postJson(callbacks, { url, key: 'mine' })).status, 200);
    assert.deepEqual((await request(callbacks)).json, [{ key: 'mine', url, config }]);
  });

  it('without setting, the callback is the report route of the sync server', async () => {
    await using server = await startServer();
    await using client = await startClient({ serverUrl: server.url, env: REPORTING });
    const { json } = await request(`${client.url}/callbacks`);
    assert.equal(field(json, 0, 'url'), `${server.url}/data/callback_report`);
  });

  it('with authentication on, only a listener may see or change the callbacks', async () => {
    const keys = keyPair();
    await using server = await startServer(withKeys(keys));
    const tokens = {
      client: await tokenOf(server.url),
      listener: await tokenOf(server.url, { type: 'listener' }),
      datasource: await tokenOf(server.url, { type: 'datasource' }),
    };
    const env = { ...NO_DEFAULTS, SYNC_CLIENT_TOKEN: tokens.client, SYNC_AUTH_PUBLIC_KEY: keys.publicKey };
    await using client = await startClient({ serverUrl: server.url, env });
    const callbacks = `${client.url}/callbacks`;
    const body = { url: 'http://127.0.0.1:1/cb', key: 'k' };
    for (const headers of [{}, bearer(tokens.client), bearer(tokens.datasource)]) {
      assert.equal((await request(callbacks, { headers })).status, 401);
      assert.equal((await request(`${callbacks}/k`, { headers })).status, 401);
      assert.equal((await postJson(callbacks, body, headers)).status, 401);
      assert.equal((await request(`${callbacks}/k`, { method: 'DELETE', headers })).status, 401);
    }
    const headers = bearer(tokens.listener);
    assert.deepEqual((await request(callbacks, { headers })).json, []);
    assert.equal((await postJson(callbacks, body, headers)).status, 200);
    assert.equal((await request(`${callbacks}/k`, { headers })).status, 200);
    assert.equal((await request(`${callbacks}/k`, { method: 'DELETE', headers })).status, 204);
  });
});
