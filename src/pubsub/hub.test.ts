import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ALL_TOPICS } from '../wire/topics.js';
import { createHub, type Subscriber } from './hub.js';

interface Inbox extends Subscriber {
  frames: Buffer[];
  /** `topic data` of each frame. */
  got(): string[];
}

function inbox(extended = false): Inbox {
  const frames: Buffer[] = [];
  return {
    extended,
    frames,
    send: (frame) => frames.push(frame.payload),
    got: () =>
      frames.map((frame) => {
        const { subscription, data } = JSON.parse(frame.toString()).request.arguments;
        return `${subscription.topic} ${JSON.stringify(data)}`;
      }),
  };
}

test('a subscriber gets a publication once, under the first topic that it subscribes to', () => {
  const hub = createHub();
  const one = inbox();
  const both = inbox();
  const other = inbox();
  hub.subscribe(one, ['b']);
  hub.subscribe(both, ['b', 'a']);
  hub.subscribe(both, ['a']);
  hub.subscribe(other, ['c']);
  assert.equal(hub.subscriberCount(['a', 'b']), 2);
  assert.equal(hub.publish({ topics: ['a', 'b'], text: '1' }), 2);
  assert.deepEqual([one.got(), both.got(), other.got()], [['b 1'], ['a 1'], []]);
});

test('who subscribes to all topics gets every publication under its first topic', () => {
  const hub = createHub();
  const all = inbox();
  hub.subscribe(all, [ALL_TOPICS, 'b']);
  assert.equal(hub.subscriberCount(['z']), 1);
  hub.publish({ topics: ['z', 'y'], text: '1' });
  hub.publish({ topics: ['z', 'b'], text: '2' });
  assert.deepEqual(all.got(), ['z 1', 'b 2']);
  assert.equal(hub.publish({ topics: [], text: '3' }), 0);
});

test('a frame is encoded once per topic and variant, its ids are those of the publication', () => {
  const hub = createHub();
  const peers = [inbox(), inbox(), inbox(true), inbox(true)] as const;
  const onB = inbox();
  for (const peer of peers) hub.subscribe(peer, ['a']);
  hub.subscribe(onB, ['b']);
  hub.publish({ topics: ['a', 'b'], text: '{"n":1.0}', extendedText: '{"n":1.0,"seq":7}' });
  assert.equal(peers[0].frames[0], peers[1].frames[0]);
  assert.equal(peers[2].frames[0], peers[3].frames[0]);
  assert.match(String(peers[0].frames[0]), /"data":\{"n":1\.0\}\}/);
  assert.match(String(peers[2].frames[0]), /"data":\{"n":1\.0,"seq":7\}\}/);
  const [plain, extended, b] = [peers[0], peers[2], onB].map((peer) => JSON.parse(String(peer.frames[0])).request);
  assert.deepEqual(
    [extended.call_id, b.call_id, b.arguments.subscription],
    [plain.call_id, plain.call_id, { ...plain.arguments.subscription, topic: 'b' }],
  );
  hub.publish({ topics: ['a'], text: '2' });
  assert.equal(peers[0].frames[1], peers[2].frames[1], 'one variant, one frame');
  assert.notEqual(JSON.parse(String(peers[0].frames[1])).request.call_id, plain.call_id);
});

test('unsubscribe and remove end exactly what they name', () => {
  const hub = createHub();
  const peer = inbox();
  hub.subscribe(peer, ['a', 'b', 'c']);
  hub.unsubscribe(peer, ['a', 'unknown']);
  assert.deepEqual(
    ['a', 'b', 'c'].map((topic) => hub.publish({ topics: [topic], text: '1' })),
    [0, 1, 1],
  );
  hub.remove(peer);
  hub.remove(peer);
  assert.equal(hub.subscriberCount(['a', 'b', 'c']), 0);
});

test('the publisher can be left out', () => {
  const hub = createHub();
  const [publisher, other] = [inbox(), inbox()];
  for (const peer of [publisher, other]) hub.subscribe(peer, ['a']);
  assert.equal(hub.publish({ topics: ['a'], text: '1', except: publisher }), 1);
  assert.deepEqual([publisher.got(), other.got()], [[], ['a 1']]);
});

test('a subscriber that throws is removed and does not affect the others', () => {
  const hub = createHub();
  const broken: Subscriber = {
    extended: false,
    send: () => {
      throw new Error('socket is gone');
    },
  };
  const before = inbox();
  const after = inbox();
  for (const peer of [before, broken, after]) hub.subscribe(peer, ['a']);
  assert.equal(hub.publish({ topics: ['a'], text: '1' }), 2);
  assert.deepEqual([before.got(), after.got()], [['a 1'], ['a 1']]);
  assert.equal(hub.subscriberCount(['a']), 2);
});

test('a subscriber may leave while it is served', () => {
  const hub = createHub();
  const last = inbox();
  const leaving: Subscriber = { extended: false, send: () => hub.remove(leaving) };
  hub.subscribe(leaving, ['a']);
  hub.subscribe(last, ['a']);
  hub.publish({ topics: ['a'], text: '1' });
  hub.publish({ topics: ['a'], text: '2' });
  assert.deepEqual(last.got(), ['a 1', 'a 2']);
  assert.equal(hub.subscriberCount(['a']), 1);
});
