import assert from 'node:assert/strict';
import { test } from 'node:test';
import { sourceSyntax, syntaxOf } from './support/source-syntax.js';

test('one place ends a process: it waits until all is printed', () => {
  const found = sourceSyntax().exits;
  assert(found.length > 0);
  assert.deepEqual(
    found
      .filter(({ file }) => file !== 'src/cli/kit/end-program.ts')
      .map(({ file, line, text }) => `${file}:${line} ${text}`),
    [],
    'endProgram of cli/kit/end-program prints what is left before; ExitError has the exit code of a command',
  );
});

test('sees every spelling', () => {
  for (const text of [
    'process.exit(1)',
    "process['exit'](1)",
    'process.exitCode = 1',
    'globalThis.process.exit(1)',
    'const { exit } = process',
    "import { exit as end } from 'node:process'",
    'then(process.exit)',
    'process.reallyExit(1)',
    'process.abort()',
  ])
    assert.equal(syntaxOf('x.ts', `${text};`).exits.length, 1, text);
  for (const text of [
    '// process.exit(1)',
    "on('exit', end)",
    'child.exitCode',
    'process.kill(1)',
    'const { env } = process',
  ])
    assert.deepEqual(syntaxOf('x.ts', `${text};`).exits, [], text);
});
