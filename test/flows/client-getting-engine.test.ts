import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { cachedOpa } from '../support/cached-opa.js';
import { field, request } from '../support/http.js';
import { CLIENT_SETTINGS, createClient, loadSettings, SyncError, silentLogger } from '../support/library.js';
import { freePort, testOpa } from '../support/opa.js';
import { FAST } from '../support/start-client.js';
import { startServer } from '../support/start-server.js';
import { tempDir } from '../support/temp-dir.js';
import { until } from '../support/until.js';

const posix = { skip: process.platform === 'win32' ? 'needs a POSIX shell' : false };

/** A client that has to have an OPA, on a machine whose one OPA is this script in the cache folder. */
async function clientWithCachedOpa(dir: string, serverUrl: string, script: string) {
  const { env } = await cachedOpa(dir, script);
  const engineUrl = `http://127.0.0.1:${await freePort()}`;
  const { values } = loadSettings(CLIENT_SETTINGS, {
    env: {
      ...FAST,
      SYNC_SERVER_URL: serverUrl,
      SYNC_POLICY_STORE_URL: engineUrl,
      SYNC_CLIENT_API_SERVER_PORT: '0',
      SYNC_POLICY_UPDATER_ENABLED: 'false',
      SYNC_ENGINE: 'inline',
    },
  });
  return createClient(values, { log: silentLogger(), env });
}

test('while OPA is looked for the client API answers, and /healthy has the progress', posix, async () => {
  await using server = await startServer();
  await using dir = await tempDir();
  const go = join(dir.path, 'go-on');
  const client = await clientWithCachedOpa(
    dir.path,
    server.url,
    `while [ ! -e "${go}" ]; do /bin/sleep 0.05; done
exec "${await testOpa()}" "$@"`,
  );
  try {
    const { url } = await client.start();
    let seen: unknown;
    await until(
      async () => {
        const answer = await request(`${url}/healthy`);
        seen = field(answer.json, 'engine');
        assert.equal(answer.status, 503);
        return /there is no "opa" on PATH; next: the cache folder/.test(String(field(seen, 'getting')));
      },
      { withinMs: 20_000, what: 'the search shows' },
    );
    assert.match(String(field(seen, 'error')), /^the engine is not there yet: opa: there is no "opa" on PATH/);
    assert.equal(field(seen, 'online'), false);

    await writeFile(go, '');
    await until(async () => (await request(`${url}/healthy`)).status === 200, { withinMs: 20_000, what: 'healthy' });
    const engine = field((await request(`${url}/healthy`)).json, 'engine');
    assert.deepEqual([field(engine, 'getting'), field(engine, 'error')], [null, null]);
    assert.match(String(field(engine, 'version')), /^\d+\.\d+\.\d+/);
  } finally {
    await client.stop();
  }
});

test(
  'a stop while OPA is looked for is a stop, and a search that fails ends the client with every way that was tried',
  posix,
  async () => {
    await using server = await startServer();
    {
      await using dir = await tempDir();
      const client = await clientWithCachedOpa(dir.path, server.url, 'exec /bin/sleep 60');
      await client.start();
      await client.stop();
      await client.ended();
    }
    await using dir = await tempDir();
    const client = await clientWithCachedOpa(dir.path, server.url, 'echo wrong machine >&2\nexit 1');
    try {
      await client.start();
      await assert.rejects(client.ended(), (error) => {
        assert(error instanceof SyncError && error.code === 'engine_not_found', String(error));
        assert.match(error.message, /opa on PATH[\s\S]*wrong machine[\s\S]*download of OPA/);
        return true;
      });
    } finally {
      await client.stop();
    }
  },
);
