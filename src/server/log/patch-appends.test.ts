import assert from 'node:assert/strict';
import { describe, it, test } from 'node:test';
import fc from 'fast-check';
import { NaiveClient } from '../../../test/support/naive-client.js';
import { assertSameDocuments } from '../../../test/support/same-documents.js';
import { JsonText } from '../../lib/json/json-text.js';
import type { PeerEntry } from '../../wire/data.js';
import { FoldedState } from './folded-state.js';
import { hasAppends } from './patch-appends.js';
import { updateBodyText } from './row.js';
import type { NewRecord, Retain } from './update-log.js';

function entry(save_method: PeerEntry['save_method'], dst_path: string, data?: unknown, topics = ['x']): PeerEntry {
  return {
    url: data === undefined ? 'http://source/' : '',
    topics,
    dst_path,
    save_method,
    ...(data === undefined ? {} : { data: JsonText.of(data) }),
  };
}

const LIST = { l: [1] };
const APPEND = [{ op: 'add', path: '/l/-', value: 2 }];

function record(entries: readonly PeerEntry[], retain?: Retain): NewRecord {
  return { id: 'u', publisher: null, reason: null, entries, callbacks: [], retain };
}

function stateOf(...records: NewRecord[]): FoldedState {
  const state = new FoldedState();
  for (const [index, one] of records.entries()) {
    state.apply({ seq: index + 1, kind: 'update', timeMs: 0, body: updateBodyText(one) });
  }
  return state;
}

describe('an operation at -', () => {
  const cases: [what: string, before: PeerEntry[][], update: PeerEntry[], problem: RegExp | undefined][] = [
    ['over an inline document', [[entry('PUT', '/d', LIST)]], [entry('PATCH', '/d', APPEND)], undefined],
    [
      'below an inline document',
      [[entry('PUT', '/d', LIST)]],
      [entry('PATCH', '/d/l', [{ op: 'add', path: '/-', value: 2 }])],
      undefined,
    ],
    [
      'again and again',
      [[entry('PUT', '/d', LIST)], [entry('PATCH', '/d', APPEND)]],
      [entry('PATCH', '/d', [...APPEND, ...APPEND])],
      undefined,
    ],
    [
      'in the update of the document',
      [],
      [entry('PUT', '/d', LIST), entry('PATCH', '/d', APPEND), entry('PATCH', '/d', APPEND)],
      undefined,
    ],
    [
      'where there is no document',
      [],
      [entry('PATCH', '/d', APPEND)],
      /the log does not hold the document below it with its data; publish the document/,
    ],
    [
      'over a URL',
      [[entry('PUT', '/d')]],
      [entry('PATCH', '/d', APPEND)],
      /the log does not hold the document below it/,
    ],
    [
      'over a URL of the same update',
      [[entry('PUT', '/d', LIST)]],
      [entry('PUT', '/d'), entry('PATCH', '/d', APPEND)],
      /the log does not hold the document below it/,
    ],
    [
      'with a URL below',
      [[entry('PUT', '/d', LIST)], [entry('PUT', '/d/u')]],
      [entry('PATCH', '/d', APPEND)],
      /the log does not hold the document below it/,
    ],
    [
      'with a URL below in the same update',
      [[entry('PUT', '/d', LIST)]],
      [entry('PUT', '/d/u'), entry('PATCH', '/d', APPEND)],
      /does not hold|another entry/,
    ],
    [
      'beside a URL in the document, in the same update',
      [[entry('PUT', '/d', LIST)]],
      [entry('PUT', '/d/u'), entry('PATCH', '/d/l', [{ op: 'add', path: '/-', value: 2 }])],
      /another entry of the update/,
    ],
    [
      'over a patch from a URL',
      [[entry('PUT', '/d', LIST)], [entry('PATCH', '/d')]],
      [entry('PATCH', '/d', APPEND)],
      /the log does not hold the document below it/,
    ],
    [
      'on other topics',
      [[entry('PUT', '/d', LIST, ['x', 'y'])]],
      [entry('PATCH', '/d', APPEND)],
      /the log does not hold the document below it/,
    ],
    [
      'after a deletion',
      [[entry('PUT', '/d', LIST)], [entry('DELETE', '/d', undefined)]],
      [entry('PATCH', '/d', APPEND)],
      /the log does not hold the document below it/,
    ],
    [
      'to what is no list',
      [[entry('PUT', '/d', { l: 1 })]],
      [entry('PATCH', '/d', APPEND)],
      /there is no list to append to/,
    ],
    [
      'to what an earlier patch took away',
      [[entry('PUT', '/d', LIST)], [entry('PATCH', '/d', [{ op: 'remove', path: '/l' }])]],
      [entry('PATCH', '/d', APPEND)],
      /there is no list/,
    ],
    [
      'to what an earlier entry brings',
      [[entry('PUT', '/d', {})]],
      [entry('PATCH', '/d', [{ op: 'add', path: '/l', value: [] }]), entry('PATCH', '/d', APPEND)],
      undefined,
    ],
  ];
  for (const [what, before, update, problem] of cases) {
    it(`${what}: ${problem === undefined ? 'taken' : 'refused'}`, () => {
      const state = stateOf(...before.map((entries) => record(entries)));
      const found = state.fold.appendProblem(record(update));
      if (problem === undefined) assert.equal(found, undefined);
      else assert.match(found?.msg ?? 'taken', problem);
    });
  }

  it('in what is not retained, or only for a while: refused', () => {
    const state = stateOf(record([entry('PUT', '/d', LIST)]));
    for (const retain of [false, 60]) {
      assert.match(state.fold.appendProblem(record([entry('PATCH', '/d', APPEND)], retain))?.msg ?? '', /not retained/);
    }
    const limited = stateOf(record([entry('PUT', '/d', LIST)], 60));
    assert.match(
      limited.fold.appendProblem(record([entry('PATCH', '/d', APPEND)]))?.msg ?? '',
      /the log does not hold the document below it/,
    );
  });

  it('is seen however it is written', () => {
    for (const path of ['/l/-', '/l/\\u002d', '/l/\\u002D', '\\/l\\/-', '/l\\u002f-', '\\u002fl\\u002f\\u002d']) {
      const data = JsonText.trusted(`[{"op":"add","path":"${path}","value":1}]`);
      assert.equal(hasAppends(record([{ ...entry('PATCH', '/d', []), data }])), true, path);
    }
  });

  it('is told from a text that only looks like one', () => {
    assert.equal(hasAppends(record([entry('PATCH', '/d', [{ op: 'add', path: '/a', value: '/-' }])])), false);
    assert.equal(hasAppends(record([entry('PUT', '/d', APPEND)])), false);
    assert.equal(hasAppends(record([entry('PATCH', '/d', [{ op: 'add', path: '/-', value: 1 }])])), true);
  });
});

