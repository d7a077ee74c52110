import assert from 'node:assert/strict';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { DriftCheck } from '../../src/client/drift/drift-check.js';
import { createSpool } from '../../src/client/fetch/spool.js';
import { captureContent, loadableContent } from '../../src/client/offline/backup-content.js';
import { readBackup } from '../../src/client/offline/backup-reader.js';
import { writeBackup } from '../../src/client/offline/backup-writer.js';
import { silentLogger } from '../../src/lib/observe/log.js';
import {
  clientSettings,
  startEngine,
  startExternalEngine,
  startMemoryEngine,
  type TestEngine,
} from '../support/engine.js';
import { request } from '../support/http.js';
import { assertSameDocuments } from '../support/same-documents.js';
import { tempDir } from '../support/temp-dir.js';
import { followWorld, type NewEntry, settled, World, type WorldClient } from '../support/world.js';

/** A decision that asks whether something is there at all. */
const APP = { 'app.rego': 'package app\nimport rego.v1\nallow if data.tenants[input.t]\nallow if data.dyn[input.t]' };
const DEEP = { 'deep.rego': 'package deep.er.still\nimport rego.v1\nk := 1' };
const KEPT = { folder: 'kept', text: '{"empty":{}}' };

/** How another program writes into an engine. */
const FOREIGN = { method: 'PUT', body: '{}', headers: { 'content-type': 'application/json' } };

const put = (path: string, text: string): NewEntry => ({ path, method: 'PUT', text, byUrl: false });
const remove = (path: string): NewEntry => ({ path, method: 'DELETE', byUrl: false });
const onlyRemove = (path: string): NewEntry => ({ ...remove(path), onlyRemoves: true });
const patch = (path: string, ...ops: object[]): NewEntry => ({
  path,
  method: 'PATCH',
  text: JSON.stringify(ops),
  byUrl: false,
});

/** An engine that follows a world of its own. */
class Followed {
  readonly world = new World();
  readonly engine: TestEngine;
  readonly client: WorldClient;
  #commits = 0;

  constructor(engine: TestEngine) {
    this.engine = engine;
    this.client = followWorld(this.world, engine);
  }

  async commit(modules: Record<string, string>, ...data: { folder: string; text: string }[]): Promise<void> {
    this.world.commit = { hash: `c${++this.#commits}`, modules, data };
    this.client.policy.request();
    await settled(this.client, this.engine);
    assert.equal(this.client.policy.hash, this.world.commit.hash);
  }

  async publish(...entries: NewEntry[]): Promise<void> {
    for (const entry of entries) {
      const update = this.world.publish([entry]);
      this.client.data.receive(update, 'policy_data', JSON.stringify(update));
      await settled(this.client, this.engine);
    }
  }

  /** All that the engine answers for, beside `kept`. */
  async holds(expected: object, what: string): Promise<void> {
    const all = { app: {}, kept: { empty: {} }, ...expected };
    assertSameDocuments(await this.engine.text([]), JSON.stringify(all), what);
  }

  allows(t: string): Promise<unknown> {
    return this.engine.query('app/allow', { t });
  }
}

const KINDS: { what: string; start: () => Promise<TestEngine> }[] = [
  { what: 'an inline engine', start: startEngine },
  { what: 'an external engine', start: startExternalEngine },
  { what: 'an embedded engine', start: () => startEngine({ kind: 'embedded' }) },
];

