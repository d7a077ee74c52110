import assert from 'node:assert/strict';
import { chmod, mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { field, request } from '../support/http.js';
import { CLIENT_SETTINGS, createClient, loadSettings, SyncError, silentLogger } from '../support/library.js';
import { freePort, testOpa } from '../support/opa.js';
import { FAST } from '../support/start-client.js';
import { startServer } from '../support/start-server.js';
import { tempDir } from '../support/temp-dir.js';
import { until } from '../support/until.js';

const posix = { skip: process.platform === 'win32' ? 'needs a POSIX shell' : false };

/** A client on a machine without OPA: nothing can be downloaded, and `go` is this script. */
async function clientWithGo(dir: string, serverUrl: string, goScript: string) {
  const bin = join(dir, 'bin');
  await mkdir(bin);
  await writeFile(join(bin, 'go'), goScript);
  await chmod(join(bin, 'go'), 0o755);
  const env = {
    PATH: bin,
    HOME: dir,
    XDG_CACHE_HOME: join(dir, 'cache'),
    HTTPS_PROXY: 'http://127.0.0.1:1',
    TMPDIR: dir,
  };
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

test('while OPA is built the client API answers, and /healthy has the progress', posix, async () => {
  await using server = await startServer();
  await using dir = await tempDir();
  const go = join(dir.path, 'go-on');
  const built = `#!/bin/sh\\nexec "${await testOpa()}" "$@"\\n`;
  const client = await clientWithGo(
    dir.path,
    server.url,
    `#!/bin/sh
echo compiling the parser
while [ ! -e "${go}" ]; do /bin/sleep 0.05; done
printf '${built}' > "$GOBIN/opa"
/bin/chmod 755 "$GOBIN/opa"
`,
  );
  try {
    const { url } = await client.start();
    let seen: unknown;
    await until(
      async () => {
        const answer = await request(`${url}/healthy`);
        seen = field(answer.json, 'engine');
        assert.equal(answer.status, 503);
        return /building with Go, \d+ s \(compiling the parser\)/.test(String(field(seen, 'getting')));
      },
      { withinMs: 20_000, what: 'the build shows' },
    );
    assert.match(String(field(seen, 'error')), /^the engine is not there yet: opa: building with Go/);
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
  'a stop while OPA is built is a stop, and a build that fails ends the client with every way that was tried',
  posix,
  async () => {
    await using server = await startServer();
    {
      await using dir = await tempDir();
      const client = await clientWithGo(dir.path, server.url, '#!/bin/sh\nexec /bin/sleep 60\n');
      await client.start();
      await client.stop();
      await client.ended();
    }
    await using dir = await tempDir();
    const client = await clientWithGo(dir.path, server.url, '#!/bin/sh\necho no compiler here\nexit 1\n');
    try {
      await client.start();
      await assert.rejects(client.ended(), (error) => {
        assert(error instanceof SyncError && error.code === 'engine_not_found', String(error));
        assert.match(error.message, /opa on PATH[\s\S]*download of OPA[\s\S]*no compiler here/);
        return true;
      });
    } finally {
      await client.stop();
    }
  },
);
