import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { bodyOfText } from '../../wire/json-node.js';
import { type DataOp, type LayerContent, LayerSet, STATIC_ERA } from '../desired/layers.js';
import { inChunks, Step } from './step.js';

const MEBIBYTE = 1024 * 1024;

/** A put of a body that says it is this large, a put of unknown size, or a removal. */
function opOf(size: number | 'composed' | 'remove', index: number): DataOp {
  const path = [String(index)];
  if (size === 'remove') return { op: 'remove', path };
  if (size === 'composed') return { op: 'put', path, text: () => '{}' };
  const body = { ...bodyOfText('{}'), sizeBytes: size };
  return { op: 'put', path, text: () => '{}', body };
}

function sizes(list: readonly (number | 'composed' | 'remove')[]): number[] {
  return [...inChunks(list.map(opOf))].map((chunk) => chunk.length);
}

describe('engine transactions', () => {
  it('are none for nothing', () => assert.deepEqual(sizes([]), []));

  it('take up to 1000 small operations', () => {
    assert.deepEqual(sizes(Array.from({ length: 2001 }, () => 10)), [1000, 1000, 1]);
    assert.deepEqual(sizes(Array.from({ length: 1000 }, () => 'remove' as const)), [1000]);
  });

  it('give a large body one of its own, wherever it stands', () => {
    assert.deepEqual(sizes([1, MEBIBYTE, 1, 'remove', 5 * MEBIBYTE]), [1, 1, 2, 1]);
    assert.deepEqual(sizes([MEBIBYTE, MEBIBYTE]), [1, 1]);
    assert.deepEqual(sizes([MEBIBYTE - 1, 1]), [2]);
  });

  it('stay below four mebibytes together', () => {
    assert.deepEqual(sizes(Array.from({ length: 6 }, () => MEBIBYTE - 1)), [4, 2]);
  });

  it('have every operation once, in order, within the bounds', () => {
    const size = fc.oneof(fc.nat(2 * MEBIBYTE), fc.constantFrom('composed' as const, 'remove' as const));
    fc.assert(
      fc.property(fc.array(size, { maxLength: 200 }), (list) => {
        const ops = list.map(opOf);
        const chunks = [...inChunks(ops)];
        assert.deepEqual(chunks.flat(), ops);
        for (const chunk of chunks) {
          const bytes = chunk.reduce((sum, op) => sum + (op.op === 'put' ? (op.body?.sizeBytes ?? 0) : 0), 0);
          assert(chunk.length > 0 && chunk.length <= 1000);
          assert(chunk.length === 1 || bytes <= 4 * MEBIBYTE);
        }
      }),
    );
  });
});

describe('a step', () => {
  it('makes room where a value of a commit is that a deletion leaves there', () => {
    const layers = new LayerSet();
    const layer = (path: string[], seq: number, content: LayerContent) => {
      const rank = { era: seq === 0 ? STATIC_ERA : 1, seq, index: 0 };
      return { id: `${seq}`, path, rank, content };
    };
    layers.set(layer(['a'], 0, { kind: 'put', body: bodyOfText('"of the commit"') }));
    layers.set(layer(['a'], 1, { kind: 'delete', onlyRemoves: true }));
    assert(layers.isValueAt(['a']));
    const set = [layer(['a', 'b'], 2, { kind: 'put', body: bodyOfText('1') })];
    const ops = new Step(layers, { set, drop: [] }).ops([], new Map());
    assert.deepEqual(
      ops.map((op) => [op.op, op.path.join('/'), op.op === 'put' ? op.text() : '']),
      [['put', 'a', '{"b":1}']],
    );
    assert(!layers.isValueAt(['a']));
  });
});
