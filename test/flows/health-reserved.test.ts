import assert from 'node:assert/strict';
import { after, afterEach, before, describe, it } from 'node:test';
import type { Layer } from '../../src/client/desired/layers.js';
import { MARKER_PATH } from '../../src/client/engine/marker.js';
import { HealthWriter } from '../../src/client/health/health-writer.js';
import { EngineRefusal } from '../../src/embedded/vocabulary.js';
import { silentLogger } from '../../src/lib/observe/log.js';
import { startEngine, type TestEngine } from '../support/engine.js';
import { layer, policy } from '../support/layers.js';
import { startOpa } from '../support/opa.js';
import { until } from '../support/until.js';

const ON = { SYNC_ENGINE_HEALTH_CHECK_POLICY_ENABLED: 'true' };
const SYNC = ['system', 'sync'];

/** An engine in either mode that has a health document. */
async function startMode(mode: 'inline' | 'external'): Promise<TestEngine> {
  const opa = mode === 'external' ? await startOpa({ args: ['--v0-compatible'] }) : undefined;
  const engine = await startEngine({
    env: { ...ON, SYNC_INLINE_ENGINE_OPEN: 'true' },
    ...(opa === undefined ? {} : { externalUrl: opa.url }),
  });
  const stop = new AbortController();
  const writer = new HealthWriter(
    { paths: [SYNC], backoff: { minMs: 10, maxMs: 100 } },
    { engine: engine.engine, status: engine.status, log: silentLogger() },
  );
  const done = writer.run(stop.signal);
  await until(() => writer.state.written, { withinMs: 20_000, what: 'the health document' });
  const dispose = engine[Symbol.asyncDispose].bind(engine);
  return Object.assign(engine, {
    [Symbol.asyncDispose]: async () => {
      stop.abort();
      await done;
      await dispose();
      await opa?.stop();
    },
  });
}

function put(engine: TestEngine, ...layers: Layer[]): Promise<unknown> {
  return engine.keeper.exclusive((signal) => engine.applier.applyLayers({ set: layers, drop: [] }, signal));
}

function drop(engine: TestEngine, ...ids: string[]): Promise<unknown> {
  return engine.keeper.exclusive((signal) => engine.applier.applyLayers({ set: [], drop: ids }, signal));
}

function load(engine: TestEngine, { set, statics }: ReturnType<typeof policy>): Promise<void> {
  return engine.keeper.exclusive((signal) => engine.applier.applyPolicy(set, statics, signal));
}

/** Both of the client's own documents are there, the health document as it was written. */
async function assertOwnDocuments(engine: TestEngine): Promise<void> {
  assert.notEqual(await engine.data(MARKER_PATH), undefined, 'the marker is gone');
  assert.equal(typeof (await engine.query('system/sync/healthy')), 'boolean');
  assert.deepEqual(Object.keys((await engine.data(SYNC)) as object).includes('last_data_transaction'), true);
}

