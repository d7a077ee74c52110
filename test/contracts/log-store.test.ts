import { openSqliteStore } from '../../src/server/log/sqlite/sqlite-store.js';
import { logStoreContract } from '../support/log-store-contract.js';
import { tempDir } from '../support/temp-dir.js';

logStoreContract('sqlite', {
  shared: false,
  newLog: async (dedup) => {
    const folder = await tempDir();
    return Object.assign(folder, { open: () => openSqliteStore({ stateDir: folder.path, dedup }) });
  },
});
