import assert from 'node:assert/strict';
import { createHmac } from 'node:crypto';
import { after, before, describe, it } from 'node:test';
import { pino } from 'pino';
import { withKeys } from '../support/auth.js';
import { type GitHttpServer, gitHttpServer } from '../support/git-http-server.js';
import { type GitRepo, gitRepoAt } from '../support/git-repo.js';
import { type Answer, field, postJson, request } from '../support/http.js';
import { startClient } from '../support/start-client.js';
import { startPeer } from '../support/start-peer.js';
import { type StartedServer, startServer } from '../support/start-server.js';
import { tempDir } from '../support/temp-dir.js';
import { until } from '../support/until.js';

const SECRET = 'webhook-secret';
const CREDENTIALS = 'bot:pass-word';

/** A repository behind a git HTTP server, and the settings of a server that follows it by webhook alone. */
interface Remote extends AsyncDisposable {
  repo: Omit<GitRepo, typeof Symbol.asyncDispose>;
  git: GitHttpServer;
  /** Without credentials. */
  url: string;
  env: Record<string, string>;
  /** Fetches and other looks so far. */
  looks(): number;
}

async function startRemote(): Promise<Remote> {
  const dir = await tempDir();
  const repo = await gitRepoAt(`${dir.path}/org/repo`);
  const git = await gitHttpServer(dir.path, { user: 'bot', password: 'pass-word' });
  const url = `${git.url}/org/repo/.git`;
  return {
    repo,
    git,
    url,
    env: {
      SYNC_POLICY_REPO_URL: url.replace('//', `//${CREDENTIALS}@`),
      SYNC_POLICY_REPO_WEBHOOK_SECRET: SECRET,
    },
    looks: () => git.requests.filter((line) => line.includes('/info/refs?service=git-upload-pack')).length,
    [Symbol.asyncDispose]: async () => {
      await git[Symbol.asyncDispose]();
      await dir[Symbol.asyncDispose]();
    },
  };
}

/** Sends a webhook as GitHub does. */
function webhook(serverUrl: string, payload: unknown, event = 'push', secret = SECRET): Promise<Answer> {
  const body = typeof payload === 'string' ? payload : JSON.stringify(payload);
  const signature = createHmac('sha256', secret).update(body).digest('hex');
  return postJson(`${serverUrl}/webhook`, body, {
    'x-github-event': event,
    'x-hub-signature-256': `sha256=${signature}`,
  });
}

const GITHUB_PUSH = { 'x-github-event': 'push' };

function push(url: string, ref = 'refs/heads/master'): object {
  return { ref, repository: { full_name: 'someone/else', clone_url: url } };
}

/** Waits until the server serves a commit. */
async function serves(serverUrl: string, hash: string): Promise<void> {
  await until(async () => field((await request(`${serverUrl}/policy`)).json, 'hash') === hash, {
    withinMs: 15_000,
    what: `commit ${hash} is served`,
  });
}

function gate(): { passed: Promise<void>; open: () => void } {
  let open: () => void = () => undefined;
  const passed = new Promise<void>((resolve) => {
    open = resolve;
  });
  return { passed, open };
}

