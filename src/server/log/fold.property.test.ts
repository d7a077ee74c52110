import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { NaiveClient } from '../../../test/support/naive-client.js';
import { assertSameDocuments } from '../../../test/support/same-documents.js';
import { JsonText } from '../../lib/json/json-text.js';
import type { PeerEntry } from '../../wire/data.js';
import { nextGeneration } from './base-config.js';
import { baseIdentity } from './base-entry.js';
import { FoldedState } from './folded-state.js';
import type { StoredRow } from './log-store.js';
import type { Compaction } from './place.js';
import { compactionText, updateBodyText } from './row.js';
import type { NewRecord } from './update-log.js';

/**
 * Fold, tail and compaction against a naive model: a client that applies every update in order,
 * with nothing left out.
 */

const docPath = fc.array(fc.constantFrom('a', 'b', 'c'), { maxLength: 3 }).map((path) => `/${path.join('/')}`);
const folder = fc.array(fc.constantFrom('a', 'b'), { minLength: 1, maxLength: 2 }).map((path) => `/${path.join('/')}`);
const place = fc.array(fc.constantFrom('a', 'b'), { maxLength: 1 }).map((path) => `/${[...path, 'x'].join('/')}`);
const pointer = fc.oneof(folder, place);
const topics: fc.Arbitrary<string[]> = fc.constantFrom<string[]>(['x'], ['y'], ['x', 'y'], ['x'], ['x']);
const leaf = fc.nat(99).map((value) => value + 1);
// Below a path are objects, and `x` is no path: what a write makes of a value on its way is not
// looked at here.
const member = fc.oneof(fc.record({ x: leaf }), fc.record({ a: fc.record({ x: leaf }) }));
const setting = fc.constantFrom('add', 'replace');
const plainOp = fc.oneof(
  fc.record({ op: setting, path: folder, value: member }),
  fc.record({ op: setting, path: place, value: leaf }),
  fc.record({ op: fc.constant('remove'), path: pointer }),
);
const readingOp = fc.oneof(
  fc.record({ op: fc.constant('test'), path: pointer, value: leaf }),
  fc.record({ op: fc.constantFrom('move', 'copy'), from: pointer, path: pointer }),
);
const plainPatch = fc.array(plainOp, { minLength: 1, maxLength: 3 });
const anyPatch = fc.oneof({ weight: 5, arbitrary: plainPatch }, { weight: 1, arbitrary: readingOp.map((op) => [op]) });
const document = fc.dictionary(fc.constantFrom('a', 'b'), member, { maxKeys: 2 });

function anyEntry(patches: fc.Arbitrary<readonly object[]>): fc.Arbitrary<PeerEntry> {
  return fc.oneof(
    {
      weight: 3,
      arbitrary: fc
        .record({ dst_path: docPath, topics, document })
        .map((drawn) => newEntry('PUT', drawn, JsonText.of(drawn.document))),
    },
    {
      weight: 2,
      arbitrary: fc
        .record({ dst_path: docPath, topics, id: leaf })
        .map((drawn) => ({ ...newEntry('PUT', drawn), url: `http://source/${drawn.id}` })),
    },
    { weight: 1, arbitrary: fc.record({ dst_path: docPath, topics }).map((drawn) => newEntry('DELETE', drawn)) },
    {
      weight: 6,
      arbitrary: fc
        .record({ dst_path: docPath, topics, patch: patches })
        .map((drawn) => newEntry('PATCH', drawn, JsonText.of(drawn.patch))),
    },
  );
}

function newEntry(
  save_method: PeerEntry['save_method'],
  { dst_path, topics: names }: { dst_path: string; topics: string[] },
  data?: JsonText,
): PeerEntry {
  return { url: '', topics: [...names], dst_path, save_method, ...(data === undefined ? {} : { data }) };
}

// What reads a document that something newer replaced reads the newer one, here and in every
// client: only what sets and removes has one outcome, whatever was left out.
const anyRecords = fc.array(fc.array(anyEntry(plainPatch), { minLength: 1, maxLength: 2 }), {
  maxLength: 20,
  size: 'max', // without it an array has ten elements at most
});

/** A client of some topics that holds nothing yet. */
function newClient(of: readonly string[]): NaiveClient {
  return new NaiveClient(of, ({ url }) => `{"a":{"url":${JSON.stringify(url)}}}`);
}

const CLIENTS = [['x'], ['y'], ['x', 'y']];

function newRecord(entries: readonly PeerEntry[]): NewRecord {
  return { id: 'u', publisher: null, reason: null, entries, callbacks: [] };
}

function entriesText(entries: readonly PeerEntry[]): string {
  return updateBodyText(newRecord(entries));
}

function updateRow(seq: number, entries: readonly PeerEntry[]): StoredRow {
  return { seq, kind: 'update', timeMs: 0, body: entriesText(entries) };
}

