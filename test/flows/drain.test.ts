import assert from 'node:assert/strict';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { type StartedCommand, startCommand } from '../support/command.js';
import { gitRepo } from '../support/git-repo.js';
import { field, request } from '../support/http.js';
import { freePort } from '../support/opa.js';
import { tempDir } from '../support/temp-dir.js';
import { until } from '../support/until.js';

const LISTENS = /"url":"(http:[^"]+)".*listening/;
const WITHIN_MS = 20_000;
/** Longer than any test: who waits for it to pass fails. */
const LONG = { SYNC_DRAIN_DELAY: '3600' };

async function ready(url: string): Promise<unknown[]> {
  const { status, json, headers } = await request(`${url}/ready`);
  return [status, field(json, 'status'), field(json, 'reason') ?? field(json, 'draining'), headers.get('connection')];
}

async function urlOf(program: StartedCommand): Promise<string> {
  return (await program.says(LISTENS))[1] ?? '';
}

/** Waits until the program says that it drains, and answers what /ready says then. */
async function draining(program: StartedCommand, url: string): Promise<unknown[]> {
  program.process.kill('SIGTERM');
  await program.says(/draining: GET \/ready is 503/);
  return await ready(url);
}

describe('how the programs become ready, and end', () => {
  it('a server is ready once it serves a commit; SIGINT ends it at once, whatever the delay', async () => {
    await using repo = await gitRepo();
    await using dir = await tempDir();
    await using server = startCommand('server', ['run'], {
      ...LONG,
      ...{ SYNC_SERVER_BIND_PORT: '0', SYNC_STATE_DIR: join(dir.path, 'state') },
      ...{ SYNC_POLICY_REPO_URL: repo.url, SYNC_POLICY_REPO_POLLING_INTERVAL: '0.4' },
    });
    const url = await urlOf(server);
    assert.deepEqual(await ready(url), [503, 'unavailable', 'policy_not_read', 'keep-alive']);
    await repo.commit({ 'a.rego': 'package a\n' });
    const isReady = async (): Promise<boolean> => (await ready(url))[0] === 200;
    await until(isReady, { withinMs: WITHIN_MS, what: 'the server is ready' });
    server.process.kill('SIGINT');
    assert.equal((await server.result).code, 0, server.stderr());
  });

  it('a server that drains is not ready, works as before, and ends its connections; a second signal ends it at once', async () => {
    await using dir = await tempDir();
    const state = { SYNC_SERVER_BIND_PORT: '0', SYNC_STATE_DIR: join(dir.path, 'state') };
    await using server = startCommand('server', ['run'], { ...LONG, ...state });
    const url = await urlOf(server);
    assert.deepEqual(
      await ready(url),
      [200, 'ok', undefined, 'keep-alive'],
      'without a policy source there is nothing to wait for',
    );
    assert.deepEqual(await draining(server, url), [503, 'unavailable', 'draining', 'close']);
    const health = await request(`${url}/healthcheck`);
    assert.deepEqual([health.status, field(health.json, 'status')], [200, 'ok']);
    server.process.kill('SIGTERM');
    assert.equal((await server.result).code, 1, server.stderr());
  });

  it('a client that drains is not ready, and ends with 0 after the delay', async () => {
    await using client = startCommand('client', ['run'], {
      ...{ SYNC_SERVER_URL: 'http://127.0.0.1:1', SYNC_CLIENT_API_SERVER_PORT: '0', SYNC_ENGINE: 'external' },
      ...{ SYNC_POLICY_STORE_URL: `http://127.0.0.1:${await freePort()}`, SYNC_DRAIN_DELAY: '1' },
    });
    const url = await urlOf(client);
    assert.deepEqual(await draining(client, url), [503, 'unavailable', true, 'close']);
    assert.equal((await client.result).code, 0, client.stderr());
  });
});
