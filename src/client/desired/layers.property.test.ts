import assert from 'node:assert/strict';
import { describe, it, test } from 'node:test';
import fc from 'fast-check';
import { assertSameDocuments } from '../../../test/support/same-documents.js';
import { JsonText } from '../../lib/json/json-text.js';
import { patched, patchParts } from '../../server/log/patch-rules.js';
import { type DocPath, isAtOrBelow } from '../../wire/doc-path.js';
import { bodyOfText, nodeAt, nodeText } from '../../wire/json-node.js';
import { parsePatch } from '../../wire/json-patch.js';
import { type DataOp, diffNodes, type Layer, type LayerContent, LayerSet } from './layers.js';

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
const op = fc.record({
  at: fc.array(segment, { minLength: 1, maxLength: 2 }),
  isWhole: fc.boolean(),
  value: fc.option(json, { nil: undefined }),
});

interface Drawn {
  readonly path: string[];
  readonly what: 'put' | 'delete' | 'patch';
  readonly value: unknown;
  readonly root: Record<string, unknown>;
  readonly ops: readonly { readonly at: string[]; readonly isWhole: boolean; readonly value: unknown }[];
}

const layers: fc.Arbitrary<Drawn[]> = fc.array(
  fc.record({
    path,
    what: fc.constantFrom('put', 'put', 'delete', 'patch'),
    value: json,
    root: object,
    ops: fc.array(op, { minLength: 1, maxLength: 3 }),
  }),
  { maxLength: 8 },
);

/**
 * What an operation of a patch is about: the whole document where it takes one away that is not the
 * root.
 */
function pointer({ path: at }: Drawn, { at: member, isWhole, value }: Drawn['ops'][number]): string[] {
  return isWhole && value === undefined && at.length > 0 ? [] : member;
}

function contentOf(drawn: Drawn): LayerContent {
  const put = (value: unknown): LayerContent => ({ kind: 'put', body: bodyOfText(JSON.stringify(value)) });
  if (drawn.what === 'put') return put(drawn.path.length === 0 ? drawn.root : drawn.value);
  if (drawn.what === 'delete') return { kind: 'delete' };
  const ops = drawn.ops.map((each) => {
    const at = pointer(drawn, each)
      .map((part) => `/${part}`)
      .join('');
    return each.value === undefined ? { op: 'remove', path: at } : { op: 'add', path: at, value: each.value };
  });
  return { kind: 'patch', ops: parsePatch(JSON.stringify(ops)) };
}

function toLayers(list: readonly Drawn[]): Layer[] {
  return list.map((drawn, index) => ({
    id: String(index),
    path: drawn.path,
    rank: { era: 1, seq: index, index: 0 },
    content: contentOf(drawn),
  }));
}

function setOf(list: readonly Drawn[]): LayerSet {
  const set = new LayerSet();
  for (const layer of toLayers(list)) set.set(layer);
  return set;
}

/** Marks an object that is there because of what is in it. */
const IMPLIED = Symbol('implied');

/** The naive model: plain values, every layer that no later one replaces written in order. */
function model(list: readonly Drawn[]): unknown {
  const replaces = ({ what }: Drawn): boolean => what !== 'patch';
  let root: unknown;
  for (const [index, drawn] of list.entries()) {
    const { path: at, what } = drawn;
    if (list.slice(index + 1).some((later) => replaces(later) && isAtOrBelow(at, later.path))) continue;
    if (what === 'put') root = write(root, at, at.length === 0 ? drawn.root : drawn.value);
    if (what === 'delete') root = write(root, at, undefined);
    if (what !== 'patch') continue;
    // What a patch makes on the way to its document is implied, what it makes in there is not.
    const document = drawn.ops.reduce(
      (value, each) => {
        return write(value, pointer(drawn, each), each.value, each.value === undefined ? Number.POSITIVE_INFINITY : 0);
      },
      read(root, at),
    );
    root = write(root, at, document);
  }
  return root ?? {};
}

