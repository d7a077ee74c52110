import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SyncError } from '../../lib/errors.js';
import { JsonText } from '../../lib/json/json-text.js';
import { type Logger, silentLogger } from '../../lib/observe/log.js';
import { dataUpdate } from '../../wire/data.js';
import type { LogRecord, LogWriter, NewRecord, Recorded } from '../log/update-log.js';
import { Publisher } from './publish.js';

/** A log whose appends are applied when the test says so, in order. */
class HeldLog implements Omit<LogWriter, 'appendFrom' | 'adoptBase'> {
  readonly epoch = 'e';
  readonly held: { record: NewRecord; settle(error?: Error): void }[] = [];
  #deliver: (record: LogRecord) => number = () => 0;
  readonly #first = new Map<string, LogRecord>();
  #seq = 0;

  append(fields: NewRecord): Promise<Recorded> {
    return new Promise((resolve, reject) => {
      const settle = (error?: Error): void => {
        if (error === undefined) resolve(this.apply(fields));
        else reject(error);
      };
      this.held.push({ record: fields, settle });
    });
  }

  async appendOnce(fields: NewRecord, { key, digest }: { key: string; digest: string }) {
    const known = this.#first.get(`${key} ${digest}`);
    if (known !== undefined) return { record: known, replayed: true };
    const { subscribers, ...record } = this.apply(fields);
    this.#first.set(`${key} ${digest}`, record);
    return { record: { ...record, subscribers }, replayed: false };
  }

