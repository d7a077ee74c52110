import { bearer, MASTER_TOKEN, tokenOf } from '../support/auth.js';
import { startDataSource } from '../support/data-source.js';
import { gitRepo } from '../support/git-repo.js';
import { startOpa } from '../support/opa.js';
import { baseEntries } from '../support/start-client.js';
import { tempDir } from '../support/temp-dir.js';
import { runOpal } from './opal-python.js';
import { recordingProxy } from './recording-proxy.js';
import { allowing, type Keep, opalKeys, reaches, startOpalClient, startOurServer } from './stage.js';

export const WEBHOOK_SECRET = 'secret-of-the-webhook';
export const CLIENT_ID = 'opal-client-one';
export const SOURCE_HEADER = 'Bearer token-of-the-source';
export const REPORTS = '/data/callback_report';

/**
 * An OPAL 0.9.9 client and our server with authentication on. Everything that the client sends passes a proxy that keeps it.
 * The client has its token from our server by OPAL's own command, and sends its reports twice: as OPAL does by itself, and
 * with the token configured.
 */
export async function startOpalClientStage(opalBin: string, keep: Keep) {
  const folder = keep(await tempDir());
  const keys = await opalKeys(folder.path);
  const repo = keep(await gitRepo());
  await repo.commit(allowing('admin'));
  const source = keep(await startDataSource());
  source.serve('/base', { from: 'base' });
  const sourceProxy = keep(await recordingProxy(source.url));
  const auth = {
    SYNC_AUTH_PUBLIC_KEY: keys.publicKey,
    SYNC_AUTH_PRIVATE_KEY: keys.privateKey,
    SYNC_AUTH_MASTER_TOKEN: MASTER_TOKEN,
  };
  const server = keep(
    await startOurServer(folder.path, {
      ...auth,
      SYNC_STATISTICS_ENABLED: 'true',
      SYNC_POLICY_REPO_URL: repo.url,
      SYNC_POLICY_REPO_WEBHOOK_SECRET: WEBHOOK_SECRET,
      ...baseEntries({
        url: `${sourceProxy.url}/base`,
        dst_path: '/base',
        config: { headers: { Authorization: SOURCE_HEADER } },
      }),
    }),
  );
  const proxy = keep(await recordingProxy(server.url));
  const obtain = ['obtain-token', MASTER_TOKEN, '--server-url', server.url];
  const token = (await runOpal(opalBin, 'opal-client', [...obtain, '--ttl', '2', 'days'], folder.path)).trim();
  const [datasource, listener] = [
    await tokenOf(server.url, { type: 'datasource' }),
    await tokenOf(server.url, { type: 'listener' }),
  ];
  const reports = `${proxy.url}${REPORTS}`;
  const withToken = { method: 'post', headers: { ...bearer(token), 'content-type': 'application/json' } };
  const engine = keep(await startOpa());
  const client = keep(
    await startOpalClient(opalBin, folder.path, {
      serverUrl: proxy.url,
      engine,
      env: {
        OPAL_CLIENT_TOKEN: token,
        OPAL_AUTH_PUBLIC_KEY: keys.publicKey,
        OPAL_DATA_TOPICS: 'policy_data,tenants',
        OPAL_OPAL_CLIENT_STAT_ID: CLIENT_ID,
        OPAL_DEFAULT_UPDATE_CALLBACKS: JSON.stringify({ callbacks: [reports, [reports, withToken]] }),
      },
    }),
  );
  const programs = [client.output, server.output];
  await reaches(engine, '/base', { from: 'base' }, programs);
  return {
    opalBin,
    folder: folder.path,
    auth,
    repo,
    source,
    sourceProxy,
    server,
    proxy,
    engine,
    client,
    tokens: { client: token, datasource, listener },
    reports: { url: reports, withToken },
    /** Waits for what the engine of the client answers. */
    reaches: (path: string, value: unknown, input?: unknown) => reaches(engine, path, value, programs, input),
  };
}