function isPlain(value: unknown): value is Record<string, unknown> & { [IMPLIED]?: true } {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** `own`: from this depth on, what is on the way is there for good. */
function write(node: unknown, at: readonly string[], value: unknown, own = at.length): unknown {
  const [first, ...rest] = at;
  if (first === undefined) return value;
  if (value === undefined && (!isPlain(node) || !(first in node))) return node;
  const copy: Record<string, unknown> & { [IMPLIED]?: true } = isPlain(node) ? { ...node } : { [IMPLIED]: true };
  if (own <= 0) delete copy[IMPLIED];
  const child = write(copy[first], rest, value, own - 1);
  if (child === undefined) delete copy[first];
  else copy[first] = child;
  return copy[IMPLIED] === true && Object.keys(copy).length === 0 ? undefined : copy;
}

function read(node: unknown, at: DocPath): unknown {
  return at.reduce<unknown>((value, key) => (isPlain(value) ? value[key] : undefined), node);
}

/** What an engine makes of operations: a put makes parents, and they stay. */
function apply(root: unknown, ops: readonly DataOp[]): unknown {
  return ops.reduce((value, op) => write(value, op.path, op.op === 'put' ? JSON.parse(op.text()) : undefined, 0), root);
}

function assertSame(actual: unknown, expected: unknown): void {
  assertSameDocuments(JSON.stringify(actual), JSON.stringify(expected));
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
        const text = composed === undefined ? undefined : nodeText(composed);
        const whole = model(drawn);
        assertSameDocuments(text ?? (at.length === 0 ? '{}' : undefined), JSON.stringify(read(whole, at)));
        const lengths = at
          .map((_, index) => index + 1)
          .filter((length) => read(whole, at.slice(0, length)) !== undefined);
        assert.equal(set.reach(at), Math.max(0, ...lengths), 'how far the path leads');
      }),
      { numRuns: 3000 },
    );
  });

  it('compose to the same without those that a later one replaces', () => {
    fc.assert(
      fc.property(layers, (drawn) => {
        const [all, left] = [setOf(drawn), setOf(drawn)];
        for (const layer of toLayers(drawn)) {
          const isReplaced = toLayers(drawn).some(
            (later) =>
              later.content.kind !== 'patch' && later.rank.seq > layer.rank.seq && isAtOrBelow(layer.path, later.path),
          );
          if (isReplaced) left.delete(layer.id);
        }
        const [one, other] = [all, left].map((set) => set.compose([]));
        assertSameDocuments(one && nodeText(one), other && nodeText(other));
      }),
      { numRuns: 1000 },
    );
  });

  it('compose alike from anywhere where deletions leave static data as they are', () => {
    const removal = fc.record({ path });
    const statics = fc.array(fc.record({ path, root: object }), { maxLength: 3 });
    fc.assert(
      fc.property(layers, fc.array(removal, { maxLength: 3 }), statics, path, (drawn, removals, data, at) => {
        const set = setOf(drawn);
        for (const [index, { path: place }] of removals.entries()) {
          const rank = { era: 1, seq: 3 * index, index: 1 };
          set.set({ id: `removal ${index}`, path: place, rank, content: { kind: 'delete', onlyRemoves: true } });
        }
        const whole = set.compose([]);
        const before = whole === undefined ? '{}' : nodeText(whole);
        const plain = setOf(drawn);
        for (const [index, { path: place }] of removals.entries()) {
          const rank = { era: 1, seq: 3 * index, index: 1 };
          plain.set({ id: `removal ${index}`, path: place, rank, content: { kind: 'delete' } });
        }
        const deleted = plain.compose([]);
        assertSameDocuments(before, deleted === undefined ? '{}' : nodeText(deleted), 'without static data');
        for (const [index, { path: place, root }] of data.entries()) {
          const content = { kind: 'put', body: bodyOfText(JSON.stringify(root)) } as const;
          set.set({ id: `static ${index}`, path: place, rank: { era: 0, seq: 0, index }, content });
        }
        const root = set.compose([]);
        const [composed, inside] = [set.compose(at), nodeAt(root, at)];
        assertSameDocuments(composed && nodeText(composed), inside && nodeText(inside), 'at a path');
        const lengths = at
          .map((_, index) => index + 1)
          .filter((length) => nodeAt(root, at.slice(0, length)) !== undefined);
        assert.equal(set.reach(at), Math.max(0, ...lengths), 'how far the path leads');
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
          const [old, next] = [before, after].map((drawn) => setOf(drawn).compose([]));
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
          // What stands in a closed path is written by other means, and that it stands there says
          // that there is an object above it.
          const open = (value: unknown): unknown =>
            [...closed, ...ancestors.toSorted((a, b) => b.length - a.length)].reduce((root, place) => {
              const isShell = isEmpty(read(root, place)) && place.length > 0;
              return isShell || closed.includes(place) ? write(root, place, undefined) : root;
            }, value);
          assertSame(open(apply(model(before), ops)) ?? {}, open(model(after)) ?? {});
        },
      ),
      { numRuns: 2000 },
    );
  });
});

