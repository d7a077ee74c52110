import assert from 'node:assert/strict';
import { test } from 'node:test';
import { sourceSyntax, syntaxOf } from './support/source-syntax.js';

/** Files that make values of JSON text, and why the rules of `lib/json/json` are not theirs. */
const READERS: Readonly<Record<string, string>> = {
  'src/lib/json/json.ts': 'the one place: it bounds depth and number of values, and has the names as the text has them',
  'ui/src/api.ts': 'in a browser: what the server answers',
  'ui/src/parts/use-get.ts': 'in a browser: its own text',
  'ui/src/stream/connection.ts': 'in a browser: what the server says',
};

/** Files that make values without bounds, of texts that they have checked. */
const CHECKED: Readonly<Record<string, string>> = {
  'src/lib/observe/log-line.ts': 'a line that our own logger wrote, of what is in memory',
  'src/wire/inline-data.ts': 'counts the values of all but inline data before',
};

test('nothing makes values of JSON text but the place that bounds them', () => {
  const { files, jsonParses } = sourceSyntax();
  assert(files > 700, `only ${files} files`);
  const found = new Map(jsonParses.map(({ file, line, text }) => [file, `${file}:${line} ${text}`]));
  assert.deepEqual(
    [...found].filter(([file]) => !Object.hasOwn(READERS, file)).map(([, place]) => place),
    [],
    'parseJson of lib/json/json bounds depth and number of values; checkJson makes none',
  );
  assert.deepEqual(
    Object.keys(READERS).filter((file) => !found.has(file)),
    [],
    'these make none any more',
  );
});

test('few read a text without a bound', () => {
  const { calls } = sourceSyntax();
  const found = new Set(calls.filter(({ name }) => name === 'parseChecked').map(({ file }) => file));
  found.delete('src/lib/json/json.ts');
  assert.deepEqual([...found].sort(), Object.keys(CHECKED).sort());
});

test('sees every spelling', () => {
  const spellings = ["JSON.parse('1')", "JSON['parse']('1')", 'map(JSON.parse)', 'answer.json()', 'JSON?.parse(x)'];
  for (const text of spellings) assert.equal(syntaxOf('x.ts', `${text};`).jsonParses.length, 1, text);
  assert.deepEqual(syntaxOf('x.ts', "// JSON.parse\nJSON.stringify('JSON.parse()'); response.json(1);").jsonParses, []);
});
