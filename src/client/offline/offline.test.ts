import assert from 'node:assert/strict';
import { test } from 'node:test';
import { until } from '../../../test/support/until.js';
import { SyncError } from '../../lib/errors.js';
import { silentLogger } from '../../lib/observe/log.js';
import type { BackupContent } from './backup-format.js';
import { Offline } from './offline.js';

const CONTENT: BackupContent = {
  createdMs: 1,
  directories: [],
  scope: 'default',
  policy: undefined,
  position: { epoch: undefined, era: 1, next: 1, lastSeq: 0, seen: new Map() },
  documents: [],
};

/** An Offline whose parts write down what is asked of them; `fails` names what fails. */
function started(options: { disconnected: boolean; fails?: string }): {
  offline: Offline;
  done: string[];
  fails: { what: string | undefined };
  stop: () => Promise<void>;
} {
  const done: string[] = [];
  const fails = { what: options.fails };
  const step = (what: string): void => {
    done.push(what);
    if (fails.what === what) throw new SyncError('backup_unwritable', what);
  };
  const offline = new Offline(
    { offlineMode: true, disconnectDefault: options.disconnected, policyEnabled: true },
    {
      follower: { start: () => step('start'), stop: async () => step('stop') },
      backup: {
        save: async () => {
          step('save');
          return 'saved';
        },
        loaded: async () => step('loaded'),
        refused: () => step('refused'),
        run: async () => undefined,
        state: { savedMs: undefined, error: undefined },
      },
      restore: async () => {
        step('restore');
        return { content: CONTENT, isWhole: true, isHeld: false };
      },
      held: { isEmpty: false },
      policy: { wantComplete: () => step('want complete') },
      refetch: () => step('refetch'),
      log: silentLogger(),
    },
  );
  const stop = new AbortController();
  const running = offline.run(stop.signal);
  return {
    offline,
    done,
    fails,
    stop: async () => {
      stop.abort();
      await running;
    },
  };
}

test('a disconnect stops everything before the backup is saved; one that fails leaves the client connected', async () => {
  const { offline, done, fails, stop } = started({ disconnected: false });
  assert.equal(await offline.enable(), 'starting');
  await until(() => offline.state !== 'starting', { withinMs: 20_000, what: 'it has started' });
  assert.deepEqual(done.splice(0), ['restore', 'loaded', 'start'], 'the engine is filled before the server is asked');
  fails.what = 'save';
  await assert.rejects(offline.disable(), { code: 'backup_unwritable' });
  assert.equal(offline.state, 'connected');
  assert.deepEqual(done.splice(0), ['stop', 'save', 'start']);
  fails.what = undefined;
  assert.equal(await offline.disable(), 'disabled');
  assert.deepEqual(done, ['stop', 'save']);
  await stop();
});

test('an enable that fails leaves the client disconnected, and the next one is tried anew', async () => {
  const { offline, done, fails, stop } = started({ disconnected: true });
  await until(() => offline.state !== 'starting', { withinMs: 20_000, what: 'it has started' });
  assert.deepEqual(done.splice(0), ['restore', 'loaded']);
  fails.what = 'start';
  await assert.rejects(offline.enable());
  assert.equal(offline.state, 'disconnected');
  assert.deepEqual(done.splice(0), ['want complete', 'start', 'stop']);
  fails.what = undefined;
  assert.equal(await offline.enable(), 'enabled');
  assert.deepEqual(done.splice(0), ['want complete', 'start']);
  offline.engineRestarted();
  assert.equal(await offline.enable(), 'already_enabled');
  assert.deepEqual(done, ['refetch']);
  await stop();
});
