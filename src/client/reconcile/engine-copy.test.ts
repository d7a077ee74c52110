import assert from 'node:assert/strict';
import { test } from 'node:test';
import { layer, policy } from '../../../test/support/layers.js';
import { MemoryEngine } from '../../../test/support/memory-engine.js';
import { EngineRefusal } from '../../embedded/vocabulary.js';
import { type DocPath, docPathText } from '../../wire/doc-path.js';
import type { DataOp } from '../desired/layers.js';
import type { PolicyEngine } from '../engine/engine.js';
import { Applier } from './applier.js';

const { signal } = new AbortController();

/**
 * An engine that refuses documents by their names; of a transaction that it takes in parts, all
 * before the refused one are in.
 */
class PickyEngine extends MemoryEngine {
  readonly refuses = new Set<string>();
  readonly #inParts: boolean;

  constructor(inParts: boolean) {
    super('modules', { tell: () => undefined, turn: async () => undefined });
    this.#inParts = inParts;
  }

  override async write(ops: readonly DataOp[], within: AbortSignal, shells: readonly DocPath[]): Promise<void> {
    const at = ops.findIndex((op) => this.refuses.has(`${op.op} ${docPathText(op.path)}`));
    if (at < 0) return await super.write(ops, within, shells);
    if (this.#inParts) for (const op of ops.slice(0, at)) await super.write([op], within, []);
    throw new EngineRefusal('it is refused', [], this.#inParts && at > 0);
  }
}

for (const inParts of [false, true]) {
  const how = inParts ? 'in parts' : 'as a whole';
  test(`a published document that a restarted engine refuses is withheld, and all others are there (refused ${how})`, async () => {
    const engine = new PickyEngine(inParts);
    const applier = new Applier(engine, { takesPolicy: false });
    let told = 0;
    applier.held.watchWithheld(() => told++);
    const { set, statics } = policy('c1', { 'a.rego': 'package a' }, { s: '{"k":1}' });
    await applier.applyPolicy(set, statics, signal);
    await applier.applyLayers(
      { set: [layer('/a', 1, '1'), layer('/bad', 2, '2'), layer('/c', 3, '3')], drop: [] },
      signal,
    );
    engine.wipe();
    engine.refuses.add('put /bad');
    await applier.held.restore(signal);
    assert.deepEqual(JSON.parse(engine.text), { s: { k: 1 }, a: 1, c: 3 });
    assert.deepEqual(
      [...applier.held.blocked.values()].map(({ layer: { id }, reason }) => [id, reason]),
      [['/bad@2', 'it is refused']],
    );
    assert.equal(told, 1);
    assert(applier.held.isCertain);
    engine.refuses.clear();
    await applier.applyPolicy({ ...set, hash: 'c2' }, statics, signal);
    assert.deepEqual(JSON.parse(engine.text), { s: { k: 1 }, a: 1, bad: 2, c: 3 });
  });

  test(`a document of the policy that a restarted engine refuses fails the refill, which writes all others (refused ${how})`, async () => {
    const engine = new PickyEngine(inParts);
    const applier = new Applier(engine, { takesPolicy: false });
    const { set, statics } = policy('c1', { 'a.rego': 'package a' }, { s: '1', bad: '2', t: '3' });
    await applier.applyPolicy(set, statics, signal);
    await applier.applyLayers({ set: [layer('/a', 1, '1')], drop: [] }, signal);
    engine.wipe();
    engine.refuses.add('put /bad');
    await assert.rejects(applier.held.restore(signal), EngineRefusal);
    assert.deepEqual(JSON.parse(engine.text), { s: 1, t: 3, a: 1 });
    engine.refuses.clear();
    await applier.held.restore(signal);
    assert.deepEqual(JSON.parse(engine.text), { s: 1, bad: 2, t: 3, a: 1 });
  });
}

test('a deletion that a restarted engine refuses is withheld, and all documents are there', async () => {
  // An engine that outlives the client may have what another life of it wrote.
  const seals = { writes: 0, seal: async () => false, claim: async () => false, changes: async () => undefined };
  const engine = Object.assign(new PickyEngine(false), { seals: { ...seals, inDoubt: () => undefined } });
  const applier = new Applier(engine, { takesPolicy: false });
  await applier.applyLayers({ set: [layer('/a', 1, '1'), layer('/bad', 2, 'delete')], drop: [] }, signal);
  engine.wipe();
  engine.refuses.add('remove /bad');
  await applier.held.restore(signal);
  assert.deepEqual([JSON.parse(engine.text), [...applier.held.blocked.keys()]], [{ a: 1 }, ['/bad@2']]);
});

test('a document that cannot be written again keeps no other from being written', async () => {
  const engine = new PickyEngine(false);
  const applier = new Applier(engine, { takesPolicy: false });
  await applier.applyLayers({ set: [layer('/a', 1, '1'), layer('/bad', 2, '2')], drop: [] }, signal);
  // A write of unknown outcome: it is made again with the next one.
  engine.fails('unanswered');
  await assert.rejects(applier.held.rewrite(['bad'], signal));
  engine.refuses.add('put /bad');
  await applier.applyLayers({ set: [layer('/other', 3, '3')], drop: [] }, signal);
  assert.deepEqual(JSON.parse(engine.text), { a: 1, other: 3 });
  assert.deepEqual([...applier.held.blocked.keys()], ['/bad@2']);
  assert(applier.held.isCertain);
});

test('what an engine has of an earlier life decides until the first policy is in, with its documents', async () => {
  const calls: string[] = [];
  const memory = new MemoryEngine('modules', { tell: (call) => calls.push(call), turn: async () => undefined });
  memory.has('/blocked', '{"eve":1}');
  const engine = Object.assign(memory, { hasOwnRules: async () => true });
  const applier = new Applier(engine, { takesPolicy: true });
  const documents = () => [layer('/blocked', 1, '{"eve":1,"bob":1}')];
  const broken = policy('b1', { 'a.rego': 'package a\nallow := unknown(1)' }, { s: '1' });
  await assert.rejects(applier.applyPolicy(broken.set, broken.statics, signal, documents), EngineRefusal);
  assert.deepEqual(calls.splice(0), ['policy b1', 'remove if empty /a']);
  assert.deepEqual(JSON.parse(engine.text), { blocked: { eve: 1 } });

  const { set, statics } = policy('c1', { 'a.rego': 'package a\nallow := 1' }, { s: '1' });
  await applier.applyPolicy(set, statics, signal, documents);
  assert.equal(calls[0], 'policy c1');
  assert.deepEqual(JSON.parse(engine.text), { blocked: { eve: 1, bob: 1 }, s: 1 });
});

/** An engine that notes what it is called for. */
function noting(more: Partial<PolicyEngine> = {}) {
  const calls: string[] = [];
  const memory = new MemoryEngine('bundle', { tell: (call) => calls.push(call), turn: async () => undefined });
  return { calls, engine: Object.assign(memory, more) };
}

test('a commit that changes documents alone writes these alone, in the packages and outside', async () => {
  const { calls, engine } = noting();
  const applier = new Applier(engine, { takesPolicy: false });
  const modules = { 'a.rego': 'package a\nx := 1' };
  const one = policy('c1', modules, { a: '{"k":1,"l":2}', s: '1' });
  await applier.applyPolicy(one.set, one.statics, signal);
  calls.length = 0;
  const two = policy('c2', modules, { a: '{"k":1,"l":3}', s: '2' });
  await applier.applyPolicy(two.set, two.statics, signal);
  assert.deepEqual(calls, ['in the roots of c2: put /a {"k":1,"l":3}', 'put /s 2']);
  const three = policy('c3', modules, { a: '{"k":1,"l":3}', s: '2' });
  await applier.applyPolicy(three.set, three.statics, signal);
  assert.equal(calls.at(-1), 'in the roots of c3: ');
  assert.equal(applier.held.policy?.hash, 'c3');
  const four = policy('c4', { ...modules, 'b.rego': 'package b' }, { a: '{"k":1,"l":3}', s: '2' });
  await applier.applyPolicy(four.set, four.statics, signal);
  assert.equal(calls.at(-1), 'policy c4, with /a {"k":1,"l":3}');
});

test('what an engine cannot write in the roots of a bundle comes with the whole of it', async () => {
  const { calls, engine } = noting({ writeInRoots: async () => false });
  const applier = new Applier(engine, { takesPolicy: false });
  const { set, statics } = policy('c1', { 'a.rego': 'package a' }, { a: '{"k":1}' });
  await applier.applyPolicy(set, statics, signal);
  await applier.applyLayers({ set: [layer('/a/l', 1, '2')], drop: [] }, signal);
  assert.equal(calls.at(-1), 'policy c1, with /a {"k":1,"l":2}');
  assert.deepEqual(JSON.parse(engine.text), { a: { k: 1, l: 2 } });
});

for (const trouble of ['unreachable', 'unanswered'] as const) {
  test(`a write in the roots of unknown outcome (${trouble}) is settled by the whole bundle`, async () => {
    const { calls, engine } = noting();
    const applier = new Applier(engine, { takesPolicy: false });
    const { set, statics } = policy('c1', { 'a.rego': 'package a' }, { a: '{"k":1}' });
    await applier.applyPolicy(set, statics, signal);
    engine.fails(trouble);
    await assert.rejects(applier.applyLayers({ set: [layer('/a/l', 1, '2')], drop: [] }, signal));
    assert(!applier.held.isCertain);
    await applier.held.settleDoubts(signal);
    assert.equal(calls.at(-1), 'policy c1, with /a {"k":1}');
    assert.deepEqual(JSON.parse(engine.text), { a: { k: 1 } });
  });
}

test('a static document that is covered is judged when it changes, and when rules do, and not else', async () => {
  const judged: string[] = [];
  const { engine } = noting({ check: async ({ hash }) => void judged.push(hash) });
  const applier = new Applier(engine, { takesPolicy: false });
  const modules = { 'a.rego': 'package a' };
  const commit = async (hash: string, a: string, s: string, more: Record<string, string> = {}): Promise<void> => {
    const { set, statics } = policy(hash, { ...modules, ...more }, { a, s });
    await applier.applyPolicy(set, statics, signal);
  };
  await commit('c1', '{"k":1}', '1');
  await applier.applyLayers({ set: [layer('/a', 1, '{"k":9}')], drop: [] }, signal);
  await commit('c2', '{"k":1}', '2');
  assert.deepEqual(judged, []);
  await commit('c3', '{"k":2}', '2');
  await commit('c4', '{"k":2}', '2', { 'b.rego': 'package b' });
  assert.deepEqual(judged, ['c3', 'c4']);
  assert.deepEqual(JSON.parse(engine.text), { a: { k: 9 }, s: 2 });
});

test('what a patch makes of a document in a package changes with that document', async () => {
  const { engine } = noting();
  const applier = new Applier(engine, { takesPolicy: false });
  const { set, statics } = policy('c1', { 'a.rego': 'package a' }, { 'a/d': '{"n":1}' });
  await applier.applyPolicy(set, statics, signal);
  const ops = [
    { op: 'test', path: '/d/n', value: 1 },
    { op: 'add', path: '/ok', value: true },
  ];
  await applier.applyLayers({ set: [layer('/a', 1, { patch: ops })], drop: [] }, signal);
  assert.deepEqual(JSON.parse(engine.text), { a: { d: { n: 1 }, ok: true } });
  const next = policy('c2', { 'a.rego': 'package a' }, { 'a/d': '{"n":2}' });
  await applier.applyPolicy(next.set, next.statics, signal);
  assert.deepEqual(JSON.parse(engine.text), { a: { d: { n: 2 } } });
});