for (const mode of ['inline', 'external'] as const) {
  describe(`the health document and the marker are the client's own (${mode})`, () => {
    let engine: TestEngine;
    before(async () => {
      engine = await startMode(mode);
    });
    after(() => engine[Symbol.asyncDispose]());
    /** The next case finds an engine that holds nothing else. */
    afterEach(async () => {
      for (const id of [...engine.applier.held.blocked.keys()]) engine.applier.held.unblock(id);
      await load(engine, policy('none', {}));
      await drop(engine, ...[...engine.applier.held.layers.all()].map(({ id }) => id));
      assert.equal(engine.applier.held.layers.size, 0);
    });

    it('documents of the root and of /system are written around them, come and go', async () => {
      await put(
        engine,
        layer('/', 1, '{"x":1,"system":{"n":1,"sync":{"ready":"no"},"policysync":{"marker":0}}}', 'root'),
      );
      await assertOwnDocuments(engine);
      assert.deepEqual([await engine.data(['x']), await engine.data(['system', 'n'])], [1, 1]);
      assert.equal(await engine.query('system/sync/ready'), false);

      await put(engine, layer('/system', 2, '{"m":2}', 'system'));
      await assertOwnDocuments(engine);
      assert.deepEqual([await engine.data(['system', 'n']), await engine.data(['system', 'm'])], [undefined, 2]);

      await put(engine, layer('/system', 3, 'delete', 'gone'));
      await assertOwnDocuments(engine);
      await drop(engine, 'root', 'system', 'gone');
      await assertOwnDocuments(engine);
      assert.deepEqual([await engine.data(['x']), await engine.data(['system', 'm'])], [undefined, undefined]);
    });

    it('a document at or below one, or a value in place of what leads there, is refused and changes nothing', async () => {
      const refused = [
        layer('/system/sync', 1, '{"ready":true}'),
        layer('/system/sync/ready', 1, 'true'),
        layer('/system/sync', 1, 'delete'),
        layer('/system/policysync/marker/x', 1, '1'),
        layer('/system', 1, '5'),
        layer('/system/policysync', 1, '[]'),
      ];
      for (const each of refused) {
        await assert.rejects(put(engine, each), (error) => {
          assert(error instanceof EngineRefusal);
          return /kept for the client's own documents|is the place of the client's own documents/.test(error.message);
        });
        await assertOwnDocuments(engine);
      }
      assert.equal(engine.applier.held.layers.size, 0);
    });

    it('what is withheld because it lies there stays withheld, whatever policy comes', async () => {
      await load(engine, policy('c1', { 'a.rego': 'package a\nx = 1' }));
      const inTheWay = [layer('/system', 1, '5'), layer('/system/sync', 2, '{"ready":5}'), layer('/b', 3, '1')];
      for (const each of inTheWay) {
        await engine.keeper.exclusive((signal) => engine.applier.withhold(each, 'the engine refuses it', signal));
      }
      await load(engine, policy('c2', { 'a.rego': 'package a\nx = 2' }));
      assert.deepEqual([...engine.applier.held.blocked.keys()].sort(), ['/system/sync@2', '/system@1']);
      assert.deepEqual(
        [...engine.applier.held.layers.all()].map(({ id }) => id),
        ['/b@3'],
      );
      await assertOwnDocuments(engine);
      assert.deepEqual([await engine.query('a/x'), await engine.data(['b'])], [2, 1]);
    });

    it('a policy that would take one over is refused whole, and the last good one keeps serving', async () => {
      await load(engine, policy('c1', { 'a.rego': 'package a\nx = 1' }));
      const bad = [
        policy('c2', { 'a.rego': 'package a\nx = 2', 's.rego': 'package system.sync\nready = 5' }),
        policy('c3', { 'a.rego': 'package a\nx = 2', 's.rego': 'package system.sync.deep\nready = 5' }),
        policy('c4', { 'a.rego': 'package a\nx = 2' }, { 'system/sync': '{"ready":5}' }),
        policy('c5', { 'a.rego': 'package a\nx = 2' }, { '.': '{"system":5}' }),
      ];
      for (const each of bad) {
        await assert.rejects(load(engine, each), EngineRefusal, each.set.hash);
        await assertOwnDocuments(engine);
        assert.equal(await engine.query('a/x'), 1, each.set.hash);
      }
    });

    it("what lies beside them below system is anybody's", async () => {
      await load(
        engine,
        policy('c1', { 'l.rego': 'package system.log\nmask = ["/input/x"]' }, { system: '{"n":{"a":1}}' }),
      );
      await put(engine, layer('/system/syncing', 1, '1'));
      await assertOwnDocuments(engine);
      assert.deepEqual(await engine.data(['system', 'log', 'mask']), ['/input/x']);
      assert.deepEqual([await engine.data(['system', 'syncing']), await engine.data(['system', 'n', 'a'])], [1, 1]);
    });

    it('they are there again after everything was written again', async () => {
      await put(engine, layer('/', 1, '{"x":1,"system":{"n":1,"sync":{"ready":"no"}}}'));
      await fetch(`${engine.url}/v1/data`, { method: 'PUT', body: '{}' });
      await until(async () => (await engine.data(['x'])) === 1, { withinMs: 20_000, what: 'it is filled again' });
      await until(async () => (await engine.data(SYNC)) !== undefined, {
        withinMs: 20_000,
        what: 'the health document',
      });
      await until(() => engine.status.engine.online, { withinMs: 20_000, what: 'the engine is ours' });
      await assertOwnDocuments(engine);
    });
  });
}

it('package system itself is refused in a bundle, which would own all below it, and fine as a module', async () => {
  const main = policy('c1', { 'm.rego': 'package system\nmain = 1' });
  await using inline = await startMode('inline');
  await assert.rejects(load(inline, main), /package system cannot be used: \/system\/policysync\/marker is kept/);
  await assertOwnDocuments(inline);
  await using external = await startMode('external');
  await load(external, main);
  assert.equal(await external.query('system/main'), 1);
  await assertOwnDocuments(external);
});
