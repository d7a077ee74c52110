import assert from 'node:assert/strict';
import { chmod, mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { tempDir } from '../../../../test/support/temp-dir.js';
import type { Finding } from '../../kit/findings.js';
import { folderCheck } from './folder-check.js';

const STATE = { id: 'state_dir', subject: 'state', setting: 'SYNC_STATE_DIR' };
const READ_ONLY = { mayWrite: async () => false };
/** Root may write everywhere. */
const skip = process.getuid?.() === 0 ? 'root may write into every folder' : false;

async function found(folder: string, deps?: typeof READ_ONLY): Promise<Finding | undefined> {
  const [finding] = await folderCheck({ ...STATE, folder }, deps).run(new AbortController().signal);
  return finding;
}

function lineOf(finding: Finding | undefined): string {
  return `${finding?.level}: ${finding?.message}`;
}

describe('a folder of a program', () => {
  it('that cannot be written, or not be made', async () => {
    await using dir = await tempDir();
    const remedy = 'Give the user that runs the program the rights to it, or set SYNC_STATE_DIR to another folder.';
    const there = await found(dir.path, READ_ONLY);
    assert.equal(lineOf(there), `error: ${dir.path} cannot be written by this user`);
    assert.equal(there?.remedy, remedy);
    const folder = join(dir.path, 'a', 'b');
    const missing = await found(folder, READ_ONLY);
    assert.equal(lineOf(missing), `error: ${folder} cannot be made: ${dir.path} cannot be written by this user`);
    assert.equal(missing?.remedy, remedy);
  });

  it('that has no right to be written', { skip }, async () => {
    await using dir = await tempDir();
    await chmod(dir.path, 0o500);
    assert.match(lineOf(await found(dir.path)), /^error: .* cannot be written by this user$/);
    assert.match(lineOf(await found(join(dir.path, 'a'))), /^error: .*a cannot be made: /);
    await chmod(dir.path, 0o700);
  });

  it('that is one, will be one, is open to others, or is a file', async () => {
    await using dir = await tempDir();
    await chmod(dir.path, 0o700);
    assert.equal(lineOf(await found(dir.path)), `ok: ${dir.path}, writable and private`);
    assert.equal(lineOf(await found(join(dir.path, 'a'))), `ok: ${join(dir.path, 'a')}, made at the first start`);
    const open = join(dir.path, 'open');
    await mkdir(open);
    await chmod(open, 0o755);
    const warning = await found(open);
    assert.equal(warning?.level, 'warning');
    assert.match(warning.remedy ?? '', /^Run `chmod 700 /);
    const file = join(dir.path, 'file');
    await writeFile(file, '');
    for (const folder of [file, join(file, 'a')])
      assert.equal(lineOf(await found(folder)), `error: ${file} is not a folder`);
  });
});
