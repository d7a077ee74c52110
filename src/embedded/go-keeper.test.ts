import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FakeGo } from '../../test/support/fake-go.js';
import { until } from '../../test/support/until.js';
import { SyncError } from '../lib/errors.js';
import { silentLogger } from '../lib/observe/log.js';
import { GoKeeper } from './go-keeper.js';
import type { GoEngine } from './types.js';

test('a process that is dropped before it has started is not started again', async () => {
  const starts: { resolve(go: GoEngine): void; reject(error: Error): void }[] = [];
  const keeper = new GoKeeper(
    { ...{ decisionMs: 60_000, workMs: 60_000, compileMs: 60_000, idleMs: 60_000 }, backoff: { minMs: 1, maxMs: 1 } },
    {
      start: () => new Promise((resolve, reject) => starts.push({ resolve, reject })),
      fill: async () => undefined,
      release: () => undefined,
      onFailing: (reason) => assert.fail(reason),
      log: silentLogger(),
    },
  );
  const early = keeper.use((go) => go.decide('x', undefined));
  await until(() => starts.length === 1, { withinMs: 5000, what: 'the first start' });
  keeper.drop('another policy is active');
  const late = keeper.use((go) => go.decide('x', undefined));
  await until(() => starts.length === 2, { withinMs: 5000, what: 'the second start' });
  starts[0]?.reject(new Error('no memory'));
  starts[1]?.resolve(new FakeGo());
  assert.deepEqual(await Promise.all([early, late]), [undefined, undefined]);
  assert.equal(starts.length, 2);
  await keeper.close();
});

test('an engine that can never start fails the first call, and is not tried again', async () => {
  let starts = 0;
  const damaged = new SyncError('engine_artifact_invalid', 'opa.wasm.br has another checksum');
  const keeper = new GoKeeper(
    { ...{ decisionMs: 60_000, workMs: 60_000, compileMs: 60_000, idleMs: 60_000 }, backoff: { minMs: 1, maxMs: 1 } },
    {
      start: () => {
        starts++;
        return Promise.reject(damaged);
      },
      fill: async () => undefined,
      release: () => undefined,
      onFailing: (reason) => assert.fail(reason),
      log: silentLogger(),
    },
  );
  await assert.rejects(
    keeper.use((go) => go.decide('x', undefined)),
    damaged,
  );
  assert.equal(starts, 1);
  await keeper.close();
});
