import assert from 'node:assert/strict';
import { test } from 'node:test';
import { field } from '../support/http.js';
import { publish, startClient } from '../support/start-client.js';
import { startServer } from '../support/start-server.js';
import { tempDir } from '../support/temp-dir.js';
import { until } from '../support/until.js';

/** A connection that held for this long had lasted. */
const LASTING_MS = 5500;
/** Of which two at most are a wait; the rest is for a busy machine. */
const BACK_WITHIN_MS = 3000;

test('after a restart of the server a client is back within three seconds, however often it has failed meanwhile', async () => {
  await using folder = await tempDir();
  const env = { SYNC_POLICY_UPDATER_ENABLED: 'false' };
  await using first = await startServer({}, { stateDir: folder.path });
  await using client = await startClient({ serverUrl: first.url, env });
  await client.healthy();
  const connectedMs = performance.now();
  await publish(first.url, { dst_path: '/n', data: 1 });
  await client.holds('/n', 1);
  await until(() => performance.now() - connectedMs > LASTING_MS, {
    withinMs: 20_000,
    what: 'the connection has lasted',
  });

  await first.stop();
  // With waits that double it would be eight seconds by now.
  const attempts = () => client.log.filter(({ msg }) => msg === 'not connected');
  await until(() => attempts().length >= 6, { withinMs: 60_000, what: 'attempts that fail' });
  for (const line of attempts()) {
    assert(Number(field(line, 'retry_in_ms')) <= 2000, `waits ${field(line, 'retry_in_ms')} ms`);
  }
  await using second = await startServer({ SYNC_SERVER_BIND_PORT: String(first.port) }, { stateDir: folder.path });
  const upMs = Date.now();
  await publish(second.url, { dst_path: '/n', data: 2 });
  await client.holds('/n', 2);
  const backMs = Number(client.log.findLast(({ msg }) => msg === 'subscribed')?.time);
  assert(backMs - upMs < BACK_WITHIN_MS, `back after ${backMs - upMs} ms`);
});
