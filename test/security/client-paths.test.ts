import assert from 'node:assert/strict';
import { test } from 'node:test';
import { diffNodes, type Layer, LayerSet } from '../../src/client/desired/layers.js';
import { mergeBundle, staticLayers } from '../../src/client/desired/policy-content.js';
import { ComparedPlaces } from '../../src/client/drift/drift-check.js';
import { ModuleGraph } from '../../src/client/engine/modules/module-graph.js';
import { Step } from '../../src/client/reconcile/step.js';
import { JsonText } from '../../src/lib/json/json-text.js';
import { PathSet } from '../../src/lib/json/path-tree.js';
import type { DocPath } from '../../src/wire/doc-path.js';
import { bodyOfText, leafOf, nodeText } from '../../src/wire/json-node.js';
import { applyPatch, PatchRefused, parsePatch } from '../../src/wire/json-patch.js';
import { cpuTimer } from '../support/cpu-time.js';

/**
 * What a client makes of hostile policies and documents: many of each, at places that have to do with each other, and few bytes that
 * become many. All of it is one process that decides meanwhile.
 */

const MIB = 1024 * 1024;
const MANY = 20_000;
/** Most processor time for one of these, and most memory that stays while its result does. */
const WITHIN_MS = 5_000;
const MOST_MIB = 150;

async function bounded<T>(make: () => T): Promise<T> {
  const collect = (globalThis as { gc?: () => void }).gc ?? (() => undefined);
  collect();
  const [before, spentMs] = [process.memoryUsage().heapUsed, cpuTimer()];
  const made = make();
  assert(spentMs() < WITHIN_MS, `${Math.round(spentMs())} ms`);
  collect();
  const grownMib = (process.memoryUsage().heapUsed - before) / MIB;
  assert(grownMib < MOST_MIB, `${Math.round(grownMib)} MiB`);
  return made;
}

const numbered = (make: (index: number) => string): Map<string, string> =>
  new Map(Array.from({ length: MANY / 4 }, (_, index) => [`m${index}.rego`, make(index)]));

/** Modules, small ones, that all read each other, in the ways in which a module can. */
const POLICIES: Readonly<Record<string, Map<string, string>>> = {
  'rules of the same names in one package': numbered(() => 'package a\n\nallow if deny\n\ndeny if allow\n'),
  'references to a package that all of them are in': numbered((index) => `package a\n\nx${index} := data.a.y\n`),
  'references to everything': numbered((index) => `package p${index}\n\nx := data[input.x]\n`),
  'packages within each other': numbered((index) => `package a${'.b'.repeat(index % 50)}\n\nx := data.a.b[input.x]\n`),
  'one that names another package again and again': new Map([
    ...numbered((index) => `package a\n\nx${index} := 1\n`),
    ['z.rego', `package z\n\n${Array.from({ length: MANY }, (_, index) => `x := data.a.y${index}\n`).join('')}`],
  ]),
};

for (const [what, modules] of Object.entries(POLICIES)) {
  test(`the order of ${modules.size} modules: ${what}`, async () => {
    await bounded(() => {
      const graph = new ModuleGraph(modules, modules);
      const ids = new Set([...modules.keys()].slice(0, 1000));
      assert.equal(graph.groups.flat().length, modules.size);
      assert(graph.withReaders(ids).size >= ids.size);
      graph.mixing(ids);
      assert.equal(graph.readsOneOf('m1.rego', new Set(['nothing'])), false);
      return graph;
    });
  });
}

const packages = Array.from({ length: MANY }, (_, index): DocPath => ['app', `p${index}`]);
const documents = Array.from({ length: MANY }, (_, index): DocPath => ['data', `d${index}`]);
const deletionAt = (path: DocPath): Layer => ({
  id: path.join('/'),
  path,
  rank: { era: 1, seq: 1, index: 0 },
  content: { kind: 'delete' },
});
const objectOf = (names: readonly DocPath[]): string =>
  JSON.stringify(Object.fromEntries(names.map((path) => [path[1] ?? '', { a: 1 }])));

test('the drift check of as many documents beside as many packages', async () => {
  const layers = { all: () => documents.map(deletionAt).values(), compose: () => undefined };
  const places = await bounded(() => new ComparedPlaces().list(layers, packages, () => false));
  assert.equal(places.length, MANY);
});

test('the drift check of one document with as many members, around as many packages', async () => {
  const inside = packages.map(([, name = '']): DocPath => ['app', name, 'x']);
  const compose = () => leafOf(objectOf([...packages, ...documents]));
  const layers = { all: () => [deletionAt(['app'])].values(), compose };
  const places = await bounded(() => new ComparedPlaces().list(layers, inside, () => false));
  assert.equal(places.length, 2 * MANY);
});

test('the changes of one document with as many members, around as many packages', async () => {
  const before = leafOf(objectOf(documents));
  const after = leafOf(objectOf([...documents, ...packages]).replaceAll('"a":1', '"a":2'));
  const ops = await bounded(() => diffNodes(before, after, ['app'], packages));
  assert.equal(ops.length, MANY, 'all but the closed ones');
});