test('property: who applies the fold holds what they hold who applied every update', () => {
  fc.assert(
    fc.property(anyRecords, (lists) => {
      const state = new FoldedState();
      const clients = CLIENTS.map((of) => ({ of, all: newClient(of) }));
      for (const [index, entries] of lists.entries()) {
        state.apply(updateRow(index + 1, entries));
        const fold = state.fold.entries().map(({ entry }) => entry);
        for (const { of, all } of clients)
          assertSameDocuments(newClient(of).apply(fold).text, all.apply(entries).text, of.join());
      }
    }),
    { numRuns: 100 },
  );
});

test('property: who was at any position, and applies what of the fold came after it, holds the same', () => {
  fc.assert(
    fc.property(anyRecords, (lists) => {
      const state = new FoldedState();
      for (const [index, entries] of lists.entries()) state.apply(updateRow(index + 1, entries));
      for (const client of CLIENTS) {
        const all = newClient(client).apply(lists.flat()).text;
        const before = newClient(client);
        for (let at = 0; at <= lists.length; at++) {
          const after = state.fold.entries().filter(({ seq }) => seq > at);
          const now = before.copy().apply(after.map(({ entry }) => entry));
          assertSameDocuments(now.text, all, `${client.join()} from ${at}`);
          before.apply(lists[at] ?? []);
        }
      }
    }),
    { numRuns: 100 },
  );
});

/** What is found by topics, and by a base entry, is what a walk through all entries finds. */
function assertPartsOf(fold: FoldedState['fold']): void {
  const all = fold.entries();
  for (const of of [...CLIENTS, []])
    assert.deepEqual(
      fold.entriesOn(of),
      all.filter(({ entry }) => entry.topics.some((topic) => of.includes(topic))),
      of.join(),
    );
  const bases = new Set(all.filter(({ origin }) => origin === 'base').map(({ entry }) => baseIdentity(entry)));
  for (const { entry } of all) assert.equal(fold.hasBase(entry), bases.has(baseIdentity(entry)));
}

/** What a reader makes of the rows that are left. */
function readAgain(rows: ReadonlyMap<number, StoredRow>): FoldedState {
  const state = new FoldedState();
  for (const row of [...rows.values()].sort((a, b) => a.seq - b.seq)) state.apply(row);
  return state;
}

const BASES = ['/a', '/a/b', '/c', '/'].flatMap((path) => [['x'], ['x', 'y']].map((topics) => ({ path, topics })));

function baseEntry({ path, topics }: (typeof BASES)[number]): PeerEntry {
  return { url: 'http://base', topics, dst_path: path, save_method: 'PUT' };
}

/** What appends to a list, and documents with one: lists are nowhere else. */
const listEntry = fc.oneof(
  fc
    .record({ dst_path: docPath, topics, l: fc.array(leaf, { maxLength: 2 }) })
    .map(({ l, ...drawn }) => newEntry('PUT', drawn, JsonText.of({ l, a: { l } }))),
  fc
    .record({ dst_path: docPath, topics, path: fc.constantFrom('/l/-', '/a/l/-'), value: leaf })
    .map(({ path, value, ...drawn }) => newEntry('PATCH', drawn, JsonText.of([{ op: 'add', path, value }]))),
);

/** A deletion that only removes: see `removals.property.test.ts`. */
const removal = fc
  .record({ dst_path: docPath, topics })
  .map((drawn): PeerEntry => ({ ...newEntry('DELETE', drawn), only_removes: true }));

const doing: fc.Arbitrary<Step> = fc.oneof(
  { weight: 6, arbitrary: fc.record({ append: fc.array(anyEntry(anyPatch), { minLength: 1, maxLength: 2 }) }) },
  { weight: 6, arbitrary: fc.record({ append: fc.array(listEntry, { minLength: 1, maxLength: 2 }) }) },
  { weight: 2, arbitrary: fc.record({ append: fc.array(removal, { minLength: 1, maxLength: 2 }) }) },
  { weight: 2, arbitrary: fc.record({ compact: fc.nat(3) }) },
  { weight: 2, arbitrary: fc.constant({ written: true }) },
  { weight: 1, arbitrary: fc.constant({ forget: true }) },
  { weight: 1, arbitrary: fc.record({ base: fc.subarray(BASES) }) },
  { weight: 1, arbitrary: fc.record({ refresh: fc.constantFrom(...BASES) }) },
  { weight: 2, arbitrary: fc.constant({ reopen: true }) },
);

type Step =
  | { append: PeerEntry[] }
  | { compact: number }
  | { written: true }
  | { forget: true }
  | { base: typeof BASES }
  | { refresh: (typeof BASES)[number] }
  | { reopen: true };

function put(dst_path: string, document: object = {}, topics = ['x']): PeerEntry {
  return newEntry('PUT', { dst_path, topics }, JsonText.of(document));
}

function patch(dst_path: string, ...ops: object[]): PeerEntry {
  return newEntry('PATCH', { dst_path, topics: ['x'] }, JsonText.of(ops));
}

const ROOT_BASE = { path: '/', topics: ['x'] };
const A_BASE = { path: '/a', topics: ['x', 'y'] };
const C_BASE = { path: '/c', topics: ['x'] };
const REMOVE = { op: 'remove', path: '/a' };
const ADD = { op: 'add', path: '/x', value: 1 };

