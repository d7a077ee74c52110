import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { LayerClient } from '../../../test/support/layer-client.js';
import { assertSameDocuments } from '../../../test/support/same-documents.js';
import { JsonText } from '../../lib/json/json-text.js';
import type { PeerEntry } from '../../wire/data.js';
import { baseIdentity } from './base-entry.js';
import { FoldedState } from './folded-state.js';
import { generationText, updateBodyText } from './row.js';

/**
 * Deletions that only remove (design D48): what a newcomer is given, and what others hold, over
 * data of any commit.
 */

const path = fc.array(fc.constantFrom('a', 'b', 'c'), { maxLength: 3 }).map((at) => `/${at.join('/')}`);
const topics = fc.constantFrom<string[]>(['x'], ['y'], ['x', 'y'], ['x']);
// Below a path are objects, and `x` is no path.
const member = fc.oneof(fc.constant({}), fc.record({ x: fc.nat(9) }), fc.record({ a: fc.record({ x: fc.nat(9) }) }));
const document = fc.dictionary(fc.constantFrom('a', 'b'), member, { maxKeys: 2 });
const pointer = fc.constantFrom('/x', '/a/x', '/b/x', '/b');
const patch = fc.oneof(
  fc.record({ op: fc.constant('add'), path: fc.constantFrom('/x', '/a/x', '/b/x'), value: fc.nat(9) }),
  fc.record({ op: fc.constant('remove'), path: pointer }),
);

const put = fc
  .record({ path, topics, document })
  .map((drawn) => entry('PUT', drawn, { data: JsonText.of(drawn.document) }));
const patched = fc
  .record({ path, topics, ops: fc.array(patch, { minLength: 1, maxLength: 2 }) })
  .map((drawn) => entry('PATCH', drawn, { data: JsonText.of(drawn.ops) }));
const removal = fc.record({ path, topics }).map((drawn) => entry('DELETE', drawn, { only_removes: true }));
const deletion = fc.record({ path, topics }).map((drawn) => entry('DELETE', drawn, {}));

function entry(
  save_method: PeerEntry['save_method'],
  drawn: { path: string; topics: string[] },
  more: Partial<PeerEntry>,
): PeerEntry {
  return { url: '', topics: drawn.topics, dst_path: drawn.path, save_method, ...more };
}

const commit = fc
  .dictionary(
    fc.constantFrom('/a', '/a/b', '/a/b/c', '/b', '/c/a'),
    document.map((value) => JSON.stringify(value)),
    { maxKeys: 3 },
  )
  .map((data) => Object.fromEntries(Object.entries(data).sort(([a], [b]) => a.localeCompare(b))));

const step = fc.oneof(
  {
    weight: 8,
    arbitrary: fc.record({
      append: fc.array(
        fc.oneof(
          { weight: 4, arbitrary: put },
          { weight: 3, arbitrary: removal },
          { weight: 1, arbitrary: deletion },
          { weight: 2, arbitrary: patched },
        ),
        { minLength: 1, maxLength: 2 },
      ),
    }),
  },
  { weight: 2, arbitrary: fc.record({ commit }) },
  { weight: 2, arbitrary: fc.constant({ rest: true }) },
);

const CLIENTS = [['x'], ['y'], ['x', 'y']];

function append(state: FoldedState, entries: readonly PeerEntry[]): number {
  const seq = state.head + 1;
  const record = { id: 'u', publisher: null, reason: null, entries, callbacks: [] };
  state.apply({ seq, kind: 'update', timeMs: seq, body: updateBodyText(record) });
  return seq;
}

function paths(state: FoldedState): string[] {
  return state.fold.entries().map(({ entry: { save_method, dst_path } }) => `${save_method} ${dst_path}`);
}

const X = { topics: ['x'] };
const removed = (at: string, of = ['x']): PeerEntry =>
  entry('DELETE', { path: at, topics: of }, { only_removes: true });
const written = (at: string, of = ['x'], value: object = {}): PeerEntry =>
  entry('PUT', { path: at, topics: of }, { data: JsonText.of(value) });

