import { test } from 'node:test';
import { openSqliteStore } from '../../src/server/log/sqlite/sqlite-store.js';
import { heapStaysFlat } from '../support/heap-soak.js';
import { tempDir } from '../support/temp-dir.js';

test('SQLite: the heap stays as large as it is, however many updates there are', async () => {
  await using dir = await tempDir();
  await heapStaysFlat(await openSqliteStore({ stateDir: dir.path }));
});
