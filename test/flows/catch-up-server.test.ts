import assert from 'node:assert/strict';
import { rm } from 'node:fs/promises';
import { test } from 'node:test';
import { type StartedCommand, startCommand } from '../support/command.js';
import { cutCable } from '../support/cut-cable.js';
import { startDataSource } from '../support/data-source.js';
import { field, postJson, request } from '../support/http.js';
import { startOpa } from '../support/opa.js';
import { type StartedClient, startClient } from '../support/start-client.js';
import { tempDir } from '../support/temp-dir.js';

/** Catching up with real server processes that are killed, come back, or come back with nothing. */

const LISTENS = /"url":"(http:[^"]+)".*listening/;
const DATA_ONLY = { SYNC_POLICY_UPDATER_ENABLED: 'false' };

async function serverProcess(
  stateDir: string,
  env: Record<string, string> = {},
): Promise<{ command: StartedCommand; url: string }> {
  const command = startCommand('server', ['run', '--server-bind-port', '0', '--state-dir', stateDir], env);
  const [, url = ''] = await command.says(LISTENS);
  return { command, url };
}

async function publish(url: string, ...entries: readonly object[]): Promise<{ seq: number; epoch: string }> {
  const all = entries.map((entry) => ({ url: '', topics: ['policy_data'], ...entry }));
  const answer = await postJson(`${url}/data/config`, JSON.stringify({ entries: all, reason: 'test' }));
  assert.equal(answer.status, 200, answer.text);
  return { seq: Number(field(answer.json, 'seq')), epoch: String(field(answer.json, 'epoch')) };
}

function orphaned(health: unknown): string[] {
  const found = field(health, 'data', 'orphaned');
  return Array.isArray(found) ? found.map(String).sort() : [];
}

async function cutOff(client: StartedClient): Promise<void> {
  await client.tells('it is cut off', (health) => field(health, 'server', 'connected') === false);
}

test('a publisher reads its own writes at the client that it names', async () => {
  await using folder = await tempDir();
  const { command, url } = await serverProcess(folder.path);
  await using _ = command;
  await using client = await startClient({ serverUrl: url, env: DATA_ONLY });
  await client.healthy();
  for (let n = 1; n <= 20; n++) {
    const { seq, epoch } = await publish(url, { dst_path: '/n', data: n }, { dst_path: `/k${n}`, data: n });
    const answer = await request(`${client.url}/position?at-least=${seq}&epoch=${epoch}`);
    assert.equal(answer.status, 200, answer.text);
    assert.deepEqual([await client.data('/n'), await client.data(`/k${n}`)], [n, n]);
  }
});

test('a server that is killed and comes back has every client where the publishers left it', async () => {
  await using folder = await tempDir();
  await using source = await startDataSource();
  const first = await serverProcess(folder.path);
  await using firstCommand = first.command;
  await using cable = await cutCable(first.url);
  await using client = await startClient({ serverUrl: cable.url, env: DATA_ONLY });
  await client.healthy();
  await publish(first.url, { dst_path: '/a', data: { n: 1 } }, { dst_path: '/gone', data: 1 });
  await client.holds('/gone', 1);

  cable.cut();
  await cutOff(client);
  for (let n = 2; n <= 10; n++) await publish(first.url, { dst_path: '/a', data: { n } });
  await publish(first.url, { dst_path: '/gone', save_method: 'DELETE' });
  await publish(first.url, { url: `${source.url}/late`, dst_path: '/late' });
  firstCommand.process.kill('SIGKILL');
  await firstCommand.result;

  const second = await serverProcess(folder.path);
  await using _ = second.command;
  cable.connectTo(second.url);
  cable.mend();
  await client.holds('/a', { n: 10 });
  await client.holds('/gone', undefined);
  source.serve('/late', 'in the end');
  await client.holds('/late', 'in the end');
  const { seq } = await publish(second.url, { dst_path: '/after', data: 1 });
  assert.equal((await request(`${client.url}/position?at-least=${seq}`)).status, 200);
  await client.healthy();
  assert.deepEqual(orphaned((await client.health()).json), []);
});

test('a server that comes back with an empty disk empties no engine', async () => {
  await using folder = await tempDir();
  await using opa = await startOpa();
  const first = await serverProcess(folder.path);
  await using firstCommand = first.command;
  await using cable = await cutCable(first.url);
  await using client = await startClient({ serverUrl: cable.url, engineUrl: opa.url, env: DATA_ONLY });
  await client.healthy();
  await publish(first.url, { dst_path: '/users/ann', data: { role: 'x' } }, { dst_path: '/plain', data: 1 });
  await client.holds('/plain', 1);
  const old = await publish(first.url, { dst_path: '/third', data: 3 });
  await client.holds('/third', 3);
  cable.cut();
  firstCommand.process.kill('SIGKILL');
  await firstCommand.result;
  await rm(folder.path, { recursive: true, force: true });

  const second = await serverProcess(folder.path);
  await using _ = second.command;
  cable.connectTo(second.url);
  cable.mend();
  await client.tells('it is connected', (health) => field(health, 'server', 'connected') === true);
  const { epoch } = await publish(second.url, { dst_path: '/plain', data: 2 });
  await client.holds('/plain', 2);
  const health = await client.tells('it names what no log has', (json) => orphaned(json).length === 2);
  assert.deepEqual(orphaned(health.json), ['/third', '/users/ann']);
  assert.deepEqual([await client.data('/users/ann'), await client.data('/third')], [{ role: 'x' }, 3]);
  await client.healthy();
  assert.notEqual(epoch, old.epoch);
  const stale = await request(`${client.url}/position?at-least=${old.seq}&epoch=${old.epoch}`);
  assert.equal(stale.status, 409);

  const pruned = await request(`${client.url}/orphans/prune`, { method: 'POST' });
  assert.equal(pruned.status, 200);
  await client.holds('/third', undefined);
  await client.holds('/users/ann', undefined);
  assert.equal(await client.data('/plain'), 2);
});
