import { countWork } from '../support/counted-work.js';
import { gitRepo } from '../support/git-repo.js';
import { startClient } from '../support/start-client.js';
import { startServer } from '../support/start-server.js';
import { until } from '../support/until.js';

/**
 * Does one of the hot ways, and says what work each took. Started by `hot-ways.test.ts` with `publish` or `decide`; a message asks for so
 * many, and one with what they took for each comes back.
 */
const workSince = countWork();

/** Nothing else happens meanwhile. */
const QUIET = {
  SYNC_POLICY_REPO_POLLING_INTERVAL: '0',
  SYNC_KEEP_ALIVE_INTERVAL: '3600',
};
const tell = (message: unknown): void => void process.send?.(message);

if (process.argv[2] === 'publish') {
  const server = await startServer({ SYNC_STATISTICS_ENABLED: 'false' });
  process.on('message', () => tell({ work: workSince() }));
  tell({ url: server.url });
} else {
  const repo = await gitRepo();
  await repo.commit({
    'rbac.rego': 'package app.rbac\ndefault allow := false\nallow if data.users[input.user].admin\n',
  });
  const server = await startServer({ SYNC_POLICY_REPO_URL: repo.url });
  const client = await startClient({ serverUrl: server.url, engine: 'embedded', env: QUIET });
  const ask = () => client.client.decide('app/rbac/allow', { user: 'ann', roles: ['a', 'b'] });
  await client.healthy();
  await until(async () => (await ask()).by === 'compiled', { withinMs: 60_000, what: 'the path is compiled' });
  process.on('message', async (count: number) => {
    workSince();
    for (let made = 0; made < count; made++) await ask();
    tell({ work: workSince() });
  });
  tell({ url: server.url });
}