describe('what a removed document leaves', () => {
  for (const { what, start } of KINDS) {
    it(`${what} holds what a fresh one holds, and decides alike`, async () => {
      await using engine = await start();
      const on = new Followed(engine);
      await using client = on.client;
      client.data.resync();
      const config = { folder: 'tenants/a/config', text: '{"x":1}' };
      await on.commit(APP, config, KEPT);
      await on.holds({ tenants: { a: { config: { x: 1 } } } }, 'as committed');
      assert.equal(await on.allows('a'), true);

      await on.commit(APP, KEPT);
      await on.holds({}, 'the data file is gone');
      assert.equal(await on.allows('a'), undefined);

      await on.publish(put('dyn/a/config', '{"x":1}'), put('dyn/b/config', '1'));
      assert.equal(await on.allows('a'), true);
      await on.publish(remove('dyn/a/config'));
      await on.holds({ dyn: { b: { config: 1 } } }, 'one of two documents is gone');
      assert.equal(await on.allows('a'), undefined);
      await on.publish(remove('dyn/b/config'));
      await on.holds({}, 'all documents are gone');

      await on.publish(put('dyn', '{}'), put('dyn/a/config', '1'), remove('dyn/a/config'));
      await on.holds({ dyn: {} }, 'a document that was published stays');
      const made = patch('made/a', { op: 'add', path: '/x/y', value: 1 });
      await on.publish(made, patch('made/a', { op: 'remove', path: '/x/y' }));
      await on.holds({ dyn: {}, made: { a: { x: {} } } }, 'what a patch made stays');
      await on.publish(remove('dyn'), remove('made/a'));
      await on.holds({}, 'all is gone');

      const deep = { deep: { er: { still: { k: 1 } } } };
      await on.commit({ ...APP, ...DEEP }, { folder: 'deep/er/still/data', text: '1' }, KEPT);
      await on.publish(put('deep/er/doc', '1'), remove('deep/er/doc'));
      await on.commit({ ...APP, ...DEEP }, KEPT);
      await on.holds(deep, 'a package lies below');
      await on.commit(APP, KEPT);
      await on.holds({}, 'the package is gone');
      await on.publish(put('deep', '{}'));
      await on.commit({ ...APP, ...DEEP }, KEPT);
      engine.kill();
      await on.commit({ ...APP, ...DEEP }, KEPT, { folder: 'last', text: '1' });
      await on.commit(APP, KEPT);
      await on.holds({ deep: {} }, 'a document above a package that is gone');

      engine.kill();
      await on.commit(APP, KEPT, { folder: 'last', text: '2' });
      await on.holds({ deep: {}, last: 2 }, 'filled again');
      await using fresh = await start();
      await using other = followWorld(on.world, fresh);
      other.data.resync();
      other.policy.request();
      await settled(other, fresh);
      assertSameDocuments(await engine.text([]), await fresh.text([]));
    });
  }

  for (const { what, start } of KINDS) {
    it(`${what} shows what a commit brings where a deletion has only removed, as a fresh one`, async () => {
      await using engine = await start();
      const on = new Followed(engine);
      await using client = on.client;
      client.data.resync();
      await on.commit(APP, KEPT);
      await on.publish(
        put('dyn/a', '{"x":1}'),
        onlyRemove('dyn/a'),
        put('dyn/b', '{"x":1,"y":1}'),
        onlyRemove('dyn/b/x'),
      );
      await on.publish(put('dyn/c', '1'), remove('dyn/c'));
      await on.holds({ dyn: { b: { y: 1 } } }, 'as deleted');
      const data = ['a', 'b', 'c'].map((name) => ({ folder: `dyn/${name}`, text: '{"x":"git"}' }));
      await on.commit(APP, ...data, KEPT);
      await on.holds({ dyn: { a: { x: 'git' }, b: { y: 1 } } }, 'over data of a commit stands what hides them');
      await on.publish(put('dyn/a/x', '2'), onlyRemove('dyn'));
      await on.holds({ dyn: { a: { x: 'git' }, b: { x: 'git' }, c: { x: 'git' } } }, 'nothing stands over them');
      await using fresh = await start();
      await using other = followWorld(on.world, fresh);
      other.data.resync();
      other.policy.request();
      await settled(other, fresh);
      assertSameDocuments(await engine.text([]), await fresh.text([]));
      await on.commit(APP, KEPT);
      await on.holds({}, 'and they go');
    });
  }

  it('what others have put into an external engine stays, and what is above it', async () => {
    await using engine = await startExternalEngine();
    const on = new Followed(engine);
    await using client = on.client;
    client.data.resync();
    await on.commit(APP, KEPT);
    await on.publish(put('dyn/a/config', '1'), put('dyn/b/config', '1'));
    assert.equal((await request(`${engine.url}/v1/data/dyn/a/foreign`, FOREIGN)).status, 204);
    await on.publish(remove('dyn/a/config'), remove('dyn/b/config'));
    await on.holds({ dyn: { a: { foreign: {} } } }, 'the foreign one stays');
  });

  it('what the drift check takes away again leaves nothing either', async () => {
    await using engine = await startExternalEngine();
    const on = new Followed(engine);
    await using client = on.client;
    client.data.resync();
    const { applier, keeper } = engine;
    const parts = { held: applier.held, engine: engine.engine, exclusive: keeper.exclusive, log: silentLogger() };
    const drift = new DriftCheck({ intervalMs: 3_600_000, recordDelayMs: 0 }, parts);
    const stop = new AbortController();
    const done = drift.run(stop.signal);
    await on.commit(APP, KEPT);
    await on.publish(put('dyn/a/config', '1'), remove('dyn/a/config'));
    await drift.check();
    assert.equal((await request(`${engine.url}/v1/data/dyn/a/config`, FOREIGN)).status, 204);
    const { repaired, error } = await drift.check();
    assert.deepEqual([repaired, error], [1, undefined]);
    await on.holds({}, 'as if nobody had written');
    stop.abort();
    await done;
  });

  it('an engine that starts from a backup holds the same', async () => {
    await using dir = await tempDir();
    await using engine = await startMemoryEngine();
    const on = new Followed(engine);
    await using client = on.client;
    client.data.resync();
    await on.commit(APP, KEPT);
    await on.publish(put('dyn/a/config', '1'), remove('dyn/a/config'), put('doc', '{}'));
    await on.publish(patch('doc/x/y', { op: 'add', path: '/z', value: 1 }));
    await on.publish(patch('made/a', { op: 'add', path: '/x/y', value: 1 }));
    await on.publish(patch('made/a', { op: 'remove', path: '/x/y' }), remove('doc/x/y'));
    await on.holds({ doc: {}, made: { a: { x: {} } } }, 'the one that runs');
    const { held } = engine.applier;
    const parts = { engine: engine.engine, held, policy: client.policy, data: client.data };
    const file = join(dir.path, 'backup.json');
    await writeBackup(file, captureContent(parts, clientSettings({})).content);
    const spool = await createSpool({ dir: join(dir.path, 'spool'), limitBytes: 1e6, memoryLimitBytes: 1e6 });
    const read = await readBackup(file, spool, new AbortController().signal);
    assert(read !== undefined);
    await using fresh = await startMemoryEngine();
    await fresh.keeper.exclusive((signal) => fresh.applier.held.load(loadableContent(read), signal));
    assertSameDocuments(await fresh.text([]), await engine.text([]));
  });

  it('what it had covered is withheld where a package is, as by a client that starts now', async () => {
    await using engine = await startMemoryEngine();
    const on = new Followed(engine);
    await using client = on.client;
    client.data.resync();
    await on.publish(put('', '{"deep":{"er":null},"z":1}'), put('deep/er/doc', '1'));
    await on.commit(DEEP);
    await on.publish(remove('deep/er/doc'));
    await using fresh = await startMemoryEngine();
    await using other = followWorld(on.world, fresh);
    other.data.resync();
    await settled(other, fresh);
    other.policy.request();
    await settled(other, fresh);
    assertSameDocuments(await engine.text([]), await fresh.text([]));
    assert.deepEqual([...engine.applier.held.blocked.keys()], [...fresh.applier.held.blocked.keys()]);
    await on.publish(put('deep', '{}'));
    assertSameDocuments(await engine.text(['z']), '1', 'it comes back once it has room');
  });
});