describe('webhooks of one server', () => {
  let remote: Remote;
  let server: StartedServer;
  const lines: { level: number; msg: string; error?: string; reason?: string; code?: string; remedy?: string }[] = [];
  const log = pino({ base: null }, { write: (line) => void lines.push(JSON.parse(line)) });
  before(async () => {
    remote = await startRemote();
    const first = await remote.repo.commit({ 'app/a.rego': 'package app\n\nx := 1\n' });
    const limits = { SYNC_POLICY_REPO_WEBHOOK_ENFORCE_BRANCH: 'true', SYNC_BODY_LIMIT_BYTES: '4096' };
    server = await startServer({ ...remote.env, ...limits }, { log });
    await serves(server.url, first);
  });
  after(async () => {
    await server?.[Symbol.asyncDispose]();
    await remote?.[Symbol.asyncDispose]();
  });

  async function servedCommit(): Promise<string> {
    return String(field((await request(`${server.url}/policy`)).json, 'hash'));
  }

  it('a webhook brings a commit to subscribers, GET /policy and the engine of a client, with polling off', async () => {
    const first = await servedCommit();
    await using client = await startClient({ serverUrl: server.url });
    await client.answers('/app/x', {}, 1);
    await using peer = await startPeer(server.url);
    await peer.call('subscribe', { topics: ['default:policy:app'] });

    const second = await remote.repo.commit({ 'app/a.rego': 'package app\n\nx := 2\n' });
    const answer = await webhook(server.url, push(remote.url));
    assert.equal(answer.status, 200);
    assert.deepEqual(answer.json, { status: 'ok', event: 'push', repo_url: remote.url.replace('//', '//***@') });
    assert.deepEqual(await peer.notified(1), [second]);
    const { json } = await request(`${server.url}/policy?base_hash=${first}`);
    assert.deepEqual([field(json, 'old_hash'), field(json, 'hash')], [first, second]);
    await client.answers('/app/x', {}, 2);
  });

  it('refused and ignored webhooks are in the log with their reason, and no secret', async () => {
    const said = async (send: () => Promise<Answer>): Promise<(typeof lines)[number] | undefined> => {
      const before = lines.length;
      await send();
      return lines.slice(before).find(({ msg }) => msg.startsWith('webhook'));
    };
    const ignored = [
      [() => webhook(server.url, push(remote.url), 'issues'), /^only the event push has the repository fetched$/],
      [() => webhook(server.url, push(remote.url, 'refs/heads/side')), /^it is about side, and only master counts/],
      [
        () => webhook(server.url, push('https://x:y@example.com/other')),
        /^it is about https:.*other, someone\/else, and http.* is followed/,
      ],
    ] as const;
    for (const [send, reason] of ignored) {
      const line = await said(send);
      assert.deepEqual([line?.level, line?.msg], [30, 'webhook ignored']);
      assert.match(line?.reason ?? '', reason);
    }
    const refused = await said(() => webhook(server.url, push(remote.url), 'push', 'another-secret'));
    assert.deepEqual([refused?.level, refused?.msg, refused?.code], [40, 'webhook refused', 'webhook_refused']);
    assert.match(`${refused?.error} ${refused?.remedy}`, /signatures didn't match.*SYNC_POLICY_REPO_WEBHOOK_SECRET/);
    assert.doesNotMatch(JSON.stringify(lines), /webhook-secret|another-secret|pass-word|x:y/);
  });

  it('twenty webhooks at once, in the middle of a fetch, lead to one more, and the newest commit is served', async () => {
    const first = await servedCommit();
    const before = { looks: remote.looks(), requests: remote.git.requests.length };

    const second = await remote.repo.commit({ 'a.rego': 'package a\n' });
    const { passed, open } = gate();
    // The server has heard of the second commit and asks for its files: these are kept back.
    let asked = false;
    remote.git.hold = () => {
      const last = remote.git.requests.slice(before.requests);
      if (last.filter((line) => line.startsWith('POST')).length < 2) return undefined;
      asked = true;
      return passed;
    };
    await webhook(server.url, push(remote.url));
    await until(() => asked, { withinMs: 20_000, what: 'the fetch of the second commit' });
    const third = await remote.repo.commit({ 'a.rego': 'package a\n\nx := 1\n' });
    const answers = await Promise.all(Array.from({ length: 20 }, () => webhook(server.url, push(remote.url))));
    assert.deepEqual([...new Set(answers.map(({ status }) => status))], [200]);
    assert.equal(field((await request(`${server.url}/policy`)).json, 'hash'), first, 'the fetch still runs');

    await using peer = await startPeer(server.url);
    await peer.call('subscribe', { topics: ['default:policy:.'] });
    remote.git.hold = undefined;
    open();
    assert.deepEqual(await peer.notified(2), [second, third]);
    assert.equal(remote.looks() - before.looks, 2);
  });

  it('what is no push to the followed repository and branch is answered, and nothing is fetched', async () => {
    const before = remote.git.requests.length;
    const elsewhere = push('https://example.com/other');
    const text = 'repo url or full name not found in payload!';
    const rows: [Promise<Answer>, number, unknown][] = [
      [webhook(server.url, push(remote.url), 'issues'), 200, undefined],
      [webhook(server.url, { zen: 'z' }, 'ping'), 200, { status: 'ignored', event: 'ping' }],
      [webhook(server.url, elsewhere), 200, { status: 'ignored', event: 'push' }],
      [webhook(server.url, push(remote.url, 'refs/heads/other')), 200, null],
      [webhook(server.url, { ref: 'refs/heads/master' }), 400, { detail: text }],
      [webhook(server.url, push(remote.url), 'push', 'guess'), 401, { detail: "signatures didn't match!" }],
      [postJson(`${server.url}/webhook`, push(remote.url)), 401, { detail: 'No secret was provided!' }],
      [webhook(server.url, '[1]'), 422, undefined],
      [webhook(server.url, '{"ref":'), 422, undefined],
      [webhook(server.url, ''), 422, undefined],
      [webhook(server.url, `{"x":"${'x'.repeat(5_000)}"}`), 413, undefined],
    ];
    for (const [sent, status, json] of rows) {
      const answer = await sent;
      assert.equal(answer.status, status, answer.text);
      if (json !== undefined) assert.deepEqual(answer.json, json);
      assert(!answer.text.includes('pass-word') && !answer.text.includes(SECRET), answer.text);
    }
    assert.equal((await webhook(server.url, push(remote.url, 'refs/heads/other'))).text, 'null');
    // One that counts comes last: had another led to a look, there would be more than its own.
    const second = await remote.repo.commit({ 'a.rego': 'package a\n\nx := 2\n' });
    const looks = remote.looks();
    assert.equal(remote.git.requests.length, before);
    await webhook(server.url, push(remote.url));
    await serves(server.url, second);
    assert.equal(remote.looks(), looks + 1);
  });

  it("GitHub's form encoding is understood, its signature being over the form", async () => {
    const second = await remote.repo.commit({ 'a.rego': 'package a\n\nx := 3\n' });
    const body = new URLSearchParams({ payload: JSON.stringify(push(remote.url)) }).toString();
    const answer = await request(`${server.url}/webhook`, {
      method: 'POST',
      headers: {
        'content-type': 'application/x-www-form-urlencoded',
        'x-github-event': 'push',
        'x-hub-signature-256': `sha256=${createHmac('sha256', SECRET).update(body).digest('hex').toUpperCase()}`,
      },
      body,
    });
    assert.equal(answer.status, 200, answer.text);
    await serves(server.url, second);
  });

  it('so is what is refused before it is judged: too large, or without the token that a bundle webhook needs', async () => {
    const refused = (): string | undefined => lines.findLast(({ msg }) => msg === 'webhook refused')?.code;
    // One refusal a second is logged: the cases above may have had it.
    await until(
      async () => {
        assert.equal((await webhook(server.url, `{"x":"${'x'.repeat(5_000)}"}`)).status, 413);
        return refused() === 'body_too_large';
      },
      { withinMs: 20_000, what: 'the refusal is logged' },
    );
    const env = { SYNC_POLICY_SOURCE_TYPE: 'API', SYNC_POLICY_BUNDLE_URL: 'http://127.0.0.1:1', ...withKeys() };
    await using ofBundles = await startServer(env, { log });
    assert.equal((await postJson(`${ofBundles.url}/webhook`, {})).status, 401);
    assert.equal(refused(), 'unauthorized');
  });
});

/** A push with a list of commits that makes it as large. */
function largePush(url: string, bytes: number): string {
  const message = 'm'.repeat(1_000);
  const commits = Array.from({ length: Math.ceil(bytes / 1_050) }, (_, id) => ({ id, message, modified: ['a.rego'] }));
  return JSON.stringify({ ...push(url), commits });
}

const MIB = 1024 * 1024;

describe('webhooks of servers of their own', { concurrency: true }, () => {
  it('a payload of up to 25 MiB is read of a sender that knows the secret; of others as much as before', async () => {
    await using remote = await startRemote();
    const first = await remote.repo.commit({ 'a.rego': 'package a\n' });
    await using server = await startServer(remote.env);
    await serves(server.url, first);
    const body = largePush(remote.url, 23 * MIB);
    assert(body.length > 22 * MIB && body.length < 25 * MIB);
    const second = await remote.repo.commit({ 'a.rego': 'package a\n\nx := 1\n' });
    const taken = await webhook(server.url, body);
    assert.deepEqual([taken.status, field(taken.json, 'status')], [200, 'ok'], taken.text);
    await serves(server.url, second);
    assert.equal((await webhook(server.url, largePush(remote.url, 26 * MIB))).status, 413);
    assert.equal((await webhook(server.url, body, 'push', 'another-secret')).status, 401);
    assert.equal((await postJson(`${server.url}/webhook`, body, { 'x-github-event': 'push' })).status, 401);

    const { SYNC_POLICY_REPO_WEBHOOK_SECRET: _, ...env } = remote.env;
    await using open = await startServer(env);
    assert.equal((await postJson(`${open.url}/webhook`, largePush(remote.url, 6 * MIB), GITHUB_PUSH)).status, 413);
    assert.equal((await postJson(`${open.url}/webhook`, largePush(remote.url, 4 * MIB), GITHUB_PUSH)).status, 200);
  });

  it('a payload in another charset is read as its header says; an unknown one is refused with 415', async () => {
    await using remote = await startRemote();
    await using server = await startServer(remote.env);
    const send = (charset: string, body: Buffer) =>
      request(`${server.url}/webhook`, {
        method: 'POST',
        headers: {
          'content-type': `application/json; charset=${charset}`,
          ...GITHUB_PUSH,
          'x-hub-signature-256': `sha256=${createHmac('sha256', SECRET).update(body).digest('hex')}`,
        },
        body,
      });
    const text = JSON.stringify({ ...push(remote.url), pusher: { name: 'Zoë' } });
    assert.equal((await send('iso-8859-1', Buffer.from(text, 'latin1'))).status, 200);
    assert.equal((await send('utf-16', Buffer.from(text, 'utf16le'))).status, 200);
    const refused = await send('klingon', Buffer.from(text));
    assert.equal(refused.status, 415);
    assert.match(refused.text, /the charset .*klingon.* is not known: send UTF-8/);
  });

  it('a remote that hangs holds up no webhook, and the first one after it is heard', async () => {
    await using remote = await startRemote();
    const first = await remote.repo.commit({ 'a.rego': 'package a\n' });
    await using server = await startServer({ ...remote.env, SYNC_POLICY_REPO_CLONE_TIMEOUT: '4' });
    await serves(server.url, first);
    remote.git.hang = true;
    const before = remote.looks();
    for (let count = 0; count < 5; count++) {
      const start = performance.now();
      assert.equal((await webhook(server.url, push(remote.url))).status, 200);
      assert(performance.now() - start < 3900, 'the answer waited for the remote');
    }
    await until(() => remote.looks() > before, { withinMs: 20_000, what: 'the look that hangs' });
    const second = await remote.repo.commit({ 'a.rego': 'package a\n\nx := 1\n' });
    remote.git.hang = false;
    await webhook(server.url, push(remote.url));
    await serves(server.url, second);
  });

  it('a webhook that is earlier than the view of the git service is not lost, and the answer and the health say so', async () => {
    await using remote = await startRemote();
    const first = await remote.repo.commit({ 'a.rego': 'package a\n' });
    await using server = await startServer(remote.env);
    await serves(server.url, first);
    const second = await remote.repo.commit({ 'a.rego': 'package a\n\nx := 1\n' });
    await remote.repo.git('update-ref', 'refs/heads/master', first); // what it still shows
    const before = remote.looks();
    const pushed = { ...push(remote.url), before: first, after: second };
    const answer = await webhook(server.url, pushed);
    assert.deepEqual([field(answer.json, 'commit'), field(answer.json, 'served')], [second, false]);
    const health = async (): Promise<unknown> => (await request(`${server.url}/healthcheck`)).json;
    await until(async () => field(await health(), 'policy', 'awaited', 'commit') === second, {
      withinMs: 20_000,
      what: 'it is awaited',
    });
    assert(remote.looks() > before);
    await remote.repo.git('update-ref', 'refs/heads/master', second);
    await serves(server.url, second);
    assert.equal(field(await health(), 'policy', 'awaited'), undefined);
    assert.equal(field((await webhook(server.url, pushed)).json, 'served'), true);
  });

  it('a webhook while the first clone still runs is answered at once, and what it announced is served after it', async () => {
    await using remote = await startRemote();
    await remote.repo.commit({ 'a.rego': 'package a\n' });
    const { passed, open } = gate();
    let held = false;
    remote.git.hold = () => {
      if (remote.git.requests.filter((line) => line.startsWith('POST')).length < 2) return undefined;
      held = true;
      return passed;
    };
    await using server = await startServer(remote.env);
    await until(() => held, { withinMs: 20_000, what: 'the clone asks for files' });
    const second = await remote.repo.commit({ 'a.rego': 'package a\n\nx := 1\n' });
    assert.equal((await webhook(server.url, push(remote.url))).status, 200);
    assert.equal((await request(`${server.url}/policy`)).status, 503);
    remote.git.hold = undefined;
    open();
    await serves(server.url, second);
  });

  it('each preset works through its setting: the secret and the event of the service, and its payload', async () => {
    await using remote = await startRemote();
    let head = await remote.repo.commit({ 'a.rego': 'package a\n' });
    const services: Record<string, { headers: Record<string, string>; payload: object }> = {
      gitlab: {
        headers: { 'X-Gitlab-Token': SECRET, 'X-Gitlab-Event': 'Push Hook' },
        payload: { ref: 'refs/heads/master', project: { path_with_namespace: 'x/y', git_http_url: remote.url } },
      },
      azure: {
        headers: { 'x-api-key': SECRET },
        payload: {
          eventType: 'git.push',
          resource: { refUpdates: [{ name: 'refs/heads/master' }], repository: { remoteUrl: remote.url } },
        },
      },
      bitbucket: {
        headers: { 'X-Hook-UUID': SECRET, 'X-Event-Key': 'repo:push' },
        payload: {
          push: { changes: [{ new: { type: 'branch', name: 'master' } }] },
          repository: { full_name: 'org/repo', links: { html: { href: remote.url } } },
        },
      },
    };
    for (const [name, { headers, payload }] of Object.entries(services)) {
      const env = { SYNC_POLICY_REPO_WEBHOOK_PARAMS: name, SYNC_POLICY_REPO_WEBHOOK_ENFORCE_BRANCH: 'true' };
      await using server = await startServer({ ...remote.env, ...env });
      await serves(server.url, head);
      const wrong = Object.fromEntries(
        Object.entries(headers).map(([key, value]) => [key, value.replace(SECRET, 'no')]),
      );
      const refused = await postJson(`${server.url}/webhook`, payload, wrong);
      assert.deepEqual([refused.status, refused.json], [401, { detail: "secret-tokens didn't match!" }], name);
      head = await remote.repo.commit({ 'a.rego': `package a\n\nx := "${name}"\n` });
      const taken = await postJson(`${server.url}/webhook`, payload, headers);
      assert.deepEqual([taken.status, field(taken.json, 'status')], [200, 'ok'], name);
      await serves(server.url, head);
    }
  });

  it('a regular expression that cannot be used ends the start; without a secret a warning is logged', async () => {
    await using remote = await startRemote();
    const params = {
      secret_header_name: 'x-token',
      secret_type: 'token',
      secret_parsing_regex: '(?=x)',
      event_header_name: 'x-event',
      push_event_value: 'push',
    };
    const wrong = { ...remote.env, SYNC_POLICY_REPO_WEBHOOK_PARAMS: JSON.stringify(params) };
    await assert.rejects(startServer(wrong), { code: 'config_invalid', message: /secret_parsing_regex/ });

    const lines: string[] = [];
    const log = pino({ base: null }, { write: (line) => void lines.push(line) });
    const { SYNC_POLICY_REPO_WEBHOOK_SECRET: _, ...open } = remote.env;
    await using server = await startServer(open, { log });
    assert(lines.some((line) => line.includes('SYNC_POLICY_REPO_WEBHOOK_SECRET is not set')));
    const answer = await postJson(`${server.url}/webhook`, push(remote.url), { 'x-github-event': 'push' });
    assert.deepEqual([answer.status, field(answer.json, 'status')], [200, 'ok']);
  });
});
