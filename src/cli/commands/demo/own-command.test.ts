import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { test } from 'node:test';
import { ownCommand } from './own-command.js';

test('the command is called by its name where another terminal finds this very program by it', (t) => {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), 'policysync-test-')));
  t.after(() => rmSync(folder, { recursive: true }));
  const [file, bin, npx] = [join(folder, 'policysync.js'), join(folder, 'bin'), join(folder, 'node_modules', '.bin')];
  writeFileSync(file, '');
  for (const place of [bin, npx]) {
    mkdirSync(place, { recursive: true });
    symlinkSync(file, join(place, 'policysync'));
  }
  const byFile = ['node', file];
  assert.deepEqual(ownCommand({ PATH: ['/nowhere', bin].join(delimiter) }, file), ['policysync']);
  assert.deepEqual(ownCommand({ PATH: npx }, file), byFile, 'npx alone has this folder on PATH');
  assert.deepEqual(ownCommand({ PATH: '/nowhere' }, file), byFile);
  assert.deepEqual(ownCommand({}, file), byFile);
  assert.deepEqual(ownCommand({ PATH: bin }, join(folder, 'another.js')), ['node', join(folder, 'another.js')]);
});
