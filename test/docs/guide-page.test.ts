import assert from 'node:assert/strict';
import { test } from 'node:test';
import { blocksOf, commandsOf, isAsSaid, masked, settingsOf } from './guide-page.js';

test('blocks have their line and language, and the reason why they are not run', () => {
  const page = [
    '# Title',
    '```sh',
    'one',
    '```',
    '<!-- not run: needs a cluster -->',
    '',
    '- item:',
    '<!-- not run: needs a cluster -->',
    '',
    '  ```sh',
    '  two',
    '    three',
    '  ```',
    '```',
    '$ four',
    '5',
    '```',
  ].join('\n');
  assert.deepEqual(blocksOf(page), [
    { line: 2, language: 'sh', text: 'one', notRun: undefined },
    { line: 10, language: 'sh', text: 'two\n  three', notRun: 'needs a cluster' },
    { line: 14, language: 'sample', text: '$ four\n5', notRun: undefined },
  ]);
});

test('a command goes on until the shell takes it, and a comment with JSON is what it prints', () => {
  const block = [
    '# first',
    'curl -s a \\',
    "  -d '{",
    '  "x": 1 }\'',
    '# {"a":[1],',
    '#  "b":"..."}',
    '',
    'echo "# no comment"   # {"c":1}',
    'cat <<END > file   # words',
    'text',
    'END',
  ].join('\n');
  assert.deepEqual(commandsOf(block), [
    { text: 'curl -s a \\\n  -d \'{\n  "x": 1 }\'', expected: '{"a":[1],"b":"..."}' },
    { text: 'echo "# no comment"   # {"c":1}', expected: '{"c":1}' },
    { text: 'cat <<END > file   # words\ntext\nEND', expected: undefined },
  ]);
  assert.throws(() => commandsOf("echo 'open"), /does not take this as a whole/);
});

test('an output is as said when its JSON is, whatever stands for three dots', () => {
  assert(isAsSaid('{ "a": [1], "b": "anything" }\n', '{"a":[1],"b":"..."}'));
  assert(isAsSaid('{"a":{"b":true}}', '{"a": {"b": true}}'));
  assert(!isAsSaid('{"a":[2],"b":"anything"}', '{"a":[1],"b":"..."}'));
  assert(!isAsSaid('{"a":[1]}{', '{"a":[1]}'));
  assert(!isAsSaid('', '{}'));
});

test('a block of assignments is settings, one with a command is not', () => {
  assert.deepEqual(settingsOf('SYNC_A=1  # words\n\nSYNC_B={"a":"b c"} SYNC_C=\'x\''), [
    { name: 'SYNC_A', value: '1' },
    { name: 'SYNC_B', value: '{"a":"b c"}' },
    { name: 'SYNC_C', value: 'x' },
  ]);
  assert.deepEqual(settingsOf('SYNC_A=\'[\n  {"a": 1}\n]\''), [{ name: 'SYNC_A', value: '[\n  {"a": 1}\n]' }]);
  assert.equal(settingsOf('SYNC_A=1 sync-client run'), undefined);
  assert.equal(settingsOf('npm ci'), undefined);
});

test('of a sample only what is the same everywhere counts', () => {
  assert.deepEqual(
    masked('laptop-3725cffc  healthy 2 min  opa 1.21.0  1e4962bd48  3 of 3'),
    masked('ci-1-0123abcd  healthy 900 ms    opa 1.21.0  ffffffffff  3 of 3'),
  );
  assert.notDeepEqual(masked('opa 1.21.0'), masked('opa 1.22.0'));
});
