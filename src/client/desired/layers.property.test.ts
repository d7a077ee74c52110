import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { type DocPath, isAtOrBelow } from '../../wire/doc-path.js';
import { bodyOfText, nodeText } from '../../wire/json-node.js';
import { type DataOp, diffNodes, type Layer, LayerSet } from './layers.js';

/** Few names, so that paths meet often. */
const segment = fc.constantFrom('a', 'b', 'c');
const path = fc.array(segment, { maxLength: 3 });
const json = fc.letrec<{ value: unknown }>((tie) => ({
  value: fc.oneof(
    { depthSize: 'small', withCrossShrink: true },
    fc.integer({ min: 0, max: 9 }),
    fc.constant(null),
    fc.dictionary(segment, tie('value'), { maxKeys: 3 }),
  ),
})).value;
const object = fc.dictionary(segment, json, { maxKeys: 3 });

const layers = fc.array(fc.record({ path, value: fc.option(json, { nil: undefined }), root: object }), {
  maxLength: 8,
});
type Drawn = { path: string[]; value: unknown; root: Record<string, unknown> }[];

function toLayers(drawn: Drawn): Layer[] {
  return drawn.map((item, index) => {
    const value = item.path.length === 0 ? item.root : item.value;
    return {
      id: String(index),
      path: item.path,
      rank: { era: 1, seq: index, index: 0 },
      content: value === undefined ? { kind: 'delete' } : { kind: 'put', body: bodyOfText(JSON.stringify(value)) },
    };
  });
}

/** The naive model: plain values, every layer written in order. */
function model(drawn: Drawn): unknown {
  let root: unknown = {};
  for (const { path: at, value, root: rootValue } of drawn) root = write(root, at, at.length === 0 ? rootValue : value);
  return root;
}

function isPlain(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function write(node: unknown, at: readonly string[], value: unknown): unknown {
  const [first, ...rest] = at;
  if (first === undefined) return structuredClone(value);
  if (value === undefined && (!isPlain(node) || !(first in node))) return node;
  const copy: Record<string, unknown> = isPlain(node) ? { ...node } : {};
  const child = write(copy[first], rest, value);
  if (child === undefined) delete copy[first];
  else copy[first] = child;
  return copy;
}

function read(node: unknown, at: DocPath): unknown {
  return at.reduce<unknown>((value, key) => (isPlain(value) ? value[key] : undefined), node);
}

function apply(root: unknown, ops: readonly DataOp[]): unknown {
  return ops.reduce((value, op) => write(value, op.path, op.op === 'put' ? JSON.parse(op.text()) : undefined), root);
}

describe('layers', () => {
  it('compose to what writing every document in order gives, at any path and whatever the order of arrival', () => {
    fc.assert(
      fc.property(layers, path, fc.infiniteStream(fc.nat()), (drawn, at, order) => {
        const set = new LayerSet();
        const shuffled = toLayers(drawn)
          .map((layer) => ({ layer, key: order.next().value }))
          .sort((a, b) => a.key - b.key);
        for (const { layer } of shuffled) set.set(layer);
        const composed = set.compose(at);
        const expected = read(model(drawn), at);
        const actual = composed === undefined ? undefined : JSON.parse(nodeText(composed));
        assert.deepEqual(actual ?? (at.length === 0 ? {} : actual), expected);
      }),
      { numRuns: 2000 },
    );
  });

  it('give operations that lead from one state to the next, never touch closed paths, and never overlap', () => {
    fc.assert(
      fc.property(
        layers,
        layers,
        fc.array(
          path.filter((p) => p.length > 0),
          { maxLength: 2 },
        ),
        (before, after, closed) => {
          const [old, next] = [before, after].map((drawn) => {
            const set = new LayerSet();
            for (const layer of toLayers(drawn)) set.set(layer);
            return set.compose([]);
          });
          // The applier refuses values without members above closed paths before it comes to this.
          const ancestors = closed.flatMap((place) => place.map((_, index) => place.slice(0, index)));
          fc.pre(
            ancestors.every((place) => {
              const value = read(model(after), place);
              return place.length === 0 || value === undefined || isPlain(value);
            }),
          );
          const ops = diffNodes(old, next, [], closed);
          for (const [index, op] of ops.entries()) {
            // A value without members is taken away before something is written below it.
            if (op.op === 'remove' && !isPlain(read(model(before), op.path))) continue;
            assert.ok(
              !closed.some((place) => isAtOrBelow(op.path, place) || isAtOrBelow(place, op.path)),
              'touches a closed path',
            );
            assert.ok(!ops.some((other, at) => at !== index && isAtOrBelow(other.path, op.path)), 'operations overlap');
          }
          const strip = (value: unknown): unknown =>
            closed.reduce((root, place) => write(root, place, undefined), value);
          const settled = prune(strip(apply(model(before), ops)));
          assert.deepEqual(settled, prune(strip(model(after))));
        },
      ),
      { numRuns: 2000 },
    );
  });
});

/** Without empty objects: a parent that is closed around may stay as an empty shell. */
function prune(value: unknown): unknown {
  if (!isPlain(value)) return value;
  const entries = Object.entries(value)
    .map(([key, member]) => [key, prune(member)] as const)
    .filter(([, member]) => !(isPlain(member) && Object.keys(member).length === 0));
  return Object.fromEntries(entries);
}
