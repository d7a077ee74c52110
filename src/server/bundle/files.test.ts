import assert from 'node:assert/strict';
import { test } from 'node:test';
import { fileKind } from './files.js';

test('knows modules and data files by their names', () => {
  const table: Record<string, ReturnType<typeof fileKind>> = {
    'a.rego': 'policy',
    'x/y/a.rego': 'policy',
    'a.cedar': 'policy',
    '.rego': undefined,
    'a.rego.txt': undefined,
    'a.REGO': undefined,
    'data.json': 'data',
    'x/data.json': 'data',
    'x/user_data.json': 'data',
    'x/metadata.json': 'data',
    'x/.data.json': 'data',
    'data.json/readme': undefined,
    dataXjson: undefined,
    'data.json5': undefined,
    'other.json': undefined,
    'data.yaml': undefined,
    '.manifest': undefined,
  };
  for (const [path, kind] of Object.entries(table)) assert.equal(fileKind(path, ['.rego', '.cedar']), kind, path);
});
