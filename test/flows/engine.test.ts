import assert from 'node:assert/strict';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, afterEach, before, describe, it } from 'node:test';
import type { Layer } from '../../src/client/desired/layers.js';
import { EngineRefusal } from '../../src/embedded/vocabulary.js';
import { startEngine, type TestEngine } from '../support/engine.js';
import { layer, policy } from '../support/layers.js';
import { startOpa, type TestOpa } from '../support/opa.js';
import { tempDir } from '../support/temp-dir.js';

/** An engine in each mode; the external one is an OPA of its own. */
async function startMode(mode: 'inline' | 'external' | 'embedded'): Promise<TestEngine & { opa: TestOpa | undefined }> {
  if (mode !== 'external') return Object.assign(await startEngine({ kind: mode }), { opa: undefined });
  const opa = await startOpa({ args: ['--v0-compatible'] });
  const engine = await startEngine({ externalUrl: opa.url });
  const dispose = engine[Symbol.asyncDispose].bind(engine);
  return Object.assign(engine, {
    opa,
    [Symbol.asyncDispose]: async () => {
      await dispose();
      await opa.stop();
    },
  });
}

function put(engine: TestEngine, ...layers: Layer[]): Promise<unknown> {
  for (const { id } of layers) ids.add(id);
  return engine.keeper.exclusive((signal) => engine.applier.applyLayers({ set: layers, drop: [] }, signal));
}

/** Layers that were put since the engine was empty. */
const ids = new Set<string>();

/** Takes everything out again that a test has put in; objects stay where documents were below them. */
async function empty(engine: TestEngine): Promise<void> {
  await load(engine, policy('empty', {}));
  await engine.keeper.exclusive((signal) => engine.applier.applyLayers({ set: [], drop: [...ids] }, signal));
  ids.clear();
  assert.match(JSON.stringify(await engine.data([])).replaceAll(/"(?:[^"\\]|\\.)*"/g, ''), /^[{}:,]*$/);
}

function load(engine: TestEngine, { set, statics }: ReturnType<typeof policy>): Promise<void> {
  return engine.keeper.exclusive((signal) => engine.applier.applyPolicy(set, statics, signal));
}

/** Stands in for an OPA: it ends when its last connection does, and not before. */
const PATIENT_ENGINE = `#!${process.execPath}
if (process.argv[2] === 'version') return void console.log('Version: 1.22.0');
const address = process.argv.find((argument) => argument.startsWith('--addr='));
const sockets = new Set();
let told = false;
const endIfAlone = () => {
  if (!told || sockets.size > 0) return;
  require('node:fs').writeFileSync(process.env.ENDED, 'by itself');
  process.exit();
};
process.on('SIGTERM', () => {
  told = true;
  endIfAlone();
});
const server = require('node:http').createServer((request, response) => {
  if (request.method === 'GET') response.end('{}');
  else response.writeHead(204).end();
});
server.keepAliveTimeout = 60_000;
server.on('connection', (socket) => {
  sockets.add(socket);
  socket.on('close', () => {
    sockets.delete(socket);
    endIfAlone();
  });
});
server.listen(Number(address.split(':').at(-1)), '127.0.0.1');
`;

const ALLOW = 'package app.rbac\ndefault allow = false\nallow { data.users[input.user].admin }';