test('a path does not lead to what made room for a document that a patch takes away', () => {
  const put = (value: unknown, implied?: readonly DocPath[]): LayerContent => ({
    kind: 'put',
    body: bodyOfText(JSON.stringify(value)),
    ...(implied && { implied }),
  });
  const removal: LayerContent = { kind: 'patch', ops: parsePatch('[{"op":"remove","path":""}]') };
  const [a, ab, abc] = [['a'], ['a', 'b'], ['a', 'b', 'c']];
  const cases: readonly (readonly [string, readonly (readonly [DocPath, LayerContent])[], number])[] = [
    [
      'a value',
      [
        [a, put(0)],
        [ab, put(0)],
        [ab, removal],
      ],
      0,
    ],
    [
      'a value below',
      [
        [a, put({})],
        [ab, put(0)],
        [abc, put(0)],
        [abc, removal],
      ],
      1,
    ],
    [
      'an implied object',
      [
        [a, put({ b: { c: 0 } }, [['b']])],
        [abc, removal],
      ],
      1,
    ],
    [
      'an object',
      [
        [a, put(0)],
        [ab, put({})],
        [abc, put(0)],
        [abc, removal],
      ],
      2,
    ],
  ];
  for (const [name, layers, reach] of cases) {
    const set = new LayerSet();
    for (const [seq, [path, content]] of layers.entries()) {
      set.set({ id: String(seq), path, rank: { era: 1, seq, index: 0 }, content });
    }
    assert.equal(set.reach(abc), reach, name);
    const root = set.compose([]);
    assert.equal(nodeAt(root, abc.slice(0, reach + 1)), undefined, name);
    assert.equal(nodeAt(root, abc.slice(0, reach)) !== undefined || reach === 0, true, name);
  }
});

function isEmpty(value: unknown): boolean {
  return isPlain(value) && Object.keys(value).length === 0;
}

test('a patch that makes a document deeper than engines read is withheld by clients, and skipped by the log', () => {
  const nested = (levels: number): string => '['.repeat(levels) + ']'.repeat(levels);
  const ops = (levels: number): string => `[{"op":"add","path":"/x","value":${nested(levels)}}]`;
  for (const [levels, isTaken] of [
    [9_997, true],
    [9_998, false],
  ] as const) {
    const set = new LayerSet();
    const rank = { era: 1, seq: 1, index: 0 };
    set.set({ id: 'put', path: ['a'], rank, content: { kind: 'put', body: bodyOfText('{"b":{}}') } });
    const content = { kind: 'patch', ops: parsePatch(ops(levels)) } as const;
    set.set({ id: 'patch', path: ['a', 'b'], rank: { ...rank, seq: 2 }, content });
    const found = isTaken ? `{"b":{"x":${nested(levels)}}}` : '{"b":{}}';
    for (const path of [[], ['a'], ['a', 'b']]) {
      const refused = new Map<string, string>();
      const node = nodeAt(set.compose(path, refused), ['a', 'b'].slice(path.length));
      assert.equal(node && nodeText(node).length, found.length - '{"b":}'.length);
      assert.deepEqual([...refused.keys()], isTaken ? [] : ['patch']);
    }
    const parts = patchParts(JsonText.trusted(ops(levels))) ?? [];
    assert.equal(patched({ data: JsonText.of({ b: {} }) }, [{ below: ['b'], parts }], 1)?.data.text, found);
  }
});
