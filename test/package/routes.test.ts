import assert from 'node:assert/strict';
import { join } from 'node:path';
import { after, before, describe, it, type TestContext } from 'node:test';
import { errorText } from '../../src/lib/errors.js';
import { bearer, keyPair, MASTER_TOKEN, tokenOf, withKeys } from '../support/auth.js';
import { ALL_OFFERED } from '../support/authzen.js';
import { chromiumProgram, launchChromium } from '../support/chromium.js';
import { type StartedCommand, startCommand } from '../support/command.js';
import { type DeclaredApi, declaredApi, type Operation } from '../support/declared-api.js';
import { type GitRepo, gitRepo } from '../support/git-repo.js';
import { type Answer, request } from '../support/http.js';
import { freePort, testOpa } from '../support/opa.js';
import { pageHeaders } from '../support/page.js';
import { type TempDir, tempDir } from '../support/temp-dir.js';
import { until } from '../support/until.js';

const WITHIN_MS = 60_000;
const CHROMIUM = await chromiumProgram();

/** How an operation is asked so that it succeeds; without one: as it is, a body being `{}`. */
interface Ask {
  /** With its parameters. Default: the path of the operation. */
  readonly path?: string;
  readonly body?: object;
  readonly headers?: Readonly<Record<string, string>>;
}

const ENTRY = { url: '', topics: ['policy_data'], dst_path: '/packaged', data: { here: true } };
const UPDATE = { id: 'packaged', entries: [ENTRY], reason: 'package test' };
const REPORT = { entry: { ...ENTRY, data: undefined }, fetched: true, saved: true };

const SERVER_ASKS: Readonly<Record<string, readonly Ask[]>> = {
  'GET /policy': [{}, { path: '/policy?path=a' }],
  'POST /webhook': [
    {
      headers: { 'x-github-event': 'push' },
      body: { repository: { git_url: 'x', ssh_url: 'x', clone_url: 'x' }, ref: 'refs/heads/main' },
    },
  ],
  'POST /data/config': [{ body: UPDATE }, { path: '/data/config?wait=applied&timeout=5s', body: UPDATE }],
  'POST /data/callback_report': [{ body: { update_id: 'u', policy_hash: null, reports: [REPORT] } }],
  'POST /data/refresh': [{ body: { topics: ['policy_data'], path: '/' } }],
  'GET /clients/{id}': [{ path: '/clients/packaged' }],
  'POST /clients/{id}/actions': [
    { path: '/clients/packaged/actions', body: { action: 'refresh' } },
    { path: '/clients/packaged/actions', body: { action: 'log_level', level: 'info' } },
  ],
  'GET /trace/{id}': [{ path: '/trace/packaged' }, { path: '/trace/packaged?limit=1&after=a' }],
  'GET /changes': [{}, { path: '/changes?limit=1&path=/packaged&topic=policy_data' }, { path: '/changes?kind=policy' }],
  'POST /log-level': [{ body: { level: 'info', for_seconds: 60 } }, { body: { level: 'default' } }],
  'POST /token': [{ headers: bearer(MASTER_TOKEN), body: { type: 'client' } }],
};

/** Signing in and out, as the live page does it. */
function pageAsks(serverUrl: string, token: string): Readonly<Record<string, readonly Ask[]>> {
  const headers = pageHeaders(serverUrl);
  return { 'POST /ui/session': [{ headers, body: { token } }], 'DELETE /ui/session': [{ headers }] };
}

const SUBJECT = { type: 'user', id: 'ann' };
const RESOURCE = { type: 'todo', id: '1' };
const EVALUATION = { subject: SUBJECT, action: { name: 'read' }, resource: RESOURCE };

const CLIENT_ASKS: Readonly<Record<string, readonly Ask[]>> = {
  'POST /access/v1/evaluation': [{ body: EVALUATION }],
  'POST /access/v1/evaluations': [{ body: EVALUATION }, { body: { ...EVALUATION, evaluations: [{}, {}] } }],
  'POST /access/v1/search/subject': [{ body: EVALUATION }, { body: { ...EVALUATION, page: { limit: 1 } } }],
  'POST /access/v1/search/resource': [{ body: EVALUATION }],
  'POST /access/v1/search/action': [{ body: EVALUATION }],
  'POST /log-level': [{ body: { level: 'info', component: 'policy' } }, { body: { level: 'default' } }],
  'POST /callbacks': [{ body: { url: 'http://127.0.0.1:9/callback', key: 'packaged' } }],
  'GET /callbacks/{key}': [{ path: '/callbacks/packaged' }],
  'DELETE /callbacks/{key}': [{ path: '/callbacks/packaged' }],
};

