import { createHmac } from 'node:crypto';
import { join } from 'node:path';
import { pino } from 'pino';
import { bearer, keyPair, MASTER_TOKEN, tokenOf, withKeys } from './auth.js';
import { type DataSource, startDataSource } from './data-source.js';
import { gitHttpServer } from './git-http-server.js';
import { gitRepoAt } from './git-repo.js';
import type { Credentials } from './hostile-requests.js';
import { badAuthorizations } from './hostile-tokens.js';
import type { RawAnswer, RawRequest } from './hostile-wire.js';
import { request } from './http.js';
import { baseEntries, type StartedClient, startClient } from './start-client.js';
import { type StartedServer, startServer } from './start-server.js';
import { tempDir } from './temp-dir.js';
import { until } from './until.js';

/** What must be seen nowhere. */
const SECRETS = {
  'the webhook secret': 'planted-webhook-secret-5d1c',
  'the master token': MASTER_TOKEN,
  'the password of the repository': 'planted-repository-password-77ab',
  'a header value of an entry': 'planted-entry-header-90fe',
  'the password in the URL of an entry': 'planted-entry-password-31c4',
  'a header value of a callback': 'planted-callback-header-c2d7',
} as const;

/** A server and a client with authentication on, policy and data in the engine, logs kept at debug level. */
export interface HostileWorld extends AsyncDisposable {
  readonly server: StartedServer;
  readonly client: StartedClient;
  readonly credentials: Credentials;
  /** Tokens by peer type. */
  readonly tokens: Readonly<Record<'client' | 'datasource' | 'listener', string>>;
  /** The header that proves a webhook to be the git service's. */
  signature(body: Buffer): readonly [string, string];
  /** Names of the secrets that a text shows. */
  leaks(text: string): string[];
  /** Everything that must stay as it is, by name: what the server tells clients, and what the engine holds. */
  state(): Promise<Readonly<Record<string, string>>>;
  /** Log lines of both programs so far. */
  logText(): string;
  /** Port of a program. */
  portOf(url: string): number;
}

