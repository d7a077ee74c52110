import assert from 'node:assert/strict';
import { it } from 'node:test';
import { tellStart } from './start-lines.js';

it('writes one line for each fact, with its fields', () => {
  const lines: unknown[] = [];
  tellStart({ info: (...line: unknown[]) => void lines.push(line) }, [
    { about: 'version', text: '1.2.3', fields: { version: '1.2.3' } },
    { about: 'authentication', text: 'off' },
  ]);
  assert.deepEqual(lines, [
    [{ version: '1.2.3' }, 'version: 1.2.3'],
    [{}, 'authentication: off'],
  ]);
});
