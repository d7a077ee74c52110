import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createConnection, type EventStream } from '../../ui/src/stream/connection.js';
import { fleetSnapshot } from './support/small-fleet.js';

const [CONNECTING, OPEN, CLOSED] = [0, 1, 2];

/** A stream as the browser has it, with what the server does in the hands of the test. */
class FakeStream implements EventStream {
  readyState = CONNECTING;
  readonly #target = new EventTarget();

  addEventListener(name: string, listener: (event: Event) => void): void {
    this.#target.addEventListener(name, listener);
  }
  close(): void {
    this.readyState = CLOSED;
  }
  opens(): void {
    this.readyState = OPEN;
    this.#target.dispatchEvent(new Event('open'));
  }
  says(name: string, data: unknown): void {
    const text = typeof data === 'string' ? data : JSON.stringify(data);
    this.#target.dispatchEvent(Object.assign(new Event(name), { data: text }));
  }
  /** The connection breaks; the browser tries again, or has given up. */
  breaks(readyState = CONNECTING): void {
    this.readyState = readyState;
    this.#target.dispatchEvent(new Event('error'));
  }
}

function setUp({ signedIn = true, answers = true }: { signedIn?: boolean; answers?: boolean } = {}) {
  const streams: FakeStream[] = [];
  const heard: string[] = [];
  const timers = new Map<number, { run: () => void; at: number }>();
  let now = 0;
  let lastTimer = 0;
  const connection = createConnection({
    open() {
      const stream = new FakeStream();
      streams.push(stream);
      return stream;
    },
    onSnapshot: ({ at }) => heard.push(`snapshot ${at}`),
    onDelta: ({ at }) => heard.push(`delta ${at}`),
    onExpired: () => heard.push('expired'),
    isSignedIn: async () => signedIn,
    answers: async () => answers,
    now: () => now,
    setTimer(run, ms) {
      timers.set(++lastTimer, { run, at: now + ms });
      return lastTimer;
    },
    clearTimer: (timer) => timers.delete(timer as number),
  });
  /** Lets time go by. */
  function pass(ms: number): void {
    const end = now + ms;
    for (;;) {
      const due = [...timers].filter(([, { at }]) => at <= end).sort(([, a], [, b]) => a.at - b.at)[0];
      if (due === undefined) break;
      timers.delete(due[0]);
      now = due[1].at;
      due[1].run();
    }
    now = end;
  }
  const current = (): FakeStream => {
    const stream = streams.at(-1);
    assert(stream);
    return stream;
  };
  return { connection, streams, heard, pass, current, kind: () => connection.state.value.kind };
}

/** A stream that is open and has told a snapshot. */
function live(options: Parameters<typeof setUp>[0] = {}) {
  const all = setUp(options);
  all.connection.start();
  all.current().opens();
  all.current().says('snapshot', fleetSnapshot({ at: 1 }));
  return all;
}

test('is live from the first snapshot on', () => {
  const { connection, current, heard, kind } = setUp();
  assert.equal(kind(), 'stopped');
  connection.start();
  assert.equal(kind(), 'connecting');
  current().opens();
  assert.equal(kind(), 'connecting');
  current().says('snapshot', fleetSnapshot({ at: 1 }));
  current().says('delta', { at: 2 });
  assert.equal(kind(), 'live');
  assert.deepEqual(heard, ['snapshot 1', 'delta 2']);
});

test('a break that the browser mends at once is no loss: it is connecting meanwhile', () => {
  const { current, streams, pass, kind } = live();
  current().breaks();
  assert.equal(kind(), 'connecting');
  pass(3000);
  current().opens();
  assert.equal(kind(), 'connecting', 'nothing was heard yet');
  current().says('delta', { at: 2 });
  assert.equal(kind(), 'live');
  current().breaks();
  assert.equal(kind(), 'connecting');
  pass(5000);
  assert.equal(kind(), 'lost', 'a try that takes this long');
  assert.equal(streams.length, 1);
});

test('the first try fails', () => {
  const { connection, current, kind } = setUp();
  connection.start();
  current().breaks();
  assert.equal(kind(), 'lost');
});

test('a break is lost with the first try that fails, since the break; the browser resumes, and its stream is live with the first delta', () => {
  const { connection, current, streams, heard, pass, kind } = live();
  pass(1000);
  current().breaks();
  assert.equal(kind(), 'connecting');
  pass(3000);
  current().breaks();
  assert.deepEqual(connection.state.value, { kind: 'lost', since: 1000, nextTryAt: null, why: 'cut' });
  current().opens();
  pass(6000);
  assert.deepEqual(connection.state.value, { kind: 'connecting', since: 1000 }, 'what was missed is not known');
  current().says('delta', { at: 2 });
  assert.equal(kind(), 'live');
  assert.deepEqual(heard, ['snapshot 1', 'delta 2']);
  assert.equal(streams.length, 1);
});

