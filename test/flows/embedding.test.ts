import assert from 'node:assert/strict';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import {
  CLIENT_SETTINGS,
  createClient,
  createServer,
  loadSettings,
  SERVER_SETTINGS,
  silentLogger,
} from '../support/library.js';
import { tempDir } from '../support/temp-dir.js';

const log = silentLogger();
/** Stopped before they do anything, so what they would do is all the same. */
const CLOSED = 'http://127.0.0.1:9';

function makeClient() {
  const { values } = loadSettings(CLIENT_SETTINGS, {
    env: {
      SYNC_CLIENT_API_SERVER_PORT: '0',
      SYNC_SERVER_URL: CLOSED,
      SYNC_POLICY_STORE_URL: CLOSED,
      SYNC_INLINE_ENGINE_ENABLED: 'false',
    },
  });
  return createClient(values, { log, env: {} });
}

/** The same in the short form: what differs from the defaults, and no logger. */
function makeShortClient() {
  return createClient({ port: 0, serverUrl: CLOSED, engineUrl: CLOSED, engine: 'external' });
}

function makeServer(stateDir: string) {
  const { values } = loadSettings(SERVER_SETTINGS, { env: { SYNC_SERVER_BIND_PORT: '0' } });
  return createServer({ ...values, stateDir }, { log, env: {} });
}

describe('a server or client inside a program', () => {
  for (const what of ['server', 'client'] as const) {
    it(`${what}: a stop before the start ends it for good: the start that follows starts nothing`, async () => {
      await using dir = await tempDir();
      const part = what === 'server' ? makeServer(join(dir.path, 'state')) : makeClient();
      const before = process.getActiveResourcesInfo();
      await part.stop();
      await assert.rejects(part.start(), { code: 'already_stopped', message: `this ${what} was stopped` });
      await part.stop();
      assert.deepEqual(process.getActiveResourcesInfo(), before);
    });

    it(`${what}: a stop amid the start leaves nothing that runs`, async () => {
      await using dir = await tempDir();
      const part = what === 'server' ? makeServer(join(dir.path, 'state')) : makeClient();
      const starting = part.start().then(
        ({ url }) => url,
        () => undefined,
      );
      await part.stop();
      const url = await starting;
      if (url !== undefined) await assert.rejects(fetch(url), TypeError);
    });
  }

  it('a client is made of the settings that differ from the defaults', async () => {
    const client = makeShortClient();
    const { url } = await client.start();
    assert.equal((await fetch(`${url}/ready`)).status, 503);
    await assert.rejects(client.decide('a/b', 1, { waitMs: 0 }), { code: 'decision_not_ready' });
    assert.equal((await client.decide('a/b', 1, { waitMs: 0, onUnavailable: 'deny' })).kind, 'unavailable');
    await client.stop();
  });

  it('a setting that is not there, or is not valid, is refused when the client is made', () => {
    const given = { serverURL: CLOSED, port: 70_000 } as object;
    assert.throws(() => createClient(given), {
      code: 'config_invalid',
      message: /no setting serverURL: did you mean serverUrl\?\s+port must be a whole number between 0 and 65535/,
    });
  });
});
