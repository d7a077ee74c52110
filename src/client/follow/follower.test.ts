import assert from 'node:assert/strict';
import { test } from 'node:test';
import { silentLogger } from '../../lib/observe/log.js';
import { readSettings } from '../../lib/settings/options.js';
import { CLIENT_SETTINGS } from '../options.js';
import type { EngineKeeper } from '../reconcile/engine-keeper.js';
import { type FollowedParts, Follower } from './follower.js';

/** A follower without a server; its parts end when `mayEnd` does. */
function followerOf(mayEnd: Promise<void>): { follower: Follower; parts: FollowedParts } {
  const { values } = readSettings(CLIENT_SETTINGS, { env: { SYNC_SERVER_URL: 'http://127.0.0.1:1' } });
  const follower = new Follower(values, {
    keeper: {} as EngineKeeper,
    askServerLoad: async () => undefined,
    dial: () => Promise.reject(new Error('there is no server')),
    log: silentLogger(),
  });
  const run = async (signal: AbortSignal): Promise<void> => {
    await new Promise((resolve) => signal.addEventListener('abort', resolve));
    await mayEnd;
  };
  return { follower, parts: { policy: { run }, data: { run } } as unknown as FollowedParts };
}

test('what is asked to follow after the client has stopped does not start: nobody would stop it', async () => {
  const { follower, parts } = followerOf(Promise.resolve());
  const stop = new AbortController();
  const run = follower.run(stop.signal);
  follower.start(parts);
  assert.equal(follower.following, true);
  stop.abort();
  await run;
  follower.start(parts);
  assert.equal(follower.following, false);
});

test('a client that is being disconnected follows no more, also while something of it comes to its end', async () => {
  let end: () => void = () => undefined;
  const { follower, parts } = followerOf(new Promise((resolve) => (end = resolve)));
  follower.start(parts);
  const stopped = follower.stop();
  assert.equal(follower.following, false);
  end();
  await stopped;
  follower.start(parts);
  assert.equal(follower.following, true);
  await follower.stop();
});

test('when one part fails in a way that it does not mend, the others are stopped, too', async () => {
  const { follower } = followerOf(Promise.resolve());
  let isStopped = false;
  const failing = { run: () => Promise.reject(new Error('broken')) };
  const other = {
    run: async (signal: AbortSignal) => {
      await new Promise((resolve) => signal.addEventListener('abort', resolve));
      isStopped = true;
    },
  };
  const run = follower.run(new AbortController().signal);
  follower.start({ policy: failing, data: other } as unknown as FollowedParts);
  await assert.rejects(run, /broken/);
  assert.equal(isStopped, true);
  assert.equal(follower.following, false);
});
