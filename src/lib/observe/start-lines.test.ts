import assert from 'node:assert/strict';
import { it } from 'node:test';
import { logStart } from './start-lines.js';

it('writes one line for each fact, with its fields', () => {
  const lines: unknown[] = [];
  logStart({ info: (...line: unknown[]) => void lines.push(line) }, [
    { about: 'version', text: '1.2.3', fields: { version: '1.2.3' } },
    { about: 'authentication', text: 'off' },
  ]);
  assert.deepEqual(lines, [
    [{ version: '1.2.3' }, 'version: 1.2.3'],
    [{}, 'authentication: off'],
  ]);
});
