import assert from 'node:assert/strict';
import { test } from 'node:test';
import { printJson } from '../../lib/json/json-text.js';
import { dataUpdate, peerEntry } from '../../wire/data.js';
import { parseKeepingData } from '../../wire/inline-data.js';
import type { LogRecord } from '../log/update-log.js';
import { OwnEvents } from './publish.js';

const subscriber = (extended = false) => ({ extended, send: () => undefined });

/** A record as it is appended, and as it comes back from a log that others write to. */
function records(dst: string): { made: LogRecord; read: LogRecord } {
  const text = `{"entries":[{"url":"","topics":["t"],"dst_path":"${dst}","data":{"n":1.0},"config":{"headers":{"a":"b"}}}]}`;
  const { entries } = dataUpdate.parse(parseKeepingData(text));
  const base = { id: 'one', publisher: null, reason: null, callbacks: [], retain: true as const, seq: 1, timeMs: 0 };
  const again = (parseKeepingData(printJson({ entries })) as { entries: unknown[] }).entries.map((entry) =>
    peerEntry.parse(entry),
  );
  return { made: { ...base, entries }, read: { ...base, entries: again } as LogRecord };
}

test('the publisher of a record is known when it is delivered, once', () => {
  const own = new OwnEvents();
  const publisher = subscriber();
  for (const kind of ['made', 'read'] as const) {
    own.expect(records('/a').made, publisher);
    assert.equal(own.publisherOf(records('/a')[kind]), publisher, kind);
    assert.equal(own.publisherOf(records('/a')[kind]), undefined, 'once');
  }
});

test('a record of somebody else under the same id is for everybody', () => {
  const own = new OwnEvents();
  const forget = own.expect(records('/a').made, subscriber());
  assert.equal(own.publisherOf(records('/b').made), undefined);
  assert.equal(own.publisherOf({ ...records('/a').made, id: 'two' }), undefined);
  forget();
  forget();
  assert.equal(own.publisherOf(records('/a').made), undefined, 'what failed is not waited for');
});
