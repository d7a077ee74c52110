import assert from 'node:assert/strict';
import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { it } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { startCommand } from '../support/command.js';
import { tempDir } from '../support/temp-dir.js';

/** Fits into no pipe, and into a configuration file. */
const LONG = 'x'.repeat(1_000_000);

for (const [program, args] of [
  ['server', ['run', '--print-config']],
  ['client', ['--print-config']],
  ['policysync', ['config', 'print', 'server', '--json']],
] as const) {
  it(`${program}: a megabyte through a slow pipe arrives whole before the program ends`, async () => {
    await using dir = await tempDir();
    const path = join(dir.path, 'policysync.yaml');
    const section = program === 'client' ? 'client' : 'server';
    await writeFile(path, `${section}:\n  auth-jwt-audience: ${LONG}\n`);
    await using command = startCommand(program, args, { SYNC_CONFIG: path });
    const { stdout } = command.process;
    let pieces = 0;
    stdout.on('data', async () => {
      pieces++;
      stdout.pause();
      for (let turn = 0; turn < 20; turn++) await setImmediate();
      stdout.resume();
    });
    const { code, stdout: text, stderr } = await command.result;
    assert.deepEqual([code, stderr], [0, '']);
    assert(pieces > 3, `it came in ${pieces} pieces`);
    assert((program === 'policysync' ? JSON.stringify(JSON.parse(text)) : text).includes(LONG));
  });
}

it('a reader that goes away ends the program', async () => {
  await using dir = await tempDir();
  const path = join(dir.path, 'policysync.yaml');
  await writeFile(path, `server:\n  auth-jwt-audience: ${LONG}\n`);
  await using command = startCommand('policysync', ['config', 'print', 'server'], { SYNC_CONFIG: path });
  command.process.stdout.once('data', () => command.process.stdout.destroy());
  assert.deepEqual([(await command.result).code, command.stderr()], [0, '']);
});

for (const format of ['json', 'pretty']) {
  it(`a server whose log nobody reads any more ends when it is asked to (${format})`, async () => {
    await using dir = await tempDir();
    const args = ['run', '--server-bind-port', '0', '--log-format', format, '--state-dir', join(dir.path, 'state')];
    await using command = startCommand('server', args, {});
    await command.says(/listening/);
    command.process.stderr.destroy();
    await once(command.process.stderr, 'close');
    command.process.kill('SIGTERM');
    assert.equal((await command.result).code, 0);
  });
}