/** Starts one; everything is in the engine when it returns. */
export async function startHostileWorld(): Promise<HostileWorld> {
  const ends: AsyncDisposable[] = [];
  const keep = <T extends AsyncDisposable>(part: T): T => {
    ends.push(part);
    return part;
  };
  const dir = keep(await tempDir());
  const repo = await gitRepoAt(join(dir.path, 'repo'));
  await repo.commit({
    'app/app.rego': 'package app\n\nallow := data.users.ann.admin\n',
    'app/static/data.json': '{"limit":12345678901234567890}',
    '.manifest': 'app/app.rego\n',
  });
  const git = keep(await gitHttpServer(dir.path, { user: 'bot', password: SECRETS['the password of the repository'] }));
  const source = keep(await startDataSource());
  source.serve('/users', { ann: { admin: true }, bob: null });
  const pair = keyPair();
  const lines: string[] = [];
  const server = keep(
    await startServer(serverSettings(git.url, source, pair), {
      log: pino({ level: 'debug', base: null }, { write: (line) => void lines.push(line) }),
    }),
  );
  const tokens = {
    client: await tokenOf(server.url),
    datasource: await tokenOf(server.url, { type: 'datasource' }),
    listener: await tokenOf(server.url, { type: 'listener' }),
  };
  const client = keep(
    await startClient({
      serverUrl: server.url,
      env: {
        SYNC_CLIENT_TOKEN: tokens.client,
        SYNC_AUTH_PUBLIC_KEY: pair.publicKey,
        SYNC_SHOULD_REPORT_ON_DATA_UPDATES: 'true',
        SYNC_DEFAULT_UPDATE_CALLBACKS: JSON.stringify({
          callbacks: [
            [`${source.url}/report`, { headers: { authorization: SECRETS['a header value of a callback'] } }],
          ],
        }),
      },
    }),
  );
  await client.answers('/app/allow', {}, true);
  const secrets = { ...SECRETS, ...tokens, 'the private key': pair.privateKey.slice(60, 120) };
  const signature = (body: Buffer): readonly [string, string] => [
    'X-Hub-Signature-256',
    `sha256=${createHmac('sha256', SECRETS['the webhook secret']).update(body).digest('hex')}`,
  ];
  const world: HostileWorld = {
    server,
    client,
    tokens,
    signature,
    credentials: {
      good: ({ path, peerType, open }, body) => {
        if (path === '/webhook') return [signature(body ?? Buffer.alloc(0)), ['X-GitHub-Event', 'push']];
        if (path === '/token') return [['Authorization', `Bearer ${MASTER_TOKEN}`]];
        return open ? [] : [['Authorization', `Bearer ${tokens[peerType]}`]];
      },
      bad: badAuthorizations({ ...pair, good: tokens.datasource }),
    },
    leaks: (text) =>
      Object.entries(secrets)
        .filter(([, secret]) => text.includes(secret))
        .map(([name]) => name),
    state: async () => {
      const asClient = { headers: bearer(tokens.client) };
      const texts = {
        'GET /data/config': request(`${server.url}/data/config`, asClient),
        'GET /data/config with our extensions': request(`${server.url}/data/config`, {
          headers: { ...asClient.headers, 'x-sync-protocol': '1' },
        }),
        'GET /policy': request(`${server.url}/policy`, asClient),
        'GET /callbacks of the client': request(`${client.url}/callbacks`, { headers: bearer(tokens.listener) }),
        'the data of the engine': request(`${client.engineUrl}/v1/data`),
        'the policies of the engine': request(`${client.engineUrl}/v1/policies`),
      };
      const answers = Object.entries(texts).map(async ([name, answer]) => {
        const { status, text } = await answer;
        return [name, `${status} ${text}`] as const;
      });
      return Object.fromEntries(await Promise.all(answers));
    },
    logText: () => [...lines, ...client.log.map((line) => JSON.stringify(line))].join('\n'),
    portOf: (url) => Number(new URL(url).port),
    [Symbol.asyncDispose]: async () => {
      for (const part of ends.reverse()) await part[Symbol.asyncDispose]();
    },
  };
  await until(() => lines.length > 0 && client.log.length > 0, { withinMs: 20_000, what: 'both programs log' });
  return world;
}

/** Settings with every secret that a server may have. */
function serverSettings(gitUrl: string, source: DataSource, pair: ReturnType<typeof keyPair>): Record<string, string> {
  const userInfo = `bot:${SECRETS['the password of the repository']}@`;
  const headers = { authorization: `Bearer ${SECRETS['a header value of an entry']}` };
  const closed = `http://user:${SECRETS['the password in the URL of an entry']}@127.0.0.1:9/`;
  return {
    ...withKeys(pair),
    ...baseEntries(
      { url: `${source.url}/users`, dst_path: '/users', config: { headers } },
      // Nobody answers there: what programs say of their failures must show no secret either.
      { url: closed, dst_path: '/closed', config: { headers } },
    ),
    SYNC_POLICY_REPO_URL: `${gitUrl.replace('//', `//${userInfo}`)}/repo/.git`,
    SYNC_POLICY_REPO_WEBHOOK_SECRET: SECRETS['the webhook secret'],
    SYNC_STATISTICS_ENABLED: 'true',
  };
}

/** Whether an answer is one that shows secrets because it is asked to, by somebody who may. */
export function maySeeSecrets({ method, target, headers }: RawRequest, { status }: RawAnswer): boolean {
  const path = target.split('?', 1)[0];
  const shows = ['GET /data/config', 'HEAD /data/config', 'POST /token'];
  return status === 200 && shows.includes(`${method} ${path}`) && headers.some(([name]) => name === 'Authorization');
}
