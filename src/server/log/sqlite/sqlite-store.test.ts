import assert from 'node:assert/strict';
import { it } from 'node:test';
import { isConfigurationError } from '../../../lib/errors.js';
import { folderError } from './sqlite-store.js';

it('a state folder that this user may not write is a fault of the settings, a full disk is none', () => {
  for (const [code, wanted] of [
    ['EACCES', 'state_dir_unusable'],
    ['EPERM', 'state_dir_unusable'],
    ['EROFS', 'state_dir_unusable'],
    ['ENOTDIR', 'state_dir_unusable'],
    ['EEXIST', 'state_dir_unusable'],
    ['ENAMETOOLONG', 'state_dir_unusable'],
    ['ENOSPC', 'log_unwritable'],
    ['EDQUOT', 'log_unwritable'],
    ['EIO', 'log_unwritable'],
  ] as const) {
    const error = folderError('/state', Object.assign(new Error(code), { code }));
    assert.equal(error.code, wanted, code);
    assert.match(error.message, /the state folder \/state cannot be/);
    assert.equal(isConfigurationError(error), wanted === 'state_dir_unusable', code);
  }
});