test('where the browser gives up, it is tried again after 1, 2, 4 and 8 seconds', async () => {
  const { connection, current, streams, pass, kind } = live();
  for (const seconds of [1, 2, 4, 8, 8]) {
    const before = streams.length;
    current().breaks(CLOSED);
    await Promise.resolve();
    await Promise.resolve();
    const { value } = connection.state;
    assert(value.kind === 'lost' && value.nextTryAt !== null);
    pass(seconds * 1000 - 1);
    assert.equal(streams.length, before);
    pass(1);
    assert.equal(streams.length, before + 1);
  }
  current().opens();
  current().says('snapshot', fleetSnapshot({ at: 5 }));
  assert.equal(kind(), 'live');
});

test('where the server refuses the stream since the session has ended, that is said', async () => {
  const { current, heard, kind } = live({ signedIn: false });
  current().breaks(CLOSED);
  await Promise.resolve();
  await Promise.resolve();
  assert.deepEqual(heard, ['snapshot 1', 'expired']);
  assert.equal(kind(), 'stopped');
});

test('a session that ends ends the stream', () => {
  const { current, heard, streams, pass, kind } = live();
  current().says('end', { reason: 'expired' });
  assert.deepEqual(heard, ['snapshot 1', 'expired']);
  current().breaks();
  pass(60_000);
  assert.deepEqual([kind(), streams.length], ['stopped', 1]);
});

for (const reason of ['draining', 'slow']) {
  test(`a server that ends the stream (${reason}) is given some seconds before that is a cut`, () => {
    const { current, pass, kind } = live();
    current().says('end', { reason });
    current().breaks();
    assert.equal(kind(), 'connecting');
    pass(4_000);
    current().opens();
    current().says('delta', { at: 2 });
    assert.equal(kind(), 'live');
    current().says('end', { reason });
    current().breaks();
    current().breaks();
    assert.equal(kind(), 'lost', 'a try has failed');
    current().opens();
    current().says('end', { reason });
    current().breaks();
    pass(6_000);
    assert.equal(kind(), 'lost');
  });
}

test('a stream of which nothing comes while the server answers is held back, until something comes', async () => {
  const { connection, current, streams, pass } = setUp();
  connection.start();
  current().opens();
  const why = async (ms: number): Promise<string> => {
    pass(ms);
    await new Promise((done) => setImmediate(done));
    const { value } = connection.state;
    return value.kind === 'lost' ? value.why : value.kind;
  };
  assert.equal(await why(9_999), 'connecting');
  assert.equal(await why(1), 'held');
  assert.equal(await why(25_000), 'held', 'also after it was opened anew');
  assert.equal(streams.length, 2);
  current().says('snapshot', fleetSnapshot({ at: 1 }));
  assert.equal(await why(0), 'live');
  assert.equal(await why(11_000), 'live');
});

test('a server that answers nothing at all is silent', async () => {
  const { connection, current, pass, kind } = setUp({ answers: false });
  connection.start();
  current().opens();
  pass(10_000);
  await new Promise((done) => setImmediate(done));
  assert.equal(kind(), 'connecting');
  pass(25_000);
  const { value } = connection.state;
  assert(value.kind === 'lost' && value.why === 'silent');
});

test('a server that says nothing is taken for dead, and asked anew', () => {
  const { connection, current, streams, pass, kind } = live();
  pass(20_000);
  current().says('delta', { at: 2 });
  pass(20_000);
  assert.equal(kind(), 'live');
  pass(5_000);
  const { value } = connection.state;
  assert(value.kind === 'lost' && value.why === 'silent');
  assert.equal(streams.length, 2);
  current().opens();
  current().says('snapshot', fleetSnapshot({ at: 3 }));
  assert.equal(kind(), 'live');
});

test('a stream that is resumed and says nothing is silent after 25 seconds', () => {
  const { connection, current, pass, kind } = live();
  current().breaks();
  current().opens();
  pass(24_999);
  assert.equal(kind(), 'connecting');
  pass(1);
  const { value } = connection.state;
  assert(value.kind === 'lost' && value.why === 'silent');
});

test('a stream that was left says nothing any more', () => {
  const { connection, streams, heard, current } = live();
  current().breaks();
  current().breaks();
  connection.retry();
  streams[0]?.says('delta', { at: 9 });
  assert.deepEqual([streams.length, heard], [2, ['snapshot 1']]);
});

for (const [what, name, data] of [
  ['no JSON', 'delta', '{'],
  ['no object', 'delta', 'null'],
  ['no time', 'delta', {}],
  ['half a snapshot', 'snapshot', { at: 1, epoch: 'e' }],
] as const) {
  test(`an event that the page does not understand is an error that is shown: ${what}`, () => {
    const { connection, current, heard, streams, pass } = live();
    current().says(name, data);
    pass(60_000);
    const { value } = connection.state;
    assert(value.kind === 'lost' && value.why === 'unreadable');
    assert.deepEqual([heard, streams.length], [['snapshot 1'], 1]);
  });
}
