import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { test } from 'node:test';
import fc from 'fast-check';
import { JsonText } from '../../lib/json/json-text.js';
import type { PeerEntry, SaveMethod } from '../../wire/data.js';
import { docPathText, isAtOrBelow } from '../../wire/doc-path.js';
import { type KnownClient, newClient } from '../clients/known-client.js';
import type { FoldedEntry } from '../log/update-log.js';
import { DocumentReach } from './document-reach.js';
import { compareDocPaths, type DocumentRow, DocumentRows, documentAt, rangeOf } from './document-rows.js';
import { InlineDigests } from './documents.js';

function folded(seq: number, save_method: SaveMethod, dst_path: string, topics = ['t']): FoldedEntry {
  const entry: PeerEntry = { url: 'http://x', topics, dst_path, save_method };
  return { seq, origin: 'update', entry };
}

/** Rows as `path method seqs patches versions topics`. */
async function shown(fold: readonly FoldedEntry[], permitted?: readonly string[]): Promise<string[]> {
  const seesTopic = (topic: string): boolean => permitted?.includes(topic) ?? true;
  const sees = ({ entry }: FoldedEntry): boolean => entry.topics.some(seesTopic);
  return (await new DocumentRows(true).of(fold, 9)).rows.flatMap((row) => {
    const at = documentAt(row, sees, seesTopic);
    if (at === undefined) return [];
    const { main, seqs, patches, versions, topics } = at;
    return [`${docPathText(row.path)} ${main.entry.save_method} ${seqs} +${patches} x${versions} ${[...topics]}`];
  });
}

test('one row for each path, by path; what is deleted has none', async () => {
  const fold = [
    folded(1, 'PUT', '/b'),
    folded(2, 'PUT', 'a//b/'),
    folded(3, 'PATCH', '/b'),
    folded(4, 'DELETE', '/c'),
    folded(5, 'PATCH', '/d'),
    folded(6, 'PATCH', '/d'),
    folded(7, 'PUT', ''),
  ];
  assert.deepEqual(await shown(fold), [
    '/ PUT 7 +0 x1 t',
    '/a/b PUT 2 +0 x1 t',
    '/b PUT 1,3 +1 x1 t',
    '/d PATCH 5,6 +1 x0 t',
  ]);
});

test('documents of other topics at one path are counted; a limited caller sees its own', async () => {
  const fold = [folded(1, 'PUT', '/a', ['x', 'z']), folded(2, 'PUT', '/a', ['y'])];
  assert.deepEqual(await shown(fold), ['/a PUT 1,2 +0 x2 x,z,y']);
  assert.deepEqual(await shown(fold, ['x']), ['/a PUT 1 +0 x1 x']);
  assert.deepEqual(await shown(fold, ['other']), []);
});

test('rows of the same fold are grouped once', async () => {
  const rows = new DocumentRows(true);
  const fold = [folded(1, 'PUT', '/a')];
  const [first, again, other] = [await rows.of(fold, 9), await rows.of(fold, 10), await rows.of([...fold], 11)];
  assert.deepEqual([first.rows === again.rows, first.rows === other.rows], [true, false]);
  assert.deepEqual([first.head, again.head, other.head], [9, 10, 11]);
});

test('where updates are not retained, and where they repeat a base entry, a new client writes the base entry alone', async () => {
  const base: FoldedEntry = { ...folded(1, 'PUT', '/a'), origin: 'base' };
  const fold = [base, folded(2, 'PUT', '/a'), folded(3, 'PUT', '/b')];
  const of = async (retained: boolean): Promise<string[]> =>
    (await new DocumentRows(retained).of(fold, 9)).rows.map(
      ({ path, entries }) => `${docPathText(path)} ${entries.map(({ seq }) => seq)}`,
    );
  assert.deepEqual(await of(true), ['/a 1', '/b 3']);
  assert.deepEqual(await of(false), ['/a 1']);
});

test('a large fold is grouped in turns, in the order of the paths, and others run in between', async () => {
  const count = 25_000;
  const fold = Array.from({ length: count }, (_, index) => folded(index + 1, 'PUT', `/p${(index * 7919) % count}`));
  let turns = 0;
  const ticking = setInterval(() => turns++, 0);
  const rows = new DocumentRows(true);
  const { rows: found } = await rows.of(fold, count);
  clearInterval(ticking);
  assert(turns > 5, `${turns} turns`);
  assert.equal(found.length, count);
  for (const [index, { path }] of found.entries()) {
    assert(index === 0 || compareDocPaths(found[index - 1]?.path ?? [], path) < 0);
  }
  const changed = await rows.of(fold.slice(1), count + 1);
  assert.deepEqual(
    [changed.rows === found, changed.head],
    [true, count],
    'for a moment the rows of before, and their head',
  );
});

