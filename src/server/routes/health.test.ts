import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ANONYMOUS } from '../../auth/caller.js';
import { createHttpApp } from '../../http/app.js';
import { SyncError } from '../../lib/errors.js';
import { silentLogger } from '../../lib/observe/log.js';
import { StateFiles } from '../clients/state-files.js';
import type { MemoryFit } from '../log/log-memory.js';
import type { WriteStatus } from '../log/log-store.js';
import { serverHealthRoutes } from './health.js';
import { readyRoutes } from './ready.js';

/** What `/healthcheck` and `/ready` say. */
async function said(
  writes: WriteStatus,
  stateFiles: StateFiles,
  { enabled = false, fit = 'fits' as MemoryFit } = {},
): Promise<unknown[]> {
  const authenticate = async () => {
    if (enabled) throw new SyncError('unauthorized', 'no token');
    return ANONYMOUS;
  };
  const authenticator = { enabled, authenticate };
  const app = createHttpApp({ bodyLimitBytes: 1000, authenticator }, { log: silentLogger() });
  const status = { up: true } as const;
  const memory = { entries: 100_000, bytes: 110_000_000, limitBytes: 120_000_000, fit };
  const durability = { level: 'durable' } as const;
  const extent = async () => ({ beginsAt: 1, bytes: undefined });
  const state = { durability, configDiffers: false, status, writes, memory };
  const log = { epoch: 'e', head: 7, heads: () => ({}), extent, ...state };
  serverHealthRoutes(app, { policySource: undefined, log, isShared: false, stateFiles, cutOff: () => undefined });
  readyRoutes(app, { policySource: undefined, log, drain: { isBegun: false } });
  const answers = await Promise.all(['/healthcheck', '/ready'].map((url) => app.inject({ method: 'GET', url })));
  return answers.map((answer) => [answer.statusCode, answer.json<unknown>()]);
}

const POLICY = { state: 'none' };
const LOG = { epoch: 'e', head: 7, durability: 'durable' };

test('a log that refuses updates makes a server degraded, and it stays ready for all else', async () => {
  const refuses = { since: '2026-11-21T10:00:00.000Z', reason: 'disk full' };
  const writes = { ok: false, reason: 'disk full', sinceMs: Date.parse(refuses.since), fromBytes: undefined } as const;
  assert.deepEqual(await said(writes, new StateFiles()), [
    [200, { status: 'degraded', policy: POLICY, update_log: { ...LOG, refuses } }],
    [200, { status: 'ok', limited: 'updates are refused: disk full' }],
  ]);
  assert.deepEqual(await said({ ...writes, fromBytes: 100_034 }, new StateFiles()), [
    [200, { status: 'degraded', policy: POLICY, update_log: { ...LOG, refuses: { ...refuses, from_bytes: 100_034 } } }],
    [200, { status: 'ok', limited: 'updates of 100,034 bytes and more are refused: disk full' }],
  ]);
  assert.deepEqual(await said({ ok: true }, new StateFiles()), [
    [200, { status: 'ok', policy: POLICY, update_log: LOG }],
    [200, { status: 'ok' }],
  ]);
});

test('a file beside the log that cannot be written makes it degraded from the first failure to the next success', async () => {
  const files = new StateFiles();
  const error = Object.assign(new Error('ENOSPC: no space left on device, open /secret'), { code: 'ENOSPC' });
  assert.equal(files.failed('clients.jsonl', error), true);
  const [first] = files.failing;
  assert.equal(files.failed('clients.jsonl', error), false, 'told once');
  assert.deepEqual(files.failing, [first]);
  const [health, ready] = await said({ ok: true }, files);
  const since = new Date(first?.sinceMs ?? 0).toISOString();
  const state_files = [{ file: 'clients.jsonl', since, reason: 'ENOSPC' }];
  assert.deepEqual(health, [200, { status: 'degraded', policy: POLICY, update_log: LOG, state_files }]);
  assert.deepEqual(ready, [200, { status: 'ok' }]);
  files.wrote('clients.jsonl');
  assert.deepEqual((await said({ ok: true }, files))[0], [200, { status: 'ok', policy: POLICY, update_log: LOG }]);
});

test('live entries that hardly fit the memory make it degraded, with figures for those who have a token', async () => {
  const figures = { entries: 100_000, bytes: 110_000_000, limit_bytes: 120_000_000 };
  for (const fit of ['tight', 'exceeds'] as const) {
    const memory = { fit, ...figures };
    assert.deepEqual(await said({ ok: true }, new StateFiles(), { fit }), [
      [200, { status: 'degraded', policy: POLICY, update_log: { ...LOG, memory } }],
      [200, { status: 'ok' }],
    ]);
    const [health] = await said({ ok: true }, new StateFiles(), { fit, enabled: true });
    assert.deepEqual(health, [200, { status: 'degraded', policy: POLICY, update_log: { ...LOG, memory: { fit } } }]);
  }
});

test('with keys, who has no token is told that something fails, and since when: not which file or disk, nor why', async () => {
  const since = '2026-11-21T10:00:00.000Z';
  const files = new StateFiles();
  files.failed('clients.jsonl', Object.assign(new Error('ENOSPC'), { code: 'ENOSPC' }));
  const writes = { ok: false, reason: 'disk full', sinceMs: Date.parse(since), fromBytes: undefined } as const;
  const [failing] = files.failing;
  const state_files = [{ since: new Date(failing?.sinceMs ?? 0).toISOString() }];
  assert.deepEqual(await said(writes, files, { enabled: true }), [
    [200, { status: 'degraded', policy: POLICY, update_log: { ...LOG, refuses: { since } }, state_files }],
    [200, { status: 'ok' }],
  ]);
});