describe('deletions that only remove', () => {
  it('property: whatever commit comes, a newcomer holds what one holds who has seen every update', () => {
    fc.assert(
      fc.property(fc.array(step, { maxLength: 24, size: 'max' }), (steps) => {
        const state = new FoldedState();
        const old = CLIENTS.map((of) => ({ of, client: new LayerClient(of) }));
        let data: Readonly<Record<string, string>> = {};
        for (const one of steps) {
          if ('commit' in one) data = one.commit;
          else if ('rest' in one) for (const { client } of old) client.forget();
          else {
            const seq = append(state, one.append);
            for (const { client } of old) client.learn(one.append.map((each) => ({ seq, entry: each })));
          }
          for (const { of, client } of old) {
            const newcomer = new LayerClient(of).learn(state.fold.entries()).commit(data);
            assertSameDocuments(newcomer.text, client.commit(data).text, of.join());
          }
        }
      }),
      { numRuns: 500 },
    );
  });

  it('are given to nobody where nothing is that they remove, and their rows end with what is kept', () => {
    const state = new FoldedState();
    for (let at = 0; at < 100; at++) {
      append(state, [written(`/live/d${at}`)]);
      append(state, [removed(`/live/d${at}`)]);
    }
    assert.deepEqual(paths(state), []);
    assert.equal(state.fold.ended().length, 100);
    assert.deepEqual(
      state.takeUnused().sort((a, b) => a - b),
      Array.from({ length: 100 }, (_, at) => 2 * at + 1),
      'the rows of the documents',
    );
    const before = state.fold.version;
    assert(state.fold.expire(150, { keptMs: 50, atMost: 1000, after: 200 }), 'by age');
    assert.equal(state.fold.ended().length, 51);
    assert(state.fold.expire(150, { keptMs: 50, atMost: 10, after: 200 }), 'by number');
    assert.deepEqual(
      state.fold.ended().map(({ seq }) => seq),
      Array.from({ length: 10 }, (_, at) => 182 + 2 * at),
    );
    assert.notEqual(state.fold.version, before);
    // The last row is that of its topic.
    assert.equal(state.takeUnused().length, 90);
  });

  it('stay while something older overlaps them that somebody may be given', () => {
    const cases: { name: string; before: PeerEntry[]; until: PeerEntry[] }[] = [
      { name: 'a document above', before: [written('/a')], until: [written('/a')] },
      { name: 'the document on another topic', before: [written('/a/b', ['x', 'y'])], until: [written('/a/b', ['y'])] },
      { name: 'a document below on another topic', before: [written('/a/b/c', ['y'])], until: [removed('/a', ['y'])] },
      {
        name: 'a patch above',
        before: [entry('PATCH', { path: '/a', ...X }, { data: JsonText.of([{ op: 'add', path: '/b', value: 1 }]) })],
        until: [entry('PATCH', { path: '/a', ...X }, { data: JsonText.of([{ op: 'add', path: '/b', value: 2 }]) })],
      },
    ];
    for (const { name, before, until } of cases) {
      const state = new FoldedState();
      append(state, before);
      append(state, [removed('/a/b')]);
      append(state, [written('/z')]);
      assert(paths(state).includes('DELETE /a/b'), name);
      append(state, until);
      assert(!paths(state).includes('DELETE /a/b'), name);
    }
  });

  it('stay over a base entry, which may come back, and end with it', () => {
    const base = { url: 'http://base', topics: ['x'], dst_path: '/a/b', save_method: 'PUT' as const };
    const state = new FoldedState();
    const configure = (entries: readonly (typeof base)[]): void => {
      const placed = state.fold.base();
      const listed = entries.map((one) => ({
        place: placed.find((other) => baseIdentity(other.entry) === baseIdentity(one))?.place,
        entry: one,
      }));
      const body = generationText(String(state.head), [], listed, state.fold.superseded());
      state.apply({ seq: state.head + 1, kind: 'base', timeMs: 0, body });
    };
    configure([base]);
    append(state, [removed('/a')]);
    assert.deepEqual(paths(state), ['DELETE /a']);
    configure([base, { ...base, dst_path: '/other' }]);
    assert.deepEqual(paths(state), ['DELETE /a', 'PUT /other'], 'it does not come back');
    configure([{ ...base, dst_path: '/other' }]);
    assert.deepEqual(paths(state), ['PUT /other']);
  });

  it('one that hides data of a commit stays', () => {
    const state = new FoldedState();
    append(state, [written('/a')]);
    append(state, [entry('DELETE', { path: '/a', ...X }, {})]);
    assert.deepEqual(paths(state), ['DELETE /a']);
  });

  it('of one place the last one is kept, and none where something is again', () => {
    const state = new FoldedState();
    for (let round = 0; round < 5; round++) {
      append(state, [written('/a')]);
      append(state, [removed('/a')]);
    }
    assert.deepEqual(
      state.fold.ended().map(({ seq }) => seq),
      [10],
    );
    append(state, [written('/')]);
    assert.deepEqual(state.fold.ended(), []);
  });
});
