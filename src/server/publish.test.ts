import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SyncError } from '../lib/errors.js';
import { silentLogger } from '../lib/log.js';
import { dataUpdate } from '../wire/data.js';
import type { LogRecord, NewRecord, UpdateLog } from './log/update-log.js';
import { createPublisher } from './publish.js';

/** A log whose appends get their place at once and become durable when the test says so. */
class HeldLog implements Pick<UpdateLog, 'append' | 'epoch'> {
  readonly epoch = 'e';
  readonly held: { record: LogRecord; settle(error?: Error): void }[] = [];
  #seq = 0;

  append(fields: NewRecord): Promise<LogRecord> {
    this.#seq += 1;
    const record = { ...fields, seq: this.#seq, timeMs: 0 };
    return new Promise((resolve, reject) => {
      this.held.push({ record, settle: (error) => (error === undefined ? resolve(record) : reject(error)) });
    });
  }
}

function setUp() {
  const log = new HeldLog();
  const delivered: { topics: readonly string[]; text: string; extendedText?: string }[] = [];
  const hub = { publish: (publication: (typeof delivered)[number]) => delivered.push(publication) };
  const publisher = createPublisher({ updateLog: log as unknown as UpdateLog, hub, log: silentLogger() });
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
  assert.deepEqual(await answer, { id: 'u1', seq: 1, epoch: 'e', subscribers: 1 });
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

test('delivers in seq order, also when a later append is durable first and another one fails', async () => {
  const { log, publisher, ids } = setUp();
  const answers = ['u1', 'u2', 'u3', 'u4'].map((id) => publisher.publish(update(id), null));
  const failed = assert.rejects(answers[1] ?? Promise.resolve(), { code: 'log_unwritable' });
  await settled();
  log.held[3]?.settle();
  log.held[2]?.settle();
  await settled();
  assert.deepEqual(ids(), []);
  log.held[1]?.settle(new SyncError('log_unwritable', 'disk full'));
  log.held[0]?.settle();
  await Promise.allSettled(answers);
  await failed;
  assert.deepEqual(ids(), ['u1', 'u3', 'u4']);
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
