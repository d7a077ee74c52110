import assert from 'node:assert/strict';
import { test } from 'node:test';
import { DocumentRefusal } from '../../embedded/documents.js';
import { type DocumentOp, type EmbeddedPolicy, GoRefusal } from '../../embedded/types.js';
import { SyncError } from '../../lib/errors.js';
import { EmbeddedEngine } from './embedded-engine.js';
import { EngineRefusal } from './engine.js';
import { RegoVersions } from './rego-versions.js';

const signal = new AbortController().signal;

/** An engine around an embedded OPA that records what it gets, and refuses as `refuse` says. */
function engineOf(refuse: (policy: EmbeddedPolicy) => Error | undefined = () => undefined) {
  const policies: EmbeddedPolicy[] = [];
  const writes: (readonly DocumentOp[])[] = [];
  const take = async (policy: EmbeddedPolicy): Promise<void> => {
    policies.push(policy);
    const error = refuse(policy);
    if (error !== undefined) throw error;
  };
  const opa = {
    check: take,
    activate: take,
    write: async (ops: readonly DocumentOp[]) => void writes.push(ops),
    read: async () => '{}',
  };
  // `v0` parses as v0 only.
  const parse = async (modules: ReadonlyMap<string, string>, version: 0 | 1): Promise<ReadonlySet<string>> =>
    new Set([...modules].flatMap(([path, rego]) => (version === 1 && rego.includes('v0') ? [path] : [])));
  const versions = new RegoVersions('auto', { parse });
  return { engine: new EmbeddedEngine(opa, { reserved: [], versions }), policies, writes };
}

test('what Go refuses is a refusal with its place, and the document that collides', async () => {
  const { engine } = engineOf(
    () =>
      new GoRefusal('app.rego:3: conflicting rule for data path app/allow found', [
        { message: 'conflicting rule for data path app/allow found', file: 'app.rego', row: 3 },
      ]),
  );
  const policy = { hash: 'c1', modules: new Map([['app.rego', 'package app']]) };
  await assert.rejects(engine.activate(policy, [['app']], [], signal), (error: unknown) => {
    assert(error instanceof EngineRefusal);
    assert.deepEqual(error.problems, [
      {
        message: 'conflicting rule for data path app/allow found',
        file: 'app.rego',
        row: 3,
        conflictPath: ['app', 'allow'],
      },
    ]);
    return true;
  });
});

test('a document that cannot be there is a refusal; what fails otherwise stays what it is', async () => {
  for (const [thrown, expected] of [
    [new DocumentRefusal(['a', 'b'], 'no object'), EngineRefusal],
    [new SyncError('engine_unreachable', 'away'), SyncError],
  ] as const) {
    const { engine } = engineOf(() => thrown);
    await assert.rejects(engine.check({ hash: 'c1', modules: new Map() }, [], signal), expected);
  }
});

test('a module that only v0 parses is sent again as v0', async () => {
  const { engine, policies } = engineOf(({ modules }) =>
    modules.some(({ rego, version }) => rego.includes('v0') && version === 1) ? new GoRefusal('not v1') : undefined,
  );
  const modules = new Map([
    ['old.rego', 'package old # v0'],
    ['new.rego', 'package new'],
  ]);
  await engine.activate({ hash: 'c1', modules }, [], [], signal);
  assert.deepEqual(
    policies.map((policy) => policy.modules.map(({ version }) => version)),
    [
      [1, 1],
      [0, 1],
    ],
  );
});

test('writes puts and removals as one list, and reserved documents by themselves', async () => {
  const { engine, writes } = engineOf();
  await engine.write(
    [
      { op: 'put', path: ['a'], text: () => '1.0' },
      { op: 'remove', path: ['b'] },
    ],
    signal,
    [],
  );
  await engine.writeReserved(['system', 'sync'], '{}', signal);
  assert.deepEqual(writes, [
    [
      { path: ['a'], text: '1.0' },
      { path: ['b'], text: undefined },
    ],
    [{ path: ['system', 'sync'], text: '{}' }],
  ]);
});

test('the marker is there once it is complete, until the engine ends', async () => {
  const { marker } = engineOf().engine;
  await assert.rejects(marker.complete(signal), SyncError);
  await marker.begin(signal);
  assert.equal(await marker.isThere(signal), false);
  await marker.complete(signal);
  assert.equal(await marker.isThere(signal), true);
  marker.clear();
  assert.equal(await marker.isThere(signal), false);
  await assert.rejects(marker.complete(signal), SyncError);
});
