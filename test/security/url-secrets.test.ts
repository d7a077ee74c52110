import assert from 'node:assert/strict';
import { test } from 'node:test';
import { startCallbackReceiver } from '../support/callback-receiver.js';
import { field } from '../support/http.js';
import { freePort } from '../support/opa.js';
import { type StartedClient, startClient } from '../support/start-client.js';

/** User, password and query of SYNC_SERVER_URL are secrets: they show nowhere. */

const SECRETS = ['us3r-name', 'p4ssw0rd', 'qu3ry-key', 'dXMzci1uYW1l'];

/** SYNC_SERVER_URL with all kinds of secrets. */
function withSecrets(place: string): string {
  return `http://us3r-name:p4ssw0rd@${place}/base?key=qu3ry-key`;
}

async function showsNoSecret(client: StartedClient): Promise<void> {
  const { text } = await client.health();
  for (const secret of SECRETS) {
    assert(!text.includes(secret), `/healthy: ${text}`);
    const line = client.log.find((each) => JSON.stringify(each).includes(secret));
    assert.equal(line, undefined, JSON.stringify(line));
  }
}

test('nothing of a server that is not there is shown but its place', async () => {
  const serverUrl = withSecrets(`127.0.0.1:${await freePort()}`);
  await using client = await startClient({ serverUrl });
  await client.tells('the server is away', (health) => field(health, 'server', 'error') !== null);
  await client.tells('tries are told', () => client.log.filter(({ level }) => Number(level) >= 40).length > 3);
  await showsNoSecret(client);
});

test('nothing of a server that refuses, or repeats what it was asked, is shown but its place', async () => {
  await using server = await startCallbackReceiver();
  for (const path of ['/base/policy', '/base/data/config', '/base/ws', '/base']) server.answer(path, 500);
  const serverUrl = withSecrets(server.url.replace('http://', ''));
  const env = { SYNC_WAIT_ON_SERVER_LOAD: 'true', SYNC_SHOULD_REPORT_ON_DATA_UPDATES: 'true' };
  await using client = await startClient({ serverUrl, env });
  await client.tells('it is asked', () => server.calls.length > 2);
  await showsNoSecret(client);
});

test('what is not a server URL is refused without showing it', async () => {
  for (const serverUrl of [
    'http://us3r-name:p4ssw0rd@host:99999/?qu3ry-key',
    'ftp://us3r-name:p4ssw0rd@h/?qu3ry-key',
  ]) {
    await assert.rejects(startClient({ serverUrl }), (error: Error) => {
      for (const secret of SECRETS) assert(!error.message.includes(secret), error.message);
      return true;
    });
  }
});
