import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { type DataSource, startDataSource } from '../support/data-source.js';
import { type GitRepo, gitRepo } from '../support/git-repo.js';
import { field, postJson, request } from '../support/http.js';
import { BOTH_VERSIONS, bothVersionsWork, holdsCommit } from '../support/rego-versions.js';
import { baseEntries, following, publish, type StartedClient, startClient } from '../support/start-client.js';
import { type StartedServer, startServer } from '../support/start-server.js';
import { type TempDir, tempDir } from '../support/temp-dir.js';
import { until } from '../support/until.js';

const RBAC = 'package app.rbac\n\nimport rego.v1\n\ndefault allow := false\n\nallow if data.base[input.user]\n';
const GUARDED = `package guarded

allow if input.user == "ann"

reasons contains "ann" if allow

limit := 12345678901234567890

environment := opa.runtime().env
`;
const SECRET = 'a-secret-of-the-environment';

describe('a client with an embedded engine', () => {
  let repo: GitRepo;
  let source: DataSource;
  let server: StartedServer;
  let cache: TempDir;
  let client: StartedClient;

  before(async () => {
    repo = await gitRepo();
    await repo.commit({
      'app/rbac.rego': RBAC,
      'app/data.json': '{"static":1}',
      'other/data.json': '{"static":2}',
      'guarded.rego': GUARDED,
    });
    source = await startDataSource();
    source.serve('/base', { ann: true });
    source.serve('/large', { pad: 'x'.repeat(2_000_000) });
    server = await startServer({
      ...following(repo),
      ...baseEntries({ url: `${source.url}/base`, dst_path: '/base' }),
    });
    cache = await tempDir();
    client = await startClient({
      ...{ serverUrl: server.url, engine: 'embedded' },
      env: {
        SYNC_EMBEDDED_ENGINE_DECISION_TIMEOUT: '2',
        SYNC_EMBEDDED_ENGINE_THREAD: 'main',
        SYNC_ENGINE_V0_COMPAT: 'auto',
      },
      programEnv: { ...process.env, XDG_CACHE_HOME: cache.path, PASSWORD: SECRET },
    });
    await client.healthy();
  });
  after(async () => {
    for (const part of [client, cache, server, source, repo]) await part?.[Symbol.asyncDispose]();
  });

  it('follows a server, and answers over REST', async () => {
    await client.answers('/app/rbac/allow', { user: 'ann' }, true);
    await publish(server.url, { dst_path: '/update', data: { n: 1 } }, { dst_path: '/app/rbac/dynamic', data: 3 });
    await publish(server.url, { url: `${source.url}/large`, dst_path: '/large' });
    await publish(server.url, {
      dst_path: '/base',
      save_method: 'PATCH',
      data: [{ op: 'add', path: '/eve', value: true }],
    });
    await client.answers('/app/rbac/allow', { user: 'eve' }, true);
    await client.holds('/app', { static: 1, rbac: { allow: false, dynamic: 3 } });
    await client.holds('/update', { n: 1 });
    await client.holds('/large', { pad: 'x'.repeat(2_000_000) });

    // A path that is asked for again is compiled, and nothing changes by that.
    await client.holds('/app', { static: 1, rbac: { allow: false, dynamic: 3 } });
    const engine = async () => field((await request(`${client.url}/healthy`)).json, 'engine', 'embedded');
    // Both paths that have rules, and no document: it settles there, however often each was asked.
    await until(async () => field(await engine(), 'compiled') === 2, {
      withinMs: 20_000,
      what: 'app/rbac/allow and app are compiled',
    });
    const withGo = field(await engine(), 'with_go') as readonly { readonly path: string }[];
    assert.deepEqual(withGo.map(({ path }) => path).toSorted(), ['large', 'update']);
    await client.answers('/app/rbac/allow', { user: 'eve' }, true);
    await client.answers('/app/rbac/allow', { user: 'bob' }, false);
    assert.notEqual(field(await engine(), 'decisions', 'compiled'), 0);

    await repo.commit({ 'app/rbac.rego': 'package app.rbac\n\nallow := nope(1)\n' });
    await until(async () => field((await request(`${client.url}/healthy`)).json, 'policy', 'error') !== null, {
      withinMs: 20_000,
      what: 'the policy is refused',
    });
    await client.answers('/app/rbac/allow', { user: 'eve' }, true);
    await repo.commit({ 'app/rbac.rego': RBAC.replace('data.base[input.user]', 'input.user == "bob"') });
    await client.answers('/app/rbac/allow', { user: 'bob' }, true);
    await client.answers('/app/rbac/allow', { user: 'eve' }, false);

    const metrics = (await request(`${client.url}/metrics`)).text;
    assert.match(metrics, /policysync_engine_decisions_total\{by="compiled"\} [1-9]/);
  });

  const query = (text: string) => postJson(`${client.engineUrl}/v1/query`, { query: text });

  it('shows policy and data, and lets nobody change them', async () => {
    const listed = await request(`${client.engineUrl}/v1/policies`);
    assert.equal(listed.status, 200);
    assert.match(listed.text, /package guarded/);
    for (const [method, path, body] of [
      ['PUT', '/v1/policies/evil', 'package evil\nx := 1\n'],
      ['DELETE', '/v1/policies/guarded.rego', ''],
      ['PUT', '/v1/data/users', '{}'],
      ['PATCH', '/v1/data', '[]'],
      ['DELETE', '/v1/data/users', ''],
      ['GET', '/v1/config', undefined],
      ['GET', '/v1/status', undefined],
    ] as const) {
      const answer = await request(client.engineUrl + path, { method, ...(body === undefined ? {} : { body }) });
      assert.equal(answer.status, 401, `${method} ${path}`);
    }
    assert.equal(await client.query('/evil/x'), undefined);
    assert.equal(await client.query('/guarded/allow', { user: 'ann' }), true);
  });

  it('has no environment that a policy or a query could show, and sends nothing for one', async () => {
    source.serve('/stolen', {});
    assert.deepEqual((await query('x := opa.runtime()')).text.includes(SECRET), false);
    assert.doesNotMatch((await request(`${client.engineUrl}/v1/data/guarded`)).text, new RegExp(SECRET));
    for (const text of [
      `x := http.send({"method": "get", "url": "${source.url}/stolen"})`,
      `http.send({"method": "get", "url": "${source.url}/stolen"}, x)`,
      `f := data.guarded; x := {y | y := http.send({"method": "get", "url": "${source.url}/stolen"})}`,
      'x := net.lookup_ip_addr("localhost")',
    ])
      assert.notEqual((await query(text)).status, 200, text);
    await postJson(`${client.engineUrl}/v1/compile`, {
      query: `http.send({"method": "get", "url": "${source.url}/stolen"}).status_code == input.x`,
    });
    assert.equal(source.count('/stolen'), 0);
  });

  it('decides on after questions for hundreds of paths, and for what is no decision', async () => {
    for (let i = 0; i < 300; i += 50) {
      const paths = Array.from({ length: 50 }, (_, at) => `/v1/data/made/up/p${i + at}`);
      const answers = await Promise.all(paths.map((path) => request(client.engineUrl + path)));
      assert(answers.every(({ text }) => text === '{}\n'));
    }
    for (const path of ['/guarded/f', '/guarded', '/guarded/allow/deeper'])
      await request(`${client.engineUrl}/v1/data${path}`);
    const compiled = async (): Promise<unknown> => {
      await client.query('/guarded/allow', { user: 'ann' });
      return field((await client.health()).json, 'engine', 'embedded', 'decisions', 'compiled');
    };
    await until(async () => Number(await compiled()) > 0, { withinMs: 20_000, what: 'a compiled decision' });
  });

  it('decides on while a caller asks for what never ends', async () => {
    const endless = 'count([x | x := numbers.range(1, 100000)[_]; numbers.range(1, 100000)[_] == -x]) == 1';
    let [decided, isOver] = [0, false];
    const over = (): void => {
      isOver = true;
    };
    const asked = query(endless);
    asked.then(over, over);
    // Nobody has asked for them before: they are decided by Go.
    while (!isOver) {
      assert.equal((await request(`${client.engineUrl}/v1/data/not/asked/before${decided}`)).status, 200);
      if (!isOver) decided++;
      await pause(20);
    }
    assert(decided > 0, 'decisions waited for a query');
    const answer = await asked;
    assert.equal(answer.status, 504, answer.text);
    assert.match(answer.text, /took longer than/);
    assert.equal(await client.query('/guarded/allow', { user: 'ann' }), true);
    await client.answers('/guarded/allow', { user: 'ann' }, true);
  });

  it('decides in process on the main thread, where the settings say so', async () => {
    const asked = client.client;
    const seq = await publish(server.url, { dst_path: '/users', data: { bob: {} } });
    await client.holds('/users', { bob: {} });
    await until(async () => (await asked.decide('guarded/allow', { user: 'ann' })).by === 'compiled', {
      withinMs: 20_000,
      what: 'it is compiled',
    });
    const yes = await asked.decide<boolean>('guarded/allow', { user: 'ann' });
    assert.deepEqual([yes.kind, yes.result, yes.allowed, yes.position?.seq], ['result', true, true, seq]);
    const many = await asked.decideMany<boolean>(
      'guarded/allow',
      ['ann', 'bob', 'ann'].map((user) => ({ user })),
    );
    assert.deepEqual(
      many.map(({ allowed }) => allowed),
      [true, false, true],
    );
    assert.equal(new Set(many.map(({ id }) => id)).size, 3);
    const mixed = await asked.decideMany([
      { path: 'guarded/limit' },
      { path: 'guarded/reasons', input: { user: 'ann' } },
      { path: 'users/bob' },
    ]);
    assert.deepEqual(
      mixed.map(({ text }) => text),
      ['12345678901234567890', '["ann"]', '{}'],
    );
  });

  it('works with modules of both versions of Rego, and /healthy and the log say what counted', async () => {
    await holdsCommit(client, await repo.commit(BOTH_VERSIONS));
    await bothVersionsWork({ client, server, repo }, { others: 2 });
  });
});