/** A program of the package, its API and the token that it takes. */
interface Subject {
  readonly command: StartedCommand;
  readonly url: string;
  readonly api: DeclaredApi;
  readonly token: string;
  readonly asks: Readonly<Record<string, readonly Ask[]>>;
}

describe('every route of the programs of the package answers as it declares', () => {
  let repo: GitRepo;
  let dir: TempDir;
  const started: StartedCommand[] = [];
  const subjects = new Map<string, Subject>();

  before(async () => {
    [repo, dir] = await Promise.all([gitRepo(), tempDir()]);
    await repo.commit({ 'a/a.rego': 'package a\n', 'data.json': '{"static":1}' });
    const pair = keyPair();
    const server = await startProgram('server', 'SYNC_SERVER_BIND_PORT', {
      ...withKeys(pair),
      SYNC_STATE_DIR: join(dir.path, 'state'),
      SYNC_POLICY_REPO_URL: repo.url,
      SYNC_STATISTICS_ENABLED: 'true',
    });
    const client = await startProgram('client', 'SYNC_CLIENT_API_SERVER_PORT', {
      SYNC_SERVER_URL: server.url,
      SYNC_CLIENT_ID: 'packaged',
      SYNC_AUTH_PUBLIC_KEY: pair.publicKey,
      SYNC_CLIENT_TOKEN: await tokenOf(server.url, { type: 'client' }),
      SYNC_POLICY_STORE_URL: `http://127.0.0.1:${await freePort()}`,
      SYNC_INLINE_ENGINE_EXEC_PATH: await testOpa(),
      SYNC_OFFLINE_MODE_ENABLED: 'true',
      ...ALL_OFFERED,
      SYNC_STORE_BACKUP_PATH: join(dir.path, 'backup.json'),
    });
    await until(async () => (await request(`${client.url}/healthy`)).status === 200, {
      withinMs: WITHIN_MS,
      what: 'the client is healthy',
    });
    const [publisher, listener] = await Promise.all(
      ['datasource', 'listener'].map((type) => tokenOf(server.url, { type })),
    );
    assert(publisher !== undefined && listener !== undefined);
    const asks = { ...SERVER_ASKS, ...pageAsks(server.url, listener) };
    subjects.set('server', { ...server, api: await declaredApi(server.url), token: publisher, asks });
    subjects.set('client', { ...client, api: await declaredApi(client.url), token: listener, asks: CLIENT_ASKS });
  });

  after(async () => {
    for (const command of started.reverse()) await command[Symbol.asyncDispose]();
    await repo[Symbol.asyncDispose]();
    await dir[Symbol.asyncDispose]();
  });

  async function startProgram(program: 'server' | 'client', portSetting: string, env: Record<string, string>) {
    const port = await freePort();
    const command = startCommand(program, ['run'], {
      ...env,
      [portSetting]: String(port),
      NODE_OPTIONS: '--pending-deprecation',
    });
    started.push(command);
    const url = `http://127.0.0.1:${port}`;
    const isUp = async (): Promise<boolean> => {
      assert.equal(command.process.exitCode, null, command.stderr());
      return (await request(`${url}/healthcheck`)).status > 0;
    };
    await until(isUp, { withinMs: WITHIN_MS, what: `${program} listens: ${command.stderr()}` });
    return { command, url };
  }

  function subject(name: string): Subject {
    const found = subjects.get(name);
    assert(found !== undefined);
    return found;
  }

  for (const name of ['server', 'client']) {
    it(`${name}: asked as it wants to be, each succeeds`, async () => {
      const { api, asks } = subject(name);
      assert(api.operations.length > 15, `only ${api.operations.length} operations`);
      const problems: string[] = [];
      for (const operation of api.operations) {
        if (['/docs/{part}', '/ui/assets/{file}'].includes(operation.path)) continue; // below
        for (const how of asks[operation.name] ?? [{}]) {
          await succeeds(subject(name), operation, how).catch((error: unknown) => problems.push(errorText(error)));
        }
      }
      assert.deepEqual(problems, []);
    });

    it(`${name}: without a token, with a wrong body, with a wrong query, each refuses`, async () => {
      const { url, api, token } = subject(name);
      for (const operation of api.operations) {
        const at = `${url}${operation.path.replace('{', '%7B').replace('}', '%7D')}`;
        const open = await ask(at, operation, {}, {});
        api.hold(operation, open, `${operation.name} without a token`);
        assert.equal(open.status === 401, operation.isGuarded || operation.path === '/token', operation.name);
        const strange = await ask(`${at}?limit=x&timeout=x&at-least=x`, operation, bearer(token), [{ strange: 1 }]);
        api.hold(operation, strange, `${operation.name} with what is strange`);
        if (operation.takesBody) assert(strange.status >= 400, `${operation.name}: ${strange.status}`);
      }
    });

    it(`${name}: the documentation page and all that it names are there`, async () => {
      const { url, api } = subject(name);
      const part = api.operations.find(({ path }) => path === '/docs/{part}');
      assert(part !== undefined);
      const page = await request(`${url}/docs`);
      const policy = page.headers.get('content-security-policy') ?? '';
      assert.match(policy, /script-src 'self';/);
      const named = [...page.text.matchAll(/(?:src|href)="([^"]+)"/g)].map(
        ([, path]) => new URL(path ?? '', `${url}/docs`),
      );
      assert.equal(named.length, 4);
      for (const { href, origin } of named) {
        assert.equal(origin, url, href);
        const answer = await request(href);
        assert.equal(answer.status, 200, href);
        api.hold(part, answer, href);
        assert(answer.text.length > 50, href);
      }
      const script = (await request(`${url}/docs/start.js`)).text;
      const [, document] = /url: '([^']+)'/.exec(script) ?? [];
      assert.equal((await request(new URL(document ?? '', `${url}/docs`).href)).status, 200);
    });

    it(`${name}: a browser shows every route on its page`, {
      skip: 'missing' in CHROMIUM && CHROMIUM.missing,
    }, async () => {
      const { url, api } = subject(name);
      assert(!('missing' in CHROMIUM));
      const browser = await launchChromium(CHROMIUM);
      try {
        const page = await browser.newPage();
        const errors: string[] = [];
        page.on('console', (message) => message.type() === 'error' && errors.push(message.text()));
        page.on('pageerror', (error) => errors.push(String(error)));
        await page.goto(`${url}/docs`);
        await page
          .locator('[data-path]')
          .nth(api.operations.length - 1)
          .waitFor({ timeout: WITHIN_MS });
        const shown = await page
          .locator('[data-path]')
          .evaluateAll((all) => all.map((one) => one.getAttribute('data-path')));
        assert.deepEqual(new Set(shown), new Set(api.operations.map(({ path }) => path)));
        assert.deepEqual(errors, []);
      } finally {
        await browser.close();
      }
    });
  }

  // The last of this file: both have answered everything by now, the documentation page included.
  for (const name of ['client', 'server']) {
    it(`${name}: ends with 0 when it is asked to stop, and its log has no error`, async (t) => {
      const { command } = subject(name);
      command.process.kill('SIGTERM');
      const { code, stderr } = await command.result;
      assert.equal(code, 0, stderr);
      const errors = stderr.split('\n').filter((line) => /"level":"(?:error|fatal)"/.test(line));
      assert.deepEqual(errors, []);
      tellDeprecations(t, stderr);
    });
  }
});

