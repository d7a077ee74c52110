import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Worker } from 'node:worker_threads';
import { field, postJson, request } from '../support/http.js';
import { createServer, loadSettings, SERVER_SETTINGS, silentLogger } from '../support/library.js';
import { tempDir } from '../support/temp-dir.js';

test('a server whose update log has died says so to whoever started it and to /healthcheck, and can be stopped', async () => {
  await using dir = await tempDir();
  const workers: Worker[] = [];
  const noteWorker = (worker: Worker): void => void workers.push(worker);
  process.on('worker', noteWorker);
  const { values } = loadSettings(SERVER_SETTINGS, { env: { SYNC_SERVER_BIND_PORT: '0' } });
  const server = createServer({ ...values, stateDir: dir.path }, { log: silentLogger(), env: process.env });
  try {
    const { url } = await server.start();
    assert.deepEqual([workers.length, (await request(`${url}/healthcheck`)).status], [1, 200]);

    const ended = assert.rejects(server.ended(), { code: 'log_unwritable', message: /update-log\.db failed/ });
    await workers[0]?.terminate();
    await ended;
    const health = await request(`${url}/healthcheck`);
    assert.deepEqual([health.status, field(health.json, 'status')], [503, 'error']);
    assert.match(String(field(health.json, 'update_log', 'error')), /the update log has failed/);
    assert.ok(!JSON.stringify(health.json).includes(dir.path), 'an answer that is open to everyone names no path');
    const update = { entries: [{ url: 'http://data.example/', topics: ['t'], dst_path: '/a' }] };
    assert.equal((await postJson(`${url}/data/config`, update)).status, 507);
  } finally {
    process.off('worker', noteWorker);
    await server.stop();
  }
});
