import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SyncError } from '../../lib/errors.js';
import { silentLogger } from '../../lib/observe/log.js';
import { serverHasCapacity } from './follower.js';

const waits = { minMs: 1, maxMs: 5 };
const log = silentLogger();

test('a client asks until the server takes it', async () => {
  const refusals: string[] = [];
  let asked = 0;
  const ask = async (): Promise<void> => {
    if (++asked < 4) throw new SyncError('server_refused', `no ${asked}`, { retryable: true });
  };
  await serverHasCapacity({ ask, onRefused: (reason) => refusals.push(reason), log, waits }, AbortSignal.timeout(5000));
  assert.equal(asked, 4);
  assert.deepEqual(refusals, ['no 1', 'no 2', 'no 3']);
});

test('it comes again no sooner than Retry-After says', async () => {
  const times: number[] = [];
  const ask = async (): Promise<void> => {
    times.push(performance.now());
    if (times.length === 1) throw new SyncError('server_refused', 'no', { retryable: true, retryAfterSeconds: 0.2 });
  };
  await serverHasCapacity({ ask, onRefused: () => undefined, log, waits }, AbortSignal.timeout(5000));
  const [first = 0, second = 0] = times;
  assert(second - first >= 195, `came again after ${second - first} ms`);
});

test('it ends with its signal, also while it waits', async () => {
  const stop = new AbortController();
  const ask = async (): Promise<void> => {
    throw new SyncError('server_refused', 'no', { retryable: true, retryAfterSeconds: 300 });
  };
  const waiting = serverHasCapacity({ ask, onRefused: () => stop.abort(), log, waits }, stop.signal);
  await assert.rejects(waiting, { name: 'AbortError' });
});
