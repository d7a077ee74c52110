import assert from 'node:assert/strict';
import { mkdir, mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { silentLogger } from '../../lib/observe/log.js';
import { openClaims } from './claims-file.js';
import { IdClaims } from './id-claims.js';
import { StateFiles } from './state-files.js';

describe('whose client ids are whose', () => {
  it('an id is that of the subject which used it first, for as long as it uses it and for the memory after that', () => {
    const claims = new IdClaims({ memoryMs: 100 });
    assert.equal(claims.use('a', 's1', 10), 10);
    assert.equal(claims.use('a', 's2', 20), 20);
    assert.equal(claims.ownerOf('a', 1000), 's1', 'it is in use');
    claims.release('a', 's1', 1000);
    assert.equal(claims.ownerOf('a', 1099), 's1');
    assert.equal(claims.ownerOf('a', 1100), 's2');
    assert.equal(claims.use('a', 's1', 1050), 10, 'it is back');
    assert.equal(claims.ownerOf('a', 2000), 's1');
    assert.equal(claims.ownerOf('b', 0), undefined);
    claims.use('b', null, 0);
    assert.equal(claims.ownerOf('b', 0), undefined, 'nobody is nobody');
  });

  it('the earlier word of another instance counts, and is forgotten when nothing is heard of it', () => {
    const claims = new IdClaims({ memoryMs: 100 });
    claims.use('a', 's2', 20);
    claims.learn({ id: 'a', subject: 's1', sinceMs: 10 }, 30);
    assert.equal(claims.ownerOf('a', 30), 's1');
    claims.learn({ id: 'a', subject: 's1', sinceMs: 15 }, 100);
    assert.deepEqual([claims.ownerOf('a', 199), claims.ownerOf('a', 200)], ['s1', 's2']);
    claims.learn({ id: 'a', subject: 's2', sinceMs: 5 }, 100);
    assert.equal(claims.ownerOf('a', 150), 's2', 'of itself, too');
  });

  it('one subject keeps a thousand that it does not use; those of others stay', () => {
    const claims = new IdClaims({ memoryMs: 1e9 });
    claims.use('mine', 'victim', 0);
    claims.release('mine', 'victim', 0);
    for (let count = 0; count < 5000; count++) {
      claims.use(`id-${count}`, 'squatter', 1);
      claims.release(`id-${count}`, 'squatter', 1);
    }
    assert.equal(claims.list(2).length, 1001);
    assert.deepEqual([claims.ownerOf('id-3999', 2), claims.ownerOf('id-4000', 2)], [undefined, 'squatter']);
    assert.equal(claims.ownerOf('mine', 2), 'victim');
  });

  it('is kept in a file of its own, and a file that is damaged costs names alone', async () => {
    const stateDir = await mkdtemp(join(tmpdir(), 'sync-claims-'));
    try {
      const files = new StateFiles();
      const deps = { log: silentLogger(), files };
      const first = await openClaims({ stateDir, memoryMs: 60_000 }, deps);
      first.claims.use('a', 's1', 10);
      await first.close();
      const file = join(stateDir, 'client-ids.json');
      assert.equal((await stat(file)).mode & 0o777, 0o600);
      const second = await openClaims({ stateDir, memoryMs: 60_000 }, deps);
      assert.equal(second.claims.ownerOf('a', Date.now()), 's1');
      assert.equal(second.claims.use('a', 's1', 99), 10);
      await second.close();
      await writeFile(file, '{"version":1,"claims":');
      const third = await openClaims({ stateDir, memoryMs: 60_000 }, deps);
      assert.equal(third.claims.ownerOf('a', Date.now()), undefined);
      third.claims.use('b', 's', 1);
      await third.close();
      assert.match(await readFile(file, 'utf8'), /"id":"b"/);
      assert.equal(files.failing.length, 0);
      await mkdir(join(stateDir, 'tmp_client-ids.json')); // in the way of the next one
      const fourth = await openClaims({ stateDir, memoryMs: 60_000 }, deps);
      fourth.claims.use('c', 's', 1);
      await fourth.close();
      assert.deepEqual(
        files.failing.map((failing) => failing.file),
        ['client-ids.json'],
      );
    } finally {
      await rm(stateDir, { recursive: true });
    }
  });
});