test('one step with as many documents, beside as many packages', async () => {
  const set = documents.map((path, index): Layer => {
    const content = { kind: 'put', body: bodyOfText(`{"a":${index}}`) } as const;
    return { ...deletionAt(path), rank: { era: 1, seq: 1, index }, content };
  });
  await bounded(() => {
    const step = new Step(new LayerSet(), { set, drop: [] });
    assert.equal(step.ops(packages, new Map()).length, MANY);
    assert.equal(step.reverseOps(packages).length, MANY);
    assert(packages.every((path) => !step.touches(path)) && step.opsIn(packages, new PathSet(packages)).length === 0);
    assert.equal(step.opsIn(documents, new PathSet(packages)).length, MANY);
    return step;
  });
});

test('as many documents as one value', async () => {
  const set = new LayerSet();
  for (const [index, path] of documents.entries()) {
    const content = { kind: 'put', body: bodyOfText(`{"a":${index}}`) } as const;
    set.set({ ...deletionAt(path), id: String(index), rank: { era: 1, seq: 1, index }, content });
  }
  const text = await bounded(() => nodeText(set.compose(['data']) ?? leafOf('{}')));
  assert.equal(Object.keys(JSON.parse(text) as object).length, MANY);
});

test('as many data files of one commit, and a delta of all of them', async () => {
  const data = documents.map((path) => ({ path: path.join('/'), data: '{"a":1}' }));
  const whole = { manifest: [], hash: 'a', data_modules: data, policy_modules: [] };
  await bounded(() => {
    const held = mergeBundle(undefined, whole);
    assert(held !== undefined);
    const next = mergeBundle(held, { ...whole, hash: 'b', old_hash: 'a' });
    assert.equal(next?.data.length, MANY);
    return staticLayers(next);
  });
});

const refusedPatch = (error: unknown): boolean =>
  error instanceof PatchRefused && /copies too much/.test(error.message);

test('a patch of a few hundred bytes does not become hundreds of megabytes', async () => {
  const copies = (from: string, count: number): unknown[] =>
    Array.from({ length: count }, (_, index) => ({ op: 'copy', from, path: `${from}/b${index}` }));
  const start = { op: 'add', path: '/a', value: { x: 'x'.repeat(100) } };
  for (const ops of [
    [start, ...copies('', 20)],
    [start, ...copies('/a', 20)],
    [
      { op: 'add', path: '/l', value: ['x'.repeat(100)] },
      ...Array.from({ length: 20 }, () => ({ op: 'copy', from: '/l', path: '/l/-' })),
    ],
  ]) {
    const patch = parsePatch(JSON.stringify(ops));
    await bounded(() => assert.throws(() => applyPatch(undefined, patch), refusedPatch));
  }
});

test('patches that each double what the one before has made, or add to it, end where a document of copies ends', async () => {
  for (const [chars, opOf] of [
    [1000, (count: number) => ({ op: 'copy', from: '', path: `/b${count}` })],
    [8 * MIB, (count: number) => ({ op: 'copy', from: '/a', path: `/b${count}` })],
  ] as const) {
    let node = applyPatch(undefined, [{ op: 'add', path: ['a'], value: JsonText.of({ x: 'x'.repeat(chars) }) }]);
    await bounded(() =>
      assert.throws(() => {
        for (let count = 0; count < 100; count++) node = applyPatch(node, parsePatch(JSON.stringify([opOf(count)])));
      }, refusedPatch),
    );
    assert(node !== undefined && nodeText(node).length < 80 * MIB);
  }
});

test('a test of a deep value, or of one that is deep around something long, is made in one pass', async () => {
  for (const [inside, other] of [
    ['1', '2'],
    [JSON.stringify('x'.repeat(MIB)), '2'],
    ['1', '1.0'],
  ]) {
    for (const [begin, end] of [
      ['[', ']'],
      ['{"a":', '}'],
    ] as const) {
      const deep = (text = ''): string => begin.repeat(9_000) + text + end.repeat(9_000);
      const document = leafOf(deep(inside));
      const patch = parsePatch(`[{"op":"test","path":"","value":${deep(other)}}]`);
      const isSame = other === '1.0';
      await bounded(() => {
        if (isSame) applyPatch(document, patch);
        else assert.throws(() => applyPatch(document, patch), PatchRefused);
      });
    }
  }
});

test('a patch of operations at the front of a long list does not move the list for each', async () => {
  const OPERATIONS = 50_000;
  const LENGTH = 600_000;
  for (const [operation, length] of [
    ['{"op":"add","path":"/0","value":2}', LENGTH + OPERATIONS],
    ['{"op":"remove","path":"/1"}', LENGTH - OPERATIONS],
    ['{"op":"move","from":"/0","path":"/-"}', LENGTH],
  ] as const) {
    const document = leafOf(`[${'1,'.repeat(LENGTH - 1)}1]`);
    const patch = parsePatch(`[${Array(OPERATIONS).fill(operation).join(',')}]`);
    const text = await bounded(() => nodeText(applyPatch(document, patch) ?? document));
    assert.equal(text.length, 2 * length + 1, operation);
  }
});