  /** Applies a record, of whatever instance. */
  apply(fields: NewRecord): Recorded {
    this.#seq += 1;
    const record = { ...fields, seq: this.#seq, timeMs: 0, prev: { t: 0 } };
    return { ...record, subscribers: this.#deliver(record) };
  }

  deliverTo(deliver: (record: LogRecord) => number): void {
    this.#deliver = deliver;
  }
}

function setUp(logger: Logger = silentLogger()) {
  const log = new HeldLog();
  const delivered: { topics: readonly string[]; text: string; extendedText?: string }[] = [];
  const hub = {
    publish: (publication: (typeof delivered)[number]) => delivered.push(publication),
    subscriberCount: () => 3,
  };
  const deps = { updateLog: log as unknown as LogWriter, hub, log: logger };
  const publisher = new Publisher({ inlineDataLimitBytes: 20, retainDefault: 60 }, deps);
  const ids = () => delivered.map(({ text }) => (JSON.parse(text) as { id: string }).id);
  return { log, delivered, publisher, ids };
}

function update(id: string, ...topics: string[]) {
  const entry = { url: 'http://x', topics: topics.length === 0 ? ['t'] : topics, dst_path: '/a' };
  return dataUpdate.parse({ id, entries: [entry] });
}

/** Lets every promise that can settle do so. */
function settled(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

test('delivers only after the record is durable, and answers its place and how many it concerned', async () => {
  const { log, delivered, publisher } = setUp();
  const answer = publisher.publish(update('u1'), 'me');
  await settled();
  assert.equal(log.held[0]?.record.publisher, 'me');
  assert.equal(delivered.length, 0);
  log.held[0]?.settle();
  assert.deepEqual(await answer, { id: 'u1', seq: 1, epoch: 'e', subscribers: 1, replayed: false });
  assert.equal(delivered.length, 1);
});

test('records and delivers every folder of a topic, each once', async () => {
  const { log, delivered, publisher } = setUp();
  const answer = publisher.publish(update('u', 'data:a/b', 'data:a'), null);
  log.held[0]?.settle();
  await answer;
  assert.deepEqual(log.held[0]?.record.entries[0]?.topics, ['data:a', 'data:a/b']);
  assert.deepEqual(delivered[0]?.topics, ['data:a', 'data:a/b']);
  assert.match(delivered[0]?.text ?? '', /"topics":\["data:a","data:a\/b"\]/);
});

test('delivers what other instances appended, with the places before it for our own clients', async () => {
  const { log, delivered, ids } = setUp();
  log.apply({ id: 'theirs', publisher: null, reason: null, entries: update('x').entries, callbacks: [] });
  assert.deepEqual(ids(), ['theirs']);
  assert.deepEqual((JSON.parse(delivered[0]?.extendedText ?? '') as { prev: unknown }).prev, { t: 0 });
  assert.doesNotMatch(delivered[0]?.text ?? '', /prev/);
});

test('each form is printed when somebody is to get it, and then once', async () => {
  const { log, delivered } = setUp();
  const printed: string[] = [];
  const { entries } = update('u');
  const config = {
    toJSON: () => {
      printed.push('config');
      return {};
    },
  };
  log.apply({ id: 'u', publisher: null, reason: null, entries: entries.map((e) => ({ ...e, config })), callbacks: [] });
  assert.deepEqual(printed, []);
  const [publication] = delivered;
  assert.equal(publication?.text, publication?.text);
  assert.deepEqual(printed, ['config']);
});

test('the log line of an update shows ten of its entries and how many there are', async () => {
  const lines: { fields: object; text: string }[] = [];
  const info = (fields: object, text: string): void => void lines.push({ fields, text });
  const { log, publisher } = setUp({ ...silentLogger(), info } as Logger);
  const [entry] = update('u').entries;
  assert(entry !== undefined);
  const entries = Array.from({ length: 1000 }, (_, index) => ({ ...entry, dst_path: `/a/${index}` }));
  const answer = publisher.publish({ ...update('u'), entries }, null);
  log.held[0]?.settle();
  await answer;
  const [line] = lines;
  assert.equal(line?.text, 'data update published');
  const fields = line.fields as { entry_count: number; entries: { path: string }[] };
  assert.equal(fields.entry_count, 1000);
  assert.deepEqual(
    fields.entries.map(({ path }) => path),
    Array.from({ length: 10 }, (_, index) => `/a/${index}`),
  );
  assert(JSON.stringify(fields).length < 5000);
});

test('a failed append delivers nothing', async () => {
  const { log, publisher, ids } = setUp();
  const answer = publisher.publish(update('u'), null);
  log.held[0]?.settle(new SyncError('log_unwritable', 'disk full'));
  await assert.rejects(answer, { code: 'log_unwritable' });
  assert.deepEqual(ids(), []);
});

test('a repetition under an Idempotency-Key is answered as the first, and delivered once; keys are of one publisher', async () => {
  const { publisher, ids } = setUp();
  const first = await publisher.publish(update('u'), 'me', { once: { key: 'k', elsewhere: async () => 2 } });
  const again = await publisher.publish(update('u'), 'me', { once: { key: 'k', elsewhere: async () => 0 } });
  assert.deepEqual([first.replayed, first.subscribers, again], [false, 5, { ...first, replayed: true }]);
  const other = await publisher.publish(update('u'), 'another', { once: { key: 'k', elsewhere: async () => 0 } });
  assert.equal(other.replayed, false);
  assert.deepEqual(ids(), ['u', 'u']);
});

test('an update says how long it is retained, else the setting does; too much inline data is refused', async () => {
  const { log, publisher } = setUp();
  const answers = [{}, { retain: true }, { retain: 0 }, { retain: 5 }].map((more) =>
    publisher.publish({ ...update('u'), ...more }, null),
  );
  assert.deepEqual(
    log.held.map(({ record }) => record.retain),
    [60, true, false, 5],
  );
  for (const { settle } of log.held) settle();
  await Promise.all(answers);
  const entry = { topics: ['t'], dst_path: '/a', url: '', data: JsonText.of('x'.repeat(10)) };
  const large = dataUpdate.parse({ entries: [entry, entry] });
  await assert.rejects(publisher.publish(large, null), { code: 'inline_data_too_large', status: 413 });
});

test('gives an update without id a new one of 32 hex digits', async () => {
  const { log, publisher } = setUp();
  const answer = publisher.publish({ ...update('x'), id: null }, null);
  log.held[0]?.settle();
  assert.match((await answer).id, /^[0-9a-f]{32}$/);
});

test('an update that breaks a rule is neither recorded nor delivered', async () => {
  const { log, delivered, publisher } = setUp();
  const wrong = dataUpdate.parse({ entries: [{ url: '', topics: ['t'], dst_path: '/a' }] });
  await assert.rejects(publisher.publish(wrong, null), (error: SyncError) => {
    assert.equal(error.code, 'request_invalid');
    assert.deepEqual((error.detail as { loc: unknown }[])[0]?.loc, ['body', 'entries', 0, 'url']);
    return true;
  });
  assert.equal(log.held.length, 0);
  assert.equal(delivered.length, 0);
});
