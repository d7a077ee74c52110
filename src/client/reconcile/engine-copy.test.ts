import assert from 'node:assert/strict';
import { test } from 'node:test';
import { layer, policy } from '../../../test/support/layers.js';
import { MemoryEngine } from '../../../test/support/memory-engine.js';
import { type DocPath, docPathText } from '../../wire/doc-path.js';
import type { DataOp } from '../desired/layers.js';
import { EngineRefusal } from '../engine/engine.js';
import { Applier } from './applier.js';

const { signal } = new AbortController();

/** An engine that refuses documents by their names; of a transaction that it takes in parts, all before the refused one are in. */
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
    applier.watchWithheld(() => told++);
    const { set, statics } = policy('c1', { 'a.rego': 'package a' }, { s: '{"k":1}' });
    await applier.applyPolicy(set, statics, signal);
    await applier.applyLayers(
      { set: [layer('/a', 1, '1'), layer('/bad', 2, '2'), layer('/c', 3, '3')], drop: [] },
      signal,
    );
    engine.wipe();
    engine.refuses.add('put /bad');
    await applier.restore(signal);
    assert.deepEqual(JSON.parse(engine.text), { s: { k: 1 }, a: 1, c: 3 });
    assert.deepEqual(
      [...applier.blocked.values()].map(({ layer: { id }, reason }) => [id, reason]),
      [['/bad@2', 'it is refused']],
    );
    assert.equal(told, 1);
    assert(applier.isCertain);
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
    await assert.rejects(applier.restore(signal), EngineRefusal);
    assert.deepEqual(JSON.parse(engine.text), { s: 1, t: 3, a: 1 });
    engine.refuses.clear();
    await applier.restore(signal);
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
  await applier.restore(signal);
  assert.deepEqual([JSON.parse(engine.text), [...applier.blocked.keys()]], [{ a: 1 }, ['/bad@2']]);
});

test('a document that cannot be written again keeps no other from being written', async () => {
  const engine = new PickyEngine(false);
  const applier = new Applier(engine, { takesPolicy: false });
  await applier.applyLayers({ set: [layer('/a', 1, '1'), layer('/bad', 2, '2')], drop: [] }, signal);
  // A write of unknown outcome: it is made again with the next one.
  engine.fails('unanswered');
  await assert.rejects(applier.rewrite(['bad'], signal));
  engine.refuses.add('put /bad');
  await applier.applyLayers({ set: [layer('/other', 3, '3')], drop: [] }, signal);
  assert.deepEqual(JSON.parse(engine.text), { a: 1, other: 3 });
  assert.deepEqual([...applier.blocked.keys()], ['/bad@2']);
  assert(applier.isCertain);
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
