import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createEngineFront } from '../../src/client/engine/embedded/engine-front.js';
import type { SyncError } from '../../src/lib/errors.js';
import { silentLogger } from '../../src/lib/observe/log.js';
import { clientSettings } from '../support/engine.js';
import { exchange, requestBytes } from '../support/hostile-wire.js';
import { request } from '../support/http.js';
import { freePort } from '../support/opa.js';

const DEPS = {
  source: {
    decide: async () => ({ text: 'true', by: 'go' as const, policy: undefined }),
    http: async () => ({ status: 200, headers: {}, body: new Uint8Array() }),
  },
  isReady: () => true,
  log: silentLogger(),
};
const { signal } = new AbortController();

test('it listens where an inline engine would, and answers pages of the same origins', async () => {
  const port = await freePort();
  const front = createEngineFront(
    clientSettings({
      SYNC_POLICY_STORE_URL: `http://localhost:${port}`,
      SYNC_INLINE_ENGINE_ALLOWED_ORIGINS: 'https://app.example',
      SYNC_ALLOWED_HOSTS: 'opa.example',
    }),
    DEPS,
  );
  assert.deepEqual(front.place, { host: 'localhost', port });
  await front.listen(signal);
  const url = `http://127.0.0.1:${port}/v1/data/app`;
  assert.equal((await request(url)).text, '{"result":true}\n');
  for (const origin of [`http://localhost:${port}`, `http://127.0.0.1:${port}`, 'https://app.example'])
    assert.equal((await request(url, { headers: { origin } })).status, 200, origin);
  assert.equal((await request(url, { headers: { origin: 'https://evil.example' } })).status, 401);
  const named = async (host: string): Promise<number> =>
    (await exchange(port, requestBytes({ method: 'GET', target: '/health', headers: [['Host', host]] }))).status;
  assert.deepEqual([await named('opa.example'), await named('evil.example')], [200, 421]);
  await front.close();
});

test('addr of SYNC_INLINE_ENGINE_CONFIG moves it; on a network address every name is accepted', async () => {
  const port = await freePort();
  const settings = clientSettings({ SYNC_INLINE_ENGINE_CONFIG: JSON.stringify({ addr: `:${port}` }) });
  const front = createEngineFront(settings, DEPS);
  assert.deepEqual(front.place, { host: '0.0.0.0', port });
  await front.listen(signal);
  const asked = requestBytes({ method: 'GET', target: '/health', headers: [['Host', 'opa.example']] });
  assert.equal((await exchange(port, asked)).status, 200);
  await front.close();
});

test('an address that another program has is named, with what to do', async () => {
  const settings = clientSettings({ SYNC_POLICY_STORE_URL: `http://127.0.0.1:${await freePort()}` });
  const one = createEngineFront(settings, DEPS);
  await one.listen(signal);
  await assert.rejects(createEngineFront(settings, DEPS).listen(signal), (error: SyncError) => {
    assert.equal(error.code, 'engine_address_in_use');
    assert.match(error.message, /another program does\. End it, or give the engine another address/);
    return true;
  });
  await one.close();
  const socket = clientSettings({ SYNC_INLINE_ENGINE_CONFIG: '{"addr":"unix:///run/opa.sock"}' });
  assert.throws(
    () => createEngineFront(socket, DEPS),
    /unix:\/\/\/run\/opa\.sock: an embedded engine listens at a host/,
  );
});
