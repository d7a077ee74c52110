import assert from 'node:assert/strict';
import { PassThrough } from 'node:stream';
import { test } from 'node:test';
import { printLine } from './command-io.js';

test('a terminal is commanded by nobody but us, and a pipe gets what there is', () => {
  const line = '\u001b[31mred\u001b[39m a\u001b[2J\u009b2J\u202eb\nc';
  for (const [isTTY, printed] of [
    [true, '\u001b[31mred\u001b[39m a [2J 2J b\nc\n'],
    [false, `${line}\n`],
  ] as const) {
    const output = Object.assign(new PassThrough(), { isTTY });
    printLine(output, line);
    assert.equal(String(output.read()), printed);
  }
});
