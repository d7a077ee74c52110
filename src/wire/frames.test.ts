import assert from 'node:assert/strict';
import type { Writable } from 'node:stream';
import { describe, it, test } from 'node:test';
import fc from 'fast-check';
import * as ws from 'ws';
import { ANY_CHARACTER } from '../../test/support/any-character.js';
import { SyncError } from '../lib/errors.js';
import { parseJson } from '../lib/json/json.js';
import {
  argumentText,
  frame,
  notifyArguments,
  notifyFrame,
  readFrame,
  requestFrame,
  responseFrame,
  textFrame,
  topicList,
} from './frames.js';

const IDS = { subscription: 's1', subscriber: 'c1', call: 'k1' };

describe('frames that are written', () => {
  it('a request has both keys, as OPAL writes it', () => {
    assert.equal(
      requestFrame('subscribe', { topics: ['a'] }, 'k1'),
      '{"request":{"method":"subscribe","arguments":{"topics":["a"]},"call_id":"k1"},"response":null}',
    );
  });

  it('a response has both keys, also for a call without an id', () => {
    assert.equal(
      responseFrame(true, 'bool', null),
      '{"request":null,"response":{"result":true,"result_type":"bool","call_id":null}}',
    );
  });

  it('a notification carries the bytes of its data as they are', () => {
    const text = notifyFrame('t', '{"n":12345678901234567890,"f":1.0}', IDS);
    assert(text.includes('"data":{"n":12345678901234567890,"f":1.0}}'));
  });

  it('a notification with any topic and data reads back as what was put in', () => {
    fc.assert(
      fc.property(fc.string({ unit: ANY_CHARACTER }), fc.json(), (topic, data) => {
        const { request } = frame.parse(parseJson(notifyFrame(topic, data, IDS)));
        assert.deepEqual([request?.method, request?.call_id], ['notify', 'k1']);
        const read = notifyArguments.parse(request?.arguments);
        assert.equal(read.subscription.topic, topic);
        assert.deepEqual(read.data, parseJson(data));
      }),
    );
  });
});

describe('frames that are read', () => {
  it('leave out what peers leave out', () => {
    for (const [text, read] of [
      ['{}', {}],
      ['{"request":null,"response":null}', { request: null, response: null }],
      ['{"request":{"method":"ping"}}', { request: { method: 'ping', arguments: {} } }],
      ['{"request":{"method":"ping","arguments":[]}}', { request: { method: 'ping', arguments: {} } }],
      [
        '{"request":{"method":"ping","arguments":{},"call_id":null,"new":1}}',
        { request: { method: 'ping', arguments: {}, call_id: null } },
      ],
      ['{"response":{"call_id":"1"}}', { response: { call_id: '1' } }],
    ] as const) {
      assert.deepEqual(frame.parse(JSON.parse(text)), read, text);
    }
  });

  it('are refused where they are something else', () => {
    for (const text of [
      '[]',
      '1',
      'null',
      '{"request":1}',
      '{"request":{}}',
      '{"request":{"method":1}}',
      '{"response":"x"}',
      '{"request":{"method":"m","arguments":[1]}}',
      '{"request":{"method":"m","arguments":"x"}}',
      '{"request":{"method":"m","call_id":1}}',
    ]) {
      assert.equal(frame.safeParse(JSON.parse(text)).success, false, text);
    }
  });

  it('arguments named like parts of JavaScript stay arguments', () => {
    const found = frame.parse(
      JSON.parse('{"request":{"method":"m","arguments":{"constructor":1,"__proto__":{"polluted":1}}}}'),
    );
    const read = found.request?.arguments ?? {};
    assert.equal(read.constructor, 1);
    assert.equal(read.polluted, undefined);
    assert.equal(({} as { polluted?: unknown }).polluted, undefined);
  });
});

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

/** Its types leave it out. */
const { Receiver } = ws as unknown as { Receiver: new (options: { isServer: boolean }) => Writable };

/** What a WebSocket client reads of these bytes. */
function read(...chunks: Buffer[]): string[] {
  const found: string[] = [];
  const receiver = new Receiver({ isServer: false });
  receiver.on('message', (data: Buffer, isBinary: boolean) => found.push(`${isBinary} ${data}`));
  receiver.on('conclude', () => found.push('closed'));
  for (const chunk of chunks) receiver.write(chunk);
  return found;
}

it('is read as the same text, whatever its length', () => {
  for (const length of [0, 1, 125, 126, 127, 65_535, 65_536, 200_000]) {
    const text = 'x'.repeat(length);
    const { bytes, payload } = textFrame(text);
    assert.deepEqual(read(bytes, textFrame('next').bytes), [`false ${text}`, 'false next'], `${length}`);
    assert.equal(payload.toString(), text);
  }
});

it('property: any text is read as it was written', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'grapheme', maxLength: 300 }), (text) => {
      assert.deepEqual(read(textFrame(text).bytes), [`false ${text}`]);
    }),
  );
});
