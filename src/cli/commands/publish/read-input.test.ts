import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { homedir, tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import { Readable } from 'node:stream';
import { it } from 'node:test';
import { UsageError } from '../../kit/run-program.js';
import { readInput } from './publish.js';

const EMPTY = { stdin: Readable.from([]) };

it('reads a file or standard input, and names option and file where it cannot', async (t) => {
  const dir = await mkdtemp(join(tmpdir(), 'policysync-test-'));
  t.after(() => rm(dir, { recursive: true, force: true }));
  const file = join(dir, 'users.json');
  await writeFile(file, '{"é":1}');
  assert.equal(await readInput('--data', file, EMPTY), '{"é":1}');
  assert.equal(await readInput('--data', '-', { stdin: Readable.from([Buffer.from('[1'), Buffer.from(']')]) }), '[1]');
  assert.equal(await readInput('--data', file, EMPTY, 8), '{"é":1}');
  // As a shell leaves it in `--data=@~/users.json`.
  assert.equal(await readInput('--data', `~/${relative(homedir(), file)}`, EMPTY), '{"é":1}');

  const refused = async (path: string, reason: RegExp, maxBytes = 100): Promise<void> => {
    await assert.rejects(readInput('--data', path, EMPTY, maxBytes), (error) => {
      assert(error instanceof UsageError);
      assert.match(error.message, reason);
      assert(error.message.startsWith(`--data: ${path} `), error.message);
      return true;
    });
  };
  await refused(file, /larger than 7 bytes$/, 7);
  await refused(join(dir, 'none.json'), /cannot be read: it does not exist$/);
  await refused(dir, /cannot be read: it is a folder$/);
  await writeFile(file, Uint8Array.of(0xff, 0xfe));
  await refused(file, /is not UTF-8/);
});

it('reads no more of standard input than it may', async () => {
  let chunks = 0;
  async function* endless(): AsyncGenerator<Buffer> {
    for (;;) yield Buffer.alloc(1000, ++chunks);
  }
  await assert.rejects(readInput('--entries-file', '-', { stdin: endless() }, 10_000), /standard input is larger/);
  assert(chunks <= 11);
});
