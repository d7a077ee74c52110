import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { chmod, cp, readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { promisify } from 'node:util';
import { installedPackage } from '../support/installed-package.js';
import { unknownSettings } from '../support/known-settings.js';
import { repoRoot } from '../support/repo.js';
import { onPath } from '../support/server-programs.js';
import { tempDir } from '../support/temp-dir.js';

const run = promisify(execFile);
const UNITS = join(repoRoot(), 'deploy', 'systemd');
const PROGRAMS = ['server', 'client'] as const;
/** Exposure of 2.0 out of 10; "OK" ends at 4.9. */
const THRESHOLD = '20';

const skip = onPath('systemd-analyze') === undefined ? 'there is no systemd-analyze here' : false;

/** A copy of the units whose command is the installed package, since systemd looks for it on this machine. */
async function unitsHere() {
  const dir = await tempDir();
  await cp(UNITS, dir.path, { recursive: true });
  const { project } = installedPackage();
  for (const program of PROGRAMS) {
    const file = join(dir.path, `policysync-${program}.service`);
    const text = await readFile(file, 'utf8');
    const command = `ExecStart=${join(project, 'node_modules', '.bin', 'policysync')} ${program}`;
    assert.match(text, new RegExp(`^ExecStart=policysync ${program}$`, 'm'));
    await writeFile(file, text.replace(/^ExecStart=.*$/m, command));
    await chmod(file, 0o644);
  }
  return dir;
}

describe('systemd units', () => {
  it('are valid, alone and with the credentials beside them', { skip }, async () => {
    await using dir = await unitsHere();
    const files = PROGRAMS.map((program) => join(dir.path, `policysync-${program}.service`));
    // It prints what it does not know and what it ignores, and may still end with 0.
    const { stdout, stderr } = await run('systemd-analyze', ['verify', '--man=no', ...files], { cwd: dir.path });
    const ofOthers = /^(?!.*policysync).*$/;
    const said = `${stdout}${stderr}`.split('\n').filter((line) => !ofOthers.test(line));
    assert.deepEqual(said, []);
  });

  it('expose less than most services', { skip }, async () => {
    await using dir = await unitsHere();
    for (const program of PROGRAMS) {
      const file = join(dir.path, `policysync-${program}.service`);
      // Ends with 1 above the threshold.
      await run('systemd-analyze', ['security', '--offline=yes', `--threshold=${THRESHOLD}`, '--no-pager', file]);
    }
  });

  it('name settings that exist, and no secret', async () => {
    for (const name of await readdir(UNITS, { recursive: true })) {
      if (!/\.(service|conf)$/.test(name)) continue;
      const text = await readFile(join(UNITS, name), 'utf8');
      assert.deepEqual(unknownSettings(text), [], name);
      const secrets = [...text.matchAll(/\b(SYNC_[A-Z_]*(?:TOKEN|PRIVATE_KEY|SECRET|PASSPHRASE))=/g)];
      assert.deepEqual(secrets, [], `${name} has a secret as it is`);
    }
  });
});
