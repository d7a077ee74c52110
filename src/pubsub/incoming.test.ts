import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SyncError } from '../lib/errors.js';
import { argumentText, readFrame, topicList } from './incoming.js';

test('a text that is not JSON is refused, JSON that is no frame is nothing', () => {
  for (const text of ['', '{', 'nonsense', '{"request":{}']) {
    assert.throws(
      () => readFrame(text),
      (error) => error instanceof SyncError && error.code === 'frame_invalid',
    );
  }
  for (const text of [
    '[]',
    '1',
    '"x"',
    'null',
    '{"request":5}',
    '{"request":{"method":1}}',
    '{"request":{"method":"x","arguments":null}}',
  ]) {
    assert.equal(readFrame(text), undefined, text);
  }
});

test('either part may be missing or null, and arguments may be an empty list', () => {
  assert.deepEqual(readFrame('{}'), {});
  assert.deepEqual(readFrame('{"request": null, "response": {"result": true}}'), {
    request: null,
    response: { result: true },
  });
  assert.deepEqual(readFrame('{"request":{"method":"_ping_","arguments":[]}}'), {
    request: { method: '_ping_', arguments: {} },
  });
});

test('an argument is cut out as it was written', () => {
  const frame = (data: string): string =>
    ` {"response": null, "request": {"call_id": "}", "arguments": {"topics": ["a"]${data}}, "method": "publish"} } `;
  assert.equal(
    argumentText(frame(', "data": {"n": 12345678901234567890, "d": [1.0]}'), 'data'),
    '{"n": 12345678901234567890, "d": [1.0]}',
  );
  assert.equal(argumentText(frame(', "data" : null'), 'data'), 'null');
  assert.equal(argumentText(frame(''), 'data'), 'null');
  assert.equal(argumentText('{"request":{"method":"x","arguments":[]}}', 'data'), 'null');
  assert.equal(argumentText('{"request":{"method":"x"}}', 'data'), 'null');
});

test('topics are a list of texts or one text', () => {
  assert.deepEqual(topicList(['a', 'b']), ['a', 'b']);
  assert.deepEqual(topicList('policy:.'), ['policy:.']);
  for (const value of [undefined, null, 1, {}, ['a', 1]]) assert.equal(topicList(value), undefined);
});