test('property: rows are in the order of their paths, and a page is what lies below a path after another one', async () => {
  const docPath = fc.array(fc.constantFrom('a', 'b', 'a b', 'é'), { maxLength: 3 });
  await fc.assert(
    fc.asyncProperty(
      fc.array(docPath, { maxLength: 30 }),
      docPath,
      fc.option(docPath),
      async (paths, prefix, after) => {
        const fold = paths.map((path, index) => folded(index + 1, 'PUT', path.map(encodeURIComponent).join('/')));
        const { rows: all } = await new DocumentRows(true).of(fold, 9);
        const texts = (rows: readonly DocumentRow[]): string[] => rows.map(({ path }) => docPathText(path));
        assert.deepEqual(texts(all).toSorted(), [...new Set(paths.map((path) => docPathText(path)))].toSorted());
        const { rows, from } = rangeOf(all, { prefix, after: after ?? undefined });
        const below = all.filter(({ path }) => isAtOrBelow(path, prefix));
        assert.deepEqual(texts(rows), texts(below));
        const later = below.filter(({ path }) => after === null || compareDocPaths(path, after) > 0);
        assert.deepEqual(texts(rows.slice(from)), texts(later));
      },
    ),
    { numRuns: 200 },
  );
});

function client(clientId: string, topics: readonly string[], more: Partial<KnownClient> = {}): KnownClient {
  const peer = { host: 'h', port: 1, topics: [...topics], connectedAtMs: 0 };
  const about = { instance: 'i', claimedMs: 0, spans: [] };
  return { ...newClient({ kind: 'session', subject: null, clientId }, peer, about), ...more };
}

function state(failing: readonly string[], blocked: readonly number[] = []): KnownClient['state'] {
  const engine = { kind: 'opa', version: null, online: true };
  const fails = failing.map((path) => ({ path, error: 'no' }));
  return { policy_hash: null, ready: true, healthy: false, since: 0, engine, failing: fails, blocked: [...blocked] };
}

test('who gets a document, and who of them cannot write it or something below', () => {
  const reach = new DocumentReach([
    client('a', ['x', 'y']),
    client('b', ['y'], { state: state(['/d/e', 'the data configuration']) }),
    client('c', ['z'], { state: state(['/d']) }),
    client('d', ['x'], { state: state([], [7]) }),
    client('e', [], { topicsLeftOut: 3 }),
    client('f', ['__EventNotifier_ALL_TOPICS__']),
  ]);
  const of = (path: string, topics: string[], seqs: number[] = []) => reach.of(path, { topics, seqs });
  const counts = (...given: Parameters<typeof of>): number[] => {
    const { clients, refusedBy } = of(...given);
    return [clients, refusedBy];
  };
  assert.deepEqual(counts('/d', ['x', 'y']), [5, 1], 'c fails there and does not get it');
  assert.deepEqual(counts('/d/e', ['y']), [4, 1]);
  assert.deepEqual(counts('/d/e/f', ['y']), [4, 0]);
  assert.deepEqual(counts('/', ['x', 'y', 'z']), [6, 2]);
  assert.deepEqual(counts('/q', ['x'], [6, 7]), [4, 1]);
});

test('of those that cannot write a document the worst failure is told: refused by the engine, then engine, then source', () => {
  const failing = (kind: string | undefined, error: string): Partial<KnownClient> => {
    const at = state(['/d/e']);
    return { state: at && { ...at, failing: [{ path: '/d/e', error, ...(kind !== undefined && { kind }) }] } };
  };
  const all = [
    client('a', ['x'], failing('source', 'gone')),
    client('b', ['x'], failing(undefined, 'of an older client')),
    client('c', ['y'], failing('engine', 'away')),
    client('d', ['z'], failing('refused', 'a rule is there')),
    client('e', ['z'], failing('refused', 'another rule')),
    client('f', ['z'], { state: state([], [7]) }),
  ];
  const reach = new DocumentReach(all);
  const told = (topics: string[], seqs: number[] = []) => reach.of('/d', { topics, seqs }).worst;
  assert.equal(told(['q']), undefined);
  assert.deepEqual(told(['x']), { kind: 'source', error: 'gone', clients: 1 });
  assert.deepEqual(told(['x', 'y']), { kind: 'engine', error: 'away', clients: 1 });
  assert.deepEqual(told(['x', 'y', 'z'], [7]), { kind: 'refused', error: 'a rule is there', clients: 3 });
  assert.deepEqual(new DocumentReach(all.slice(5)).of('/q', { topics: ['z'], seqs: [7] }).worst, {
    kind: 'refused',
    error: undefined,
    clients: 1,
  });
});

test('the digest of inline data is that of its bytes, and is made once', async () => {
  const digests = new InlineDigests();
  for (const text of ['"é"', `"${'x'.repeat(256 * 1024 - 2)}😀${'é'.repeat(300_000)}"`]) {
    const data = JsonText.trusted(text);
    const expected = { bytes: Buffer.byteLength(text), hash: createHash('sha256').update(text).digest('hex') };
    assert.deepEqual(await digests.of(data), expected);
    assert.equal(digests.of(data), digests.of(data));
  }
});
