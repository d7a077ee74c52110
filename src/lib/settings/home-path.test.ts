import assert from 'node:assert/strict';
import { test } from 'node:test';
import { expandHome, homeFolder, stateHome } from './home-path.js';

const unknown = (): never => {
  throw new Error('uv_os_homedir returned ENOENT');
};

test('a user whom the system does not know has no home folder, and a path stays as it is', () => {
  assert.equal(homeFolder(unknown), undefined);
  assert.equal(
    homeFolder(() => '/home/a'),
    '/home/a',
  );
  assert.equal(expandHome('~/x', '/home/a'), '/home/a/x');
  assert.equal(expandHome('/srv/~/x', '/home/a'), '/srv/~/x');
});

test('the folder for state needs no home where one is named, and says which setting needs neither', () => {
  const none = (): string | undefined => homeFolder(unknown);
  assert.equal(stateHome({ XDG_STATE_HOME: '/state' }, 'SYNC_STATE_DIR', none), '/state');
  assert.equal(
    stateHome({ HOME: '/home/a', XDG_STATE_HOME: 'relative' }, 'SYNC_STATE_DIR', none),
    '/home/a/.local/state',
  );
  assert.equal(
    stateHome({}, 'SYNC_STATE_DIR', () => '/home/b'),
    '/home/b/.local/state',
  );
  for (const env of [{}, { HOME: '' }]) {
    assert.throws(() => stateHome(env, 'SYNC_STATE_DIR', none), {
      code: 'config_invalid',
      message: 'HOME is not set, and this user has no home folder: set SYNC_STATE_DIR',
    });
  }
});
