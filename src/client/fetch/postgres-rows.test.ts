import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { PostgresShape } from './postgres-config.js';
import { type PrintedRow, rowsDocument, selectText } from './postgres-rows.js';

/** The document of these rows, and how many were asked for at a time. */
async function read(shape: PostgresShape, rows: readonly PrintedRow[]): Promise<{ text: string; counts: number[] }> {
  const counts: number[] = [];
  let at = 0;
  const fetchRows = async (count: number): Promise<readonly PrintedRow[]> => {
    counts.push(count);
    at += count;
    return rows.slice(at - count, at);
  };
  const parts: Uint8Array[] = [];
  for await (const part of rowsDocument(shape, fetchRows)) parts.push(part);
  return { text: Buffer.concat(parts).toString('utf8'), counts };
}

function rowsOf(count: number, size: number): PrintedRow[] {
  return Array.from({ length: count }, (_, index) => ({ row: `"${'x'.repeat(size)}"`, key: `k${index}` }));
}

test('documents of any number of rows are JSON', async () => {
  for (const count of [0, 1, 15, 16, 17, 32, 48, 1000]) {
    const list = JSON.parse((await read({ kind: 'list' }, rowsOf(count, 3))).text) as unknown[];
    assert.equal(list.length, count);
    const keyed = JSON.parse((await read({ kind: 'keyed', column: 'k' }, rowsOf(count, 3))).text) as object;
    assert.equal(Object.keys(keyed).length, count);
    const one = await read({ kind: 'one' }, rowsOf(count, 3));
    assert.deepEqual([one.text, one.counts], [count === 0 ? '{}' : '"xxx"', [1]]);
  }
});

test('small rows come in ever larger batches, large ones a few at a time', async () => {
  assert.deepEqual((await read({ kind: 'list' }, rowsOf(100, 10))).counts, [16, 32, 64]);
  const { counts } = await read({ kind: 'list' }, rowsOf(40, 100_000));
  assert(
    counts.slice(1).every((count) => count <= 3),
    String(counts),
  );
});

test('the query of an entry stands on lines of its own, and names are quoted', () => {
  assert.equal(
    selectText({ query: 'select 1 -- one', shape: { kind: 'keyed', column: 'a"b' } }),
    'select row_to_json(policysync_row)::text as row, policysync_row."a""b"::text as key from (\nselect 1 -- one\n) as policysync_row',
  );
});
