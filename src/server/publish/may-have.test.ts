import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { NaiveClient } from '../../../test/support/naive-client.js';
import { assertSameDocuments } from '../../../test/support/same-documents.js';
import { JsonText } from '../../lib/json/json-text.js';
import { Places } from '../../lib/net/places.js';
import { type DataSourceEntry, dataSourceEntry } from '../../wire/data.js';
import { parseDocPath, parsePointer } from '../../wire/doc-path.js';
import { asOwn, leafOf, type Node, nodeAt, nodeText, withValue } from '../../wire/json-node.js';
import { FoldedState } from '../log/folded-state.js';
import { updateBodyText } from '../log/row.js';
import { mayHaveBy } from './may-have.js';
import { opalUpdateText } from './update-text.js';

function entry(fields: object): DataSourceEntry {
  return dataSourceEntry.parse({ url: '', topics: ['t'], ...fields });
}

const put = (dst_path: string, data: unknown): DataSourceEntry => entry({ dst_path, data: JsonText.of(data) });
const remove = (dst_path: string): DataSourceEntry => entry({ dst_path, save_method: 'DELETE' });

function publish(state: FoldedState, entries: DataSourceEntry[], retain: boolean | number = true): void {
  const fields = { id: 'i', publisher: null, reason: null, callbacks: [], entries, retain };
  state.apply({ seq: state.head + 1, kind: 'update', timeMs: 0, body: updateBodyText(fields) });
}

/**
 * An engine that does what an OPAL client tells it: parents are made and stay, and what is not
 * there is not removed.
 */
class OpalEngine {
  #root: Node = leafOf('{}');

  take(text: string): void {
    const { entries } = JSON.parse(text) as { entries: { dst_path: string; save_method: string; data: unknown }[] };
    for (const { dst_path, save_method, data } of entries) {
      const at = parseDocPath(dst_path);
      if (save_method === 'PUT') this.#write([...at], leafOf(JSON.stringify(data)));
      else for (const { path } of data as { path: string }[]) this.#write([...at, ...parsePointer(path)], undefined);
    }
  }

  #write(path: string[], value: Node | undefined): void {
    if (value === undefined && nodeAt(this.#root, path) === undefined) return;
    this.#root = asOwn(withValue(this.#root, path, value) ?? leafOf('{}'));
  }

  get text(): string {
    return nodeText(this.#root);
  }
}

const path = fc.array(fc.constantFrom('a', 'b', 'c'), { maxLength: 3 }).map((at) => `/${at.join('/')}`);
// Below a path are objects, and `x` is no path.
const member = fc.oneof(fc.constant({}), fc.record({ x: fc.nat(9) }), fc.record({ a: fc.record({ x: fc.nat(9) }) }));
const document = fc.dictionary(fc.constantFrom('a', 'b'), member, { maxKeys: 2 });
const anyEntry = fc.oneof(
  fc.tuple(path, document).map(([at, value]) => put(at, value)),
  path.map(remove),
);

test('property: an OPAL client that is told each update holds what a new one holds', () => {
  fc.assert(
    fc.property(fc.array(fc.array(anyEntry, { minLength: 1, maxLength: 3 }), { maxLength: 12 }), (lists) => {
      const [state, engine] = [new FoldedState(), new OpalEngine()];
      const updateLog = state.fold;
      const mayHave = mayHaveBy({ updateLog, dataPlaces: () => new Places(), isAll: true });
      const fresh = new NaiveClient(['t'], () => '{}');
      for (const entries of lists) {
        publish(state, entries);
        const record = { seq: 1, timeMs: 0, id: 'i', publisher: null, reason: null, callbacks: [], entries };
        engine.take(opalUpdateText(record, mayHave));
        assertSameDocuments(engine.text, fresh.apply(entries).text);
      }
    }),
    { numRuns: 1000 },
  );
});

test('something may be wherever a source, a patch, a passing update, data of the policy or an API may have put it', () => {
  const state = new FoldedState();
  const updateLog = state.fold;
  publish(state, [entry({ dst_path: '/url', url: 'http://x' }), entry({ dst_path: '/p/q', save_method: 'PATCH' })]);
  publish(state, [put('/in', { a: {} }), put('/deep/er', 1), remove('/gone/x')]);
  publish(state, [put('/short/x', 1)], 5);
  publish(state, [put('/never/x', 1)], false);
  const mayHave = mayHaveBy({ updateLog, dataPlaces: () => new Places([['static', 'a']]), isAll: true });
  const held = ['/url/a', '/p', '/p/q/r', '/in/a', '/deep', '/short', '/never', '/static', '/static/a/b'];
  for (const at of held) assert(mayHave(parseDocPath(at)), at);
  for (const at of ['/in/b', '/gone', '/gone/x', '/other', '/static/b']) assert(!mayHave(parseDocPath(at)), at);
  assert(mayHaveBy({ updateLog, dataPlaces: () => undefined, isAll: true })(['other']), 'the policy is not known yet');
  assert(
    mayHaveBy({ updateLog, dataPlaces: () => new Places(), isAll: false })(['other']),
    'others configure data, too',
  );
});

test('how many folders of a commit have data is nothing to a deletion', () => {
  const folders = Array.from({ length: 50_000 }, (_, at) => ['tenants', `t${at}`, 'config']);
  const places = new Places(folders);
  const updateLog = { mayHave: () => false, hasDeletion: () => false };
  const mayHave = mayHaveBy({ updateLog, dataPlaces: () => places, isAll: true });
  const startMs = performance.now();
  for (let at = 0; at < 20_000; at++) {
    assert(mayHave(['tenants', `t${at}`]));
    assert(!mayHave(['tenants', `u${at}`]));
  }
  // One look at each folder would take minutes.
  assert(performance.now() - startMs < 5_000);
});
