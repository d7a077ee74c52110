import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { DocumentOp, EmbeddedPolicy } from '../../../embedded/types.js';
import { EngineRefusal } from '../../../embedded/vocabulary.js';
import { SyncError } from '../../../lib/errors.js';
import { RegoVersions } from '../modules/rego-versions.js';
import { EmbeddedEngine } from './embedded-engine.js';

const signal = new AbortController().signal;

/** An engine around an embedded OPA that records what it gets, and refuses as `refuse` says. */
function engineOf(refuse: (policy: EmbeddedPolicy) => Error | undefined = () => undefined) {
  const policies: EmbeddedPolicy[] = [];
  const writes: (readonly DocumentOp[])[] = [];
  const commits: string[] = [];
  const take = async (policy: EmbeddedPolicy): Promise<void> => {
    policies.push(policy);
    const error = refuse(policy);
    if (error !== undefined) throw error;
  };
  const opa = {
    check: take,
    activate: take,
    write: async (ops: readonly DocumentOp[], hash?: string) => {
      writes.push(ops);
      if (hash !== undefined) commits.push(hash);
    },
    read: async () => '{}',
  };
  // `v0` parses as v0 only.
  const parse = async (modules: ReadonlyMap<string, string>, version: 0 | 1): Promise<ReadonlySet<string>> =>
    new Set([...modules].flatMap(([path, rego]) => (version === 1 && rego.includes('v0') ? [path] : [])));
  const versions = new RegoVersions('auto', { parse });
  return { engine: new EmbeddedEngine(opa, { reserved: [], versions }), policies, writes, commits };
}

test('what is refused, and what fails otherwise, stays what it is', async () => {
  for (const thrown of [new EngineRefusal('no object'), new SyncError('engine_unreachable', 'away')]) {
    const { engine } = engineOf(() => thrown);
    const expected = { name: thrown.name, message: thrown.message };
    await assert.rejects(engine.check({ hash: 'c1', modules: new Map() }, [], signal), expected);
  }
});

test('a module that only v0 parses is sent again as v0', async () => {
  const { engine, policies } = engineOf(({ modules }) =>
    modules.some(({ rego, version }) => rego.includes('v0') && version === 1) ? new EngineRefusal('not v1') : undefined,
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

test('documents in the roots of the policy are written without it, for the commit that they are of', async () => {
  const { engine, policies, writes, commits } = engineOf();
  const policy = { hash: 'c2', modules: new Map([['app.rego', 'package app']]) };
  const ops = [
    { op: 'put', path: ['app', 'x'], text: () => '1.0' } as const,
    { op: 'remove', path: ['app', 'y'] } as const,
  ];
  assert.equal(await engine.writeInRoots(policy, [['app']], ops, signal), true);
  assert.deepEqual(writes, [
    [
      { path: ['app', 'x'], text: '1.0' },
      { path: ['app', 'y'], text: undefined },
    ],
  ]);
  assert.deepEqual([policies, commits], [[], ['c2']]);
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
