import { openSqliteStore } from '../../src/server/log/sqlite-store.js';
import { logStoreContract } from '../support/log-store-contract.js';
import { tempDir } from '../support/temp-dir.js';

logStoreContract('sqlite', {
  shared: false,
  newLog: async () => {
    const folder = await tempDir();
    return Object.assign(folder, { open: () => openSqliteStore({ stateDir: folder.path }) });
  },
});
