import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { Layer } from '../../src/client/desired/layers.js';
import { EngineRefusal } from '../../src/embedded/vocabulary.js';
import { startEngine, type TestEngine } from '../support/engine.js';
import { engineWrites } from '../support/engine-writes.js';
import { layer, policy } from '../support/layers.js';
import { startOpa } from '../support/opa.js';
import { until } from '../support/until.js';

/** A change of documents compiles no policy, wherever they lie (design D12). */

const APP = { 'app.rego': 'package app\nallow { data.app.users[input.user] }\nmost = data.app.limits.most' };

function load(engine: TestEngine, { set, statics }: ReturnType<typeof policy>): Promise<void> {
  return engine.keeper.exclusive((signal) => engine.applier.applyPolicy(set, statics, signal));
}

function change(engine: TestEngine, set: Layer[], drop: Layer[] = []): Promise<unknown> {
  const ids = drop.map(({ id }) => id);
  return engine.keeper.exclusive((signal) => engine.applier.applyLayers({ set, drop: ids }, signal));
}

/** What OPA itself has noted of the bundle that it activated last. */
async function noted(engine: TestEngine, ...path: string[]): Promise<string> {
  return (await engine.text(['system', 'bundles', 'policy', ...path])) ?? '';
}

/** As many packages below one name as OPA compares with each other in no time, and more. */
function tenants(count: number): Record<string, string> {
  return Object.fromEntries(
    Array.from({ length: count }, (_, at) => [
      `tenants/t${at}.rego`,
      `package tenants.t${at}\nmost = data.tenants.t${at}.limits.most`,
    ]),
  );
}

describe('a change of data alone', () => {
  for (const access of ['token', 'open'] as const) {
    it(`activates no bundle of an inline engine, which says the commit all the same (${access})`, async () => {
      const env = access === 'open' ? { SYNC_INLINE_ENGINE_OPEN: 'true' } : {};
      await using engine = await startEngine({ env });
      const statics = { app: '{"limits":{"most":1,"least":0}}', other: '{"n":1}' };
      await load(engine, policy('c1', APP, statics));
      const activated = await noted(engine, 'etag');
      assert.match(activated, /c1-/);

      await load(engine, policy('c2', APP, { app: '{"limits":{"most":2.50}}', other: '{"n":2}' }));
      assert.equal(await engine.text(['app', 'limits']), '{"most":2.50}');
      assert.equal(await engine.query('app/most'), 2.5);
      assert.deepEqual(await engine.data(['other']), { n: 2 });
      assert.match(await noted(engine, 'manifest', 'revision'), /c2-/);

      const eve = layer('/app/users/eve', 1, 'true');
      await change(engine, [eve, layer('/elsewhere', 2, '1')]);
      assert.equal(await engine.query('app/allow', { user: 'eve' }), true);
      await change(engine, [], [eve]);
      assert.deepEqual(await engine.data(['app']), { limits: { most: 2.5 }, most: 2.5 }, 'nothing is left of it');
      await assert.rejects(change(engine, [layer('/app/most', 3, '9')]), (error: unknown) => {
        assert(error instanceof EngineRefusal);
        const [{ file, row, conflictPath } = {}] = error.problems;
        assert.deepEqual([file, row, conflictPath], ['app.rego', 3, ['app', 'most']]);
        return true;
      });
      assert.equal(await noted(engine, 'etag'), activated);

      const roots = await noted(engine, 'manifest', 'roots');
      assert.equal(roots, '["app"]', 'OPA still takes no other write below its packages');
      engine.kill();
      await until(() => !engine.status.engine.online, { withinMs: 20_000, what: 'the engine is gone' });
      await until(() => engine.status.engine.online, { withinMs: 20_000, what: 'the engine is back' });
      assert.deepEqual(await engine.data(['app']), { limits: { most: 2.5 }, most: 2.5 });

      await load(engine, policy('c3', { 'app.rego': `${APP['app.rego']}\nx = 1` }, { app: '{"limits":{"most":3}}' }));
      assert.match(await noted(engine, 'etag'), /c3-/);
      assert.deepEqual(await engine.data(['app']), { limits: { most: 3 }, most: 3, x: 1 });
      assert.equal(await engine.data(['other']), undefined);
    });
  }

  it('activates no bundle of an inline engine with a root for many packages, nor do documents beside these', async () => {
    await using engine = await startEngine();
    const statics = { 'tenants/t7': '{"limits":{"most":7}}', 'tenants/shared': '{"k":1}' };
    await change(engine, [layer('/tenants/early', 1, '{"k":0}')]);
    await load(engine, policy('c1', tenants(200), statics));
    assert.equal(await noted(engine, 'manifest', 'roots'), '["tenants"]');
    const activated = await noted(engine, 'etag');
    const expected = { early: { k: 0 }, shared: { k: 1 }, t7: { limits: { most: 7 }, most: 7 } };
    const held = async (): Promise<unknown> => {
      const all = (await engine.data(['tenants'])) as Record<string, object>;
      return Object.fromEntries(Object.entries(all).filter(([, own]) => JSON.stringify(own) !== '{}'));
    };
    assert.deepEqual(await held(), expected);

    const beside = layer('/tenants/late/er', 2, '1');
    const inside = layer('/tenants/t8/limits', 3, '{"most":8}');
    await change(engine, [beside, inside]);
    assert.deepEqual(await held(), { ...expected, late: { er: 1 }, t8: { limits: { most: 8 }, most: 8 } });
    await change(engine, [], [beside, inside]);
    await load(engine, policy('c2', tenants(200), { ...statics, 'tenants/t7': '{}' }));
    assert.deepEqual(await held(), { early: { k: 0 }, shared: { k: 1 } });
    assert.equal(await engine.data(['tenants', 'late']), undefined, 'nothing is left of it');
    assert.equal(await noted(engine, 'etag'), activated);

    for (const path of ['/tenants', '/tenants/t9'])
      await assert.rejects(
        change(engine, [layer(path, 4, '5')]),
        /is no object, but it is the place of a policy package/,
      );
    await change(engine, [layer('/tenants/t200', 5, '5')]);
    await load(engine, policy('c3', tenants(3), statics));
    const kept = { ...expected, t7: { limits: { most: 7 } }, t200: 5 };
    assert.deepEqual(await held(), kept, 'documents stay where the packages have gone');
  });

  it('has a root for each package where others may write, too', async () => {
    await using engine = await startEngine({ env: { SYNC_INLINE_ENGINE_OPEN: 'true' } });
    await load(engine, policy('c1', tenants(100)));
    assert.equal((JSON.parse(await noted(engine, 'manifest', 'roots')) as string[]).length, 100);
    const others = await fetch(`${engine.url}/v1/data/tenants/others`, { method: 'PUT', body: '1' });
    assert.equal(others.status, 204);
    await load(engine, policy('c2', { ...tenants(100), ...APP }));
    assert.equal(await engine.data(['tenants', 'others']), 1);
  });

  it('writes no module of an external engine', async () => {
    await using opa = await startOpa({ args: ['--v0-compatible'] });
    await using front = await engineWrites(opa.url);
    await using engine = await startEngine({ externalUrl: front.url });
    await load(engine, policy('c1', APP, { app: '{"limits":{"most":1}}' }));
    const before = front.all.length;
    await load(engine, policy('c2', APP, { app: '{"limits":{"most":2}}' }));
    assert.deepEqual(front.since(before), ['PUT /v1/data/app']);
    assert.equal(await engine.query('app/most'), 2);
  });
});