/** Asks an operation as it wants to be, and once more with the tag of its answer. */
async function succeeds({ url, api, token }: Subject, operation: Operation, how: Ask): Promise<void> {
  const { path = operation.path, headers = {}, body = {} } = how;
  const answer = await ask(`${url}${path}`, operation, { ...bearer(token), ...headers }, body);
  const what = `${operation.method} ${path}`;
  api.hold(operation, answer, what);
  assert(answer.status < 300, `${what} is answered ${answer.status}: ${answer.text}`);
  const tag = answer.headers.get('etag');
  if (tag === null) return;
  const again = await ask(`${url}${path}`, operation, { ...bearer(token), 'if-none-match': tag }, {});
  api.hold(operation, again, `${what} with its tag`);
  assert.equal(again.status, 304, what);
}

/** Asks an operation; a body goes with what is not a GET. */
function ask(
  url: string,
  { method }: Operation,
  headers: Readonly<Record<string, string>>,
  body: object,
): Promise<Answer> {
  if (method === 'GET') return request(url, { method, headers });
  const all = { 'content-type': 'application/json', ...headers };
  return request(url, { method, headers: all, body: JSON.stringify(body) });
}

/** What this Node deprecates is said in the run, and does not fail it: it may be a package that uses it. */
function tellDeprecations(t: TestContext, stderr: string): void {
  for (const line of stderr.split('\n'))
    if (line.includes('DeprecationWarning')) t.diagnostic(`${process.version}: ${line}`);
}