for (const mode of ['inline', 'external', 'embedded'] as const) {
  describe(`documents and policy in an engine (${mode})`, () => {
    let engine: Awaited<ReturnType<typeof startMode>>;
    before(async () => {
      engine = await startMode(mode);
    });
    afterEach(() => empty(engine));
    after(() => engine?.[Symbol.asyncDispose]());

    it('static data lies below dynamic documents, whichever comes first', async () => {
      await put(engine, layer('/users/bob', 1, '{"admin":true}'));
      await load(
        engine,
        policy('c1', { 'rbac.rego': ALLOW }, { '.': '{"users":{"bob":{"admin":false},"eve":{}},"x":1}' }),
      );
      assert.deepEqual(await engine.data(['users']), { bob: { admin: true }, eve: {} });
      assert.equal(await engine.query('app/rbac/allow', { user: 'bob' }), true);
      await load(engine, policy('c2', { 'rbac.rego': ALLOW }, { '.': '{"users":{"ann":{}}}' }));
      assert.deepEqual(await engine.data(['users']), { bob: { admin: true }, ann: {} });
      assert.equal(await engine.data(['x']), undefined);
    });

    it('an earlier document is written around a later one below it', async () => {
      await put(engine, layer('/a/b/c', 5, '"later"'));
      await put(engine, layer('/a', 1, '{"b":{"c":"earlier","d":1},"e":2}'));
      assert.deepEqual(await engine.data(['a']), { b: { c: 'later', d: 1 }, e: 2 });
      await put(engine, layer('/a', 9, '{"z":0}'));
      assert.deepEqual(await engine.data(['a']), { z: 0 });
    });

    it('a document that collides with a rule is withheld, and comes back when the rule goes', async () => {
      await put(engine, layer('/app/rbac/allow', 1, '"data"'), layer('/other', 2, '1'));
      await load(engine, policy('c1', { 'rbac.rego': ALLOW }));
      const blocked = [...engine.applier.held.blocked.values()];
      assert.equal(blocked.length, 1);
      assert.match(blocked[0]?.reason ?? '', /\/app\/rbac\/allow is defined by a rule \(rbac\.rego:2\)/);
      assert.equal(await engine.query('app/rbac/allow', { user: 'x' }), false);
      await load(engine, policy('c2', { 'other.rego': 'package other2\nx = 1' }));
      assert.equal(engine.applier.held.blocked.size, 0);
      assert.equal(await engine.data(['app', 'rbac', 'allow']), 'data');
    });

    it('a document that collides with a loaded rule is refused and changes nothing', async () => {
      await load(engine, policy('c1', { 'rbac.rego': ALLOW }));
      await assert.rejects(put(engine, layer('/app', 1, '{"rbac":{"allow":true},"n":1}')), EngineRefusal);
      assert.equal(await engine.data(['app', 'n']), undefined);
      await put(engine, layer('/app', 2, '{"rbac":{"roles":["a"]},"n":1}'));
      assert.deepEqual(await engine.data(['app']), { n: 1, rbac: { allow: false, roles: ['a'] } });
    });

    it('a policy that does not compile is refused and the last good one keeps serving', async () => {
      await load(
        engine,
        policy('c1', { 'a.rego': ALLOW, 'b.rego': 'package b\nx = 1' }, { '.': '{"users":{"ann":{"admin":true}}}' }),
      );
      const bad = policy(
        'c2',
        { 'a.rego': 'package app.rbac\nallow { nope(1) }', 'b.rego': 'package b\nx = 2' },
        { '.': '{"users":{}}' },
      );
      await assert.rejects(
        load(engine, bad),
        (error: unknown) =>
          error instanceof EngineRefusal && error.problems.some((p) => p.file === 'a.rego' && p.row === 2),
      );
      assert.equal(await engine.query('app/rbac/allow', { user: 'ann' }), true);
      assert.equal(await engine.query('b/x'), 1);
      await assert.rejects(load(engine, policy('c3', { 'a.rego': 'package app.rbac\nallow { ' })), EngineRefusal);
      assert.equal(await engine.query('app/rbac/allow', { user: 'ann' }), true);
      await load(engine, policy('c4', { 'b.rego': 'package b\nx = 3' }));
      assert.equal(await engine.query('b/x'), 3);
      assert.equal(await engine.query('app/rbac/allow', { user: 'ann' }), undefined);
    });

    it('a policy whose own static data collides with its rules is refused whole', async () => {
      await load(engine, policy('c1', { 'b.rego': 'package b\nx = 1' }, { s: '{"k":1}' }));
      await assert.rejects(
        load(engine, policy('c2', { 'b.rego': 'package b\nx = 2' }, { b: '{"x":7}', s: '{"k":2}' })),
        EngineRefusal,
      );
      assert.equal(await engine.query('b/x'), 1);
      assert.deepEqual(await engine.data(['s']), { k: 1 });
    });

    it('a commit that puts a rule, or a package, where its static data was is applied', async () => {
      await load(engine, policy('c1', { 'o.rego': 'package o\nx = 1' }, { '.': '{"c":null,"b":{"k":5}}' }));
      await load(engine, policy('c2', { 'b.rego': 'package b\nk = "rule"', 'c.rego': 'package c.a\nx = 2' }));
      assert.equal(await engine.query('b/k'), 'rule');
      assert.equal(await engine.query('c/a/x'), 2);
      await load(engine, policy('c3', { 'o.rego': 'package o\nx = 1' }, { '.': '{"c":null,"b":{"k":5}}' }));
      assert.deepEqual(await engine.data(['b']), { k: 5 });
      assert.equal(await engine.data(['c']), null);
    });

    it('patches stack on a document, survive its next version, and array edits work', async () => {
      await put(engine, layer('/t', 1, '{"list":[1,2],"n":12345678901234567890}', 'base'));
      await put(
        engine,
        layer('/t', 2, {
          patch: [
            { op: 'add', path: '/list/-', value: 3 },
            { op: 'add', path: '/new/deep', value: null },
            { op: 'remove', path: '/gone' },
          ],
        }),
      );
      assert.deepEqual(await engine.data(['t', 'list']), [1, 2, 3]);
      assert.deepEqual(await engine.data(['t', 'new']), { deep: null });
      await put(engine, layer('/t', 1, '{"list":[9]}', 'base'));
      assert.deepEqual(await engine.data(['t']), { list: [9, 3], new: { deep: null } });
      await put(engine, layer('/t/new', 3, 'delete'));
      assert.deepEqual(await engine.data(['t']), { list: [9, 3] });
    });

    it('documents at the root are written key by key and leave the rest alone', async () => {
      await put(engine, layer('/', 1, '{"a":1,"b":{"c":2}}', 'root'), layer('/b/d', 2, '3'));
      await put(engine, layer('/', 1, '{"b":{"c":4}}', 'root'));
      assert.equal(await engine.data(['a']), undefined);
      assert.deepEqual(await engine.data(['b']), { c: 4, d: 3 });
    });

    it('path segments with slashes, tildes, dots, quotes and spaces are kept apart', async () => {
      await put(engine, layer('/x%2Fy/a~b/c d/%22q%22/..e', 1, '1'), layer('/x%2Fy/a~b/é', 2, '2'));
      assert.deepEqual(await engine.data(['x/y']), { 'a~b': { 'c d': { '"q"': { '..e': 1 } }, é: 2 } });
    });

    if (mode !== 'inline') return;

    it('loads 200 modules in one step', async () => {
      const modules = Object.fromEntries(
        Array.from({ length: 200 }, (_, i) => [
          `m/m${i}.rego`,
          `package m.m${i}\nimport data.m.m${(i + 1) % 200 === 0 ? 1 : i}\nallow { input.x == ${i} }\n`,
        ]),
      );
      await load(engine, policy('big', modules));
      assert.equal(await engine.query('m/m199/allow', { x: 199 }), true);
    });

    it('keeps every dynamic document readable while policies and static data reload around it', async () => {
      await put(engine, layer('/users/bob', 1, '{"admin":true}'), layer('/app/rbac/roles', 2, '["r"]'));
      let polls = 0;
      let stop = false;
      const missing: string[] = [];
      const polling = (async () => {
        while (!stop) {
          const [bob, roles] = await Promise.all([
            engine.data(['users', 'bob']),
            engine.data(['app', 'rbac', 'roles']),
          ]);
          if (bob === undefined || roles === undefined) missing.push(`${JSON.stringify(bob)} ${JSON.stringify(roles)}`);
          polls++;
        }
      })();
      for (let round = 0; round < 25; round++) {
        const modules =
          round % 3 === 0
            ? { 'o.rego': 'package other\nz = 1' }
            : { 'rbac.rego': ALLOW, 'o.rego': `package other\nz = ${round}` };
        await load(
          engine,
          policy(`c${round}`, modules, { '.': `{"users":{"bob":{"admin":false},"n${round}":{}},"s":${round}}` }),
        );
      }
      stop = true;
      await polling;
      assert.ok(polls > 25, `only ${polls} polls`);
      assert.deepEqual(missing, []);
    });
  });
}

describe('an inline engine', () => {
  it('is told to end when no connection to it is left: an OPA waits for those on which nothing was asked yet', async () => {
    await using dir = await tempDir();
    const ended = join(dir.path, 'ended');
    const execPath = join(dir.path, 'opa');
    await writeFile(execPath, PATIENT_ENGINE, { mode: 0o755 });
    const engine = await startEngine({
      env: { SYNC_INLINE_ENGINE_EXEC_PATH: execPath, SYNC_INLINE_ENGINE_ENV: 'ENDED' },
      programEnv: { ...process.env, ENDED: ended },
    });
    await engine.engine.read(['users'], AbortSignal.timeout(5000)); // its connection is kept for a minute
    await engine[Symbol.asyncDispose]();
    assert.equal(await readFile(ended, 'utf8'), 'by itself');
  });
});
