import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { frame, notifyArguments, notifyFrame, requestFrame, responseFrame } from './frames.js';

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
      fc.property(fc.string({ unit: 'binary' }), fc.json(), (topic, data) => {
        const { request } = frame.parse(JSON.parse(notifyFrame(topic, data, IDS)));
        assert.deepEqual([request?.method, request?.call_id], ['notify', 'k1']);
        const read = notifyArguments.parse(request?.arguments);
        assert.equal(read.subscription.topic, topic);
        assert.deepEqual(read.data, JSON.parse(data));
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