const path = fc.constantFrom('/d', '/d/e', '/');
const topics = fc.constantFrom<string[]>(['x'], ['x'], ['x', 'y']);
const appended = fc
  .constantFrom('/l/-', '/e/l/-', '/d/l/-', '/-')
  .chain((at) => fc.integer({ min: 1, max: 9 }).map((value) => [{ op: 'add', path: at, value }]));
const other = fc.constantFrom<object[]>(
  [{ op: 'add', path: '/l', value: [7] }],
  [{ op: 'remove', path: '/l' }],
  [{ op: 'add', path: '/l/0', value: 8 }],
  [{ op: 'remove', path: '/l/0' }],
);
const anyEntry = fc.oneof(
  fc
    .tuple(path, topics, fc.constantFrom<object>({ l: [] }, { l: [1], e: { l: [2] } }, { d: { l: [] } }))
    .map(([at, of, data]) => entry('PUT', at, data, of)),
  fc.tuple(path, topics).map(([at, of]) => entry('PUT', at, undefined, of)),
  fc
    .tuple(path, topics, fc.oneof({ weight: 3, arbitrary: appended }, { weight: 1, arbitrary: other }))
    .map(([at, of, data]) => entry('PATCH', at, data, of)),
);

/**
 * A client of some topics that holds nothing yet. A URL has something of its own, which no list is
 * in.
 */
function newClient(of: readonly string[]): NaiveClient {
  return new NaiveClient(of, () => '{"from":"url"}');
}

test('property: whoever comes when, each element that was taken is in the list once, where the others have it', () => {
  let taken = 0;
  fc.assert(
    fc.property(
      fc.array(fc.array(anyEntry, { minLength: 1, maxLength: 3 }), { maxLength: 14, size: 'max' }),
      (lists) => {
        const state = new FoldedState();
        const clients = [['x'], ['y'], ['x', 'y']].map((of) => ({ of, all: newClient(of) }));
        for (const [index, entries] of lists.entries()) {
          // Only what appends is looked at here: other patches may read what is not there for all.
          const update = record(entries);
          if (hasAppends(update)) {
            if (state.fold.appendProblem(update) !== undefined) continue;
            taken++;
          } else if (entries.some(({ save_method }) => save_method === 'PATCH')) {
            // An index over a URL is the publisher's affair.
            const over = state.fold.entries().some(({ entry: { data } }) => data === undefined || data === null);
            if (over || entries.length > 1) continue;
          }
          state.apply({ seq: index + 1, kind: 'update', timeMs: 0, body: updateBodyText(update) });
          const fold = state.fold.entries().map((folded) => folded.entry);
          for (const { of, all } of clients)
            assertSameDocuments(newClient(of).apply(fold).text, all.apply(entries).text, of.join());
        }
      },
    ),
    { numRuns: 2_000 },
  );
  assert(taken > 100, `only ${taken} appends were taken`);
});