/** Found by other runs, each a state that was lost or came back. */
const ONCE_WRONG: Step[][] = [
  // A patch that a base entry keeps from its document joined it when the rows were read again, and
  // then covered that entry.
  [
    { append: [put('/')] },
    { base: [C_BASE] },
    { append: [patch('/', REMOVE)] },
    { base: [C_BASE, { path: '/a/b', topics: ['x'] }] },
    { reopen: true },
  ],
  [
    { base: [C_BASE, ROOT_BASE] },
    { append: [put('/')] },
    { refresh: C_BASE },
    { append: [patch('/', ADD)] },
    { base: [C_BASE] },
    { reopen: true },
  ],
  // A document that a patch was worked into was named as buried, and was gone for those who had the
  // two apart.
  [
    { append: [put('/', { a: { x: 1 } })] },
    { append: [put('/c')] },
    { append: [patch('/', { op: 'remove', path: '/x' }), put('/', {}, ['y'])] },
    { base: [{ ...C_BASE, topics: ['x', 'y'] }] },
    { append: [patch('/', ADD)] },
    { reopen: true },
    { base: [] },
  ],
  // A compaction threw out the document above that its patch had joined, since the row of its own
  // was gone.
  [
    { append: [put('/')] },
    { append: [put('/b')] },
    { append: [patch('/a', ADD), patch('/b', REMOVE)] },
    { compact: 1 },
    { written: true },
    { reopen: true },
  ],
  // A patch that a base entry had superseded was part of a document for those who read the rows,
  // and came back when that entry left.
  [
    { base: [A_BASE] },
    { append: [put('/', { l: [], a: { l: [] } }, ['y'])] },
    { append: [put('/a', { l: [] })] },
    { append: [{ ...patch('/a', ADD), topics: ['y'] }, patch('/', ADD)] },
    { refresh: A_BASE },
    { reopen: true },
    { base: [] },
  ],
];

test('property: a log that was compacted, retired and read again at any moment is the same log', () => {
  fc.assert(
    fc.property(fc.array(doing, { maxLength: 60, size: 'max' }), (steps) => {
      const rows = new Map<number, StoredRow>();
      /** One instance that is started again at times, and one that never is. */
      let states = [new FoldedState(), new FoldedState()] as const;
      const compactions: Compaction[] = [];
      const tidy = (): void => {
        for (const state of states) for (const seq of state.takeUnused()) rows.delete(seq);
      };
      let head = 0;
      const append = (kind: StoredRow['kind'], body: string): void => {
        const row: StoredRow = { seq: ++head, kind, timeMs: 0, body };
        rows.set(row.seq, row);
        for (const state of states) state.apply(row);
        tidy();
      };
      for (const [at, step] of steps.entries()) {
        // Either may be the one that writes.
        const state = states[at % 2] ?? states[0];
        if ('append' in step) {
          const record = newRecord(step.append);
          const problems = states.map((one) => one.fold.appendProblem(record)?.index);
          assert.equal(problems[0], problems[1], 'both judge alike');
          if (problems[0] === undefined) append('update', updateBodyText(record));
        } else if ('base' in step) {
          const given = step.base.map(baseEntry);
          const { body } = nextGeneration(given, state.generation, state.fold, true);
          tidy(); // as before any append of a generation
          if (body !== undefined) append('base', body);
        } else if ('refresh' in step) {
          const entry = { ...baseEntry(step.refresh), origin: 'base' as const };
          append('update', updateBodyText(newRecord([entry])));
        } else if ('compact' in step) {
          const documents = state.fold.entries().filter(({ origin, entry }) => origin === 'update' && entry.data);
          const chosen = documents.filter(({ entry }) => entry.save_method === 'PUT')[step.compact];
          const compaction = chosen && state.fold.compactionAt(chosen, state.head);
          if (compaction !== undefined) compactions.push(compaction);
        } else if ('written' in step) {
          for (const compaction of compactions.splice(0)) append('update', compactionText(compaction));
        } else if ('forget' in step) {
          // A compaction is written only as long as nothing came after it was made, or what came is
          // kept.
          if (compactions.length > 0) continue;
          for (const one of states) one.fold.expire(0, { keptMs: Number.POSITIVE_INFINITY, atMost: 0, after: head });
          tidy();
        } else {
          states = [readAgain(rows), states[1]];
          tidy();
        }
        const [now = [], before = []] = states.map((one) => one.fold.entries().map(({ entry }) => entry));
        // Who applies the same holds the same.
        if (entriesText(now) !== entriesText(before))
          for (const client of CLIENTS)
            assertSameDocuments(newClient(client).apply(now).text, newClient(client).apply(before).text, client.join());
        for (const topic of ['x', 'y']) assert.equal(states[0].topicHead(topic), states[1].topicHead(topic));
        for (const { fold } of states) assertPartsOf(fold);
      }
    }),
    { numRuns: 300, examples: ONCE_WRONG.map((steps) => [steps]) },
  );
});
