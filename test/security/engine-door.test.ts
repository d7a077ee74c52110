import assert from 'node:assert/strict';
import { readdir, readFile, stat, writeFile } from 'node:fs/promises';
import { request as httpRequest } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { type GitRepo, gitRepo } from '../support/git-repo.js';
import { field } from '../support/http.js';
import { failing, following, publish, type StartedClient, startClient } from '../support/start-client.js';
import { type StartedServer, startServer } from '../support/start-server.js';
import { tempDir } from '../support/temp-dir.js';

const POLICY = `package app

import rego.v1

allow if data.users[input.user]

environment := opa.runtime().env

configuration := opa.runtime().config
`;
const EVIL = 'package evil\n\nx := 1\n';
const SECRET = 'the-unlimited-token-of-the-client';

/** A request just as it is written here; `fetch` would add headers of its own. */
function ask(
  url: string,
  init: { method?: string; headers?: Record<string, string>; body?: string } = {},
): Promise<{ status: number; text: string }> {
  return new Promise((resolve, reject) => {
    const call = httpRequest(url, { method: init.method ?? 'GET', headers: init.headers ?? {} }, (answer) => {
      let text = '';
      answer.setEncoding('utf8').on('data', (part: string) => {
        text += part;
      });
      answer.on('end', () => resolve({ status: answer.statusCode ?? 0, text }));
    });
    call.on('error', reject);
    call.end(init.body);
  });
}

const OUTSIDE = { ...process.env, SYNC_CLIENT_TOKEN: SECRET, AWS_SECRET_ACCESS_KEY: SECRET, REGION: 'eu-west' };

describe('the door of the inline engine', () => {
  let repo: GitRepo;
  let server: StartedServer;
  let client: StartedClient;
  before(async () => {
    repo = await gitRepo();
    await repo.commit({ 'app/app.rego': POLICY });
    server = await startServer(following(repo));
    client = await startClient({
      serverUrl: server.url,
      env: { SYNC_CLIENT_TOKEN: SECRET, SYNC_INLINE_ENGINE_ENV: 'REGION' },
      programEnv: OUTSIDE as Record<string, string>,
    });
    await client.healthy();
    await publish(server.url, { dst_path: '/users', data: { ann: true } });
    await client.holds('/users', { ann: true });
  });
  after(async () => {
    await client?.[Symbol.asyncDispose]();
    await server?.[Symbol.asyncDispose]();
    await repo?.[Symbol.asyncDispose]();
  });

  describe('a local process without the token', () => {
    for (const [method, path, body] of [
      ['PUT', '/v1/policies/evil', EVIL],
      ['DELETE', '/v1/policies/app/app.rego', undefined],
      ['PUT', '/v1/data/users', '{"eve":true}'],
      ['PUT', '/v1/data', '{}'],
      ['PATCH', '/v1/data/users', '[{"op":"add","path":"/eve","value":true}]'],
      ['PATCH', '/v1/data', '[{"op":"add","path":"/system/authz/allow","value":true}]'],
      ['PUT', '/v1/data/system/authz/allow', 'true'],
      ['DELETE', '/v1/data/users', undefined],
      ['DELETE', '/v1/data', undefined],
      ['GET', '/v1/policies', undefined],
      ['GET', '/v1/policies/app/app.rego', undefined],
      ['GET', '/v1/config', undefined],
      ['GET', '/v1/status', undefined],
      ['GET', '/v1/data/../policies', undefined],
      ['PUT', '/v1/data/%2e%2e/policies/evil', EVIL],
      ['PUT', '/%76%31/policies/evil', EVIL],
      ['GET', '/debug/pprof/cmdline', undefined],
      ['POST', '/v1/policies/evil', EVIL],
      ['PUT', '/health', ''],
    ] as const) {
      test(`is refused ${method} ${path}`, async () => {
        for (const authorization of [undefined, 'Bearer guess', `Bearer ${SECRET}`, 'Bearer ', 'Basic Og==']) {
          const { status } = await ask(client.engineUrl + path, {
            method,
            ...(body === undefined ? {} : { body }),
            headers: { 'content-type': 'application/json', ...(authorization === undefined ? {} : { authorization }) },
          });
          assert(status === 401 || status === 403, `${authorization}: ${status}`);
        }
        assert.deepEqual(await client.data('/users'), { ann: true });
      });
    }

    test('asks as before, whatever Authorization it sends', async () => {
      const input = JSON.stringify({ input: { user: 'ann' } });
      for (const [method, path, body] of [
        ['GET', '/v1/data/users', undefined],
        ['GET', '/v1/data', undefined],
        ['POST', '/v1/data/app/allow', input],
        ['POST', '/v1/data', input],
        ['POST', '/v0/data/app/allow', '{"user":"ann"}'],
        ['POST', '/v1/query', '{"query":"x := data.users"}'],
        ['GET', '/v1/query?q=data.users%5Bx%5D', undefined],
        ['POST', '/v1/compile', '{"query":"data.app.allow == true","unknowns":["input"]}'],
        ['GET', '/', undefined],
        ['GET', '/health', undefined],
        ['GET', '/health?bundles', undefined],
        ['GET', '/metrics', undefined],
      ] as const) {
        for (const headers of [{}, { authorization: 'Bearer of-the-application' }, { origin: client.engineUrl }]) {
          const answer = await ask(client.engineUrl + path, {
            method,
            ...(body === undefined ? {} : { body }),
            headers,
          });
          assert.equal(answer.status, 200, `${method} ${path}: ${answer.text}`);
        }
      }
      assert.equal(await client.query('/app/allow', { user: 'ann' }), true);
      assert.equal(await client.query('/app/allow', { user: 'eve' }), undefined);
    });
  });

  describe('a web page of another site', () => {
    const question = { method: 'POST', body: '{"input":{"user":"ann"}}' };
    for (const [what, path, init] of [
      ['a plain text POST', '/v1/data/app/allow', { ...question, headers: { 'content-type': 'text/plain' } }],
      ['a query', '/v1/query', { method: 'POST', body: '{"query":"x := opa.runtime()"}' }],
      ['a GET', '/v1/data/users', {}],
      ['a POST to the default decision', '/', question],
      ['a write', '/v1/policies/evil', { method: 'PUT', body: EVIL }],
    ] as const) {
      test(`is refused ${what}`, async () => {
        const own: Record<string, string> = 'headers' in init ? init.headers : {};
        for (const origin of ['http://evil.example', 'https://127.0.0.1.evil.example', 'null', 'http://localhost:1']) {
          const headers = { ...own, origin, 'sec-fetch-site': 'cross-site' };
          assert.equal((await ask(client.engineUrl + path, { ...init, headers })).status, 401, origin);
        }
      });
    }

    test('is refused what a browser sends without Origin: an image, a link, a window', async () => {
      const path = '/v1/query?q=http.send(%7B%22method%22:%22get%22,%22url%22:%22http://127.0.0.1:1%22%7D)';
      for (const site of ['cross-site', 'same-site']) {
        const answer = await ask(client.engineUrl + path, { headers: { 'sec-fetch-site': site } });
        assert.equal(answer.status, 401, site);
      }
      for (const site of ['none', 'same-origin']) {
        const answer = await ask(`${client.engineUrl}/v1/data/users`, { headers: { 'sec-fetch-site': site } });
        assert.equal(answer.status, 200, site);
      }
    });
  });

  test('a page may ask where its origin is listed, and every page where * is; writing needs the token all the same', async () => {
    for (const origins of ['https://app.example', '*']) {
      const env = { SYNC_INLINE_ENGINE_ALLOWED_ORIGINS: origins };
      await using one = await startClient({ serverUrl: server.url, env });
      await one.healthy();
      const headers = { origin: 'https://app.example', 'sec-fetch-site': 'cross-site' };
      assert.equal(
        (await ask(`${one.engineUrl}/v1/data/app/allow`, { method: 'POST', body: '{}', headers })).status,
        200,
      );
      assert.equal((await ask(`${one.engineUrl}/v1/policies`, { headers })).status, 401);
      const other = { headers: { origin: 'https://other.example' } };
      assert.equal((await ask(`${one.engineUrl}/v1/data/users`, other)).status, origins === '*' ? 200 : 401);
    }
  });

  describe('a page whose name leads to the engine, and whose GET says nothing of it', () => {
    const query = (text: string) => ask(`${client.engineUrl}/v1/query?q=${encodeURIComponent(text)}`);

    test('has nothing sent and sees no configuration by a query', async () => {
      for (const text of [
        'x := http.send({"method": "get", "url": "http://127.0.0.1:1", "raise_error": false})',
        'x := http . send({"method": "get", "url": "http://127.0.0.1:1"})',
        'x := http["send"]({"method": "get", "url": "http://127.0.0.1:1"})',
        'x := upper("a") with upper as http.send',
        'x := net.lookup_ip_addr("localhost")',
        'opa.runtime(x)',
        'x:=opa.runtime().config',
      ]) {
        assert.equal((await query(text)).status, 401, text);
      }
      const second = await ask(
        `${client.engineUrl}/v1/query?q=data.users&q=${encodeURIComponent('x := opa.runtime()')}`,
      );
      assert.equal(second.status, 401);
      assert.equal((await query('data.users[x]')).status, 200);
      const own = { method: 'POST', body: '{"query":"x := opa.runtime().version"}' };
      assert.equal((await ask(`${client.engineUrl}/v1/query`, own)).status, 200);
    });
  });

  describe('the environment of the engine', () => {
    test('has none of our secrets, by /proc and by opa.runtime', { skip: process.platform !== 'linux' }, async () => {
      const environ = (await readFile(`/proc/${client.enginePid()}/environ`, 'utf8')).split('\0').filter(Boolean);
      const names = environ.map((entry) => entry.slice(0, entry.indexOf('=')));
      assert(names.includes('PATH') && names.includes('REGION'), names.join());
      assert.deepEqual(
        names.filter((name) => /^(SYNC|OPAL|AWS)_/.test(name)),
        [],
      );
      const commandLine = await readFile(`/proc/${client.enginePid()}/cmdline`, 'utf8');
      assert.match(commandLine, /--authentication=token.*--authorization=basic/s);
      assert(!`${environ.join('\n')}${commandLine}`.includes(SECRET));

      const environment = await client.query('/app/environment');
      assert.equal(field(environment, 'REGION'), 'eu-west');
      assert.equal(field(environment, 'SYNC_CLIENT_TOKEN'), undefined);
      assert(!JSON.stringify(environment).includes(SECRET));
      // What protects the bundle of policies is not shown either.
      const configuration = await client.query('/app/configuration');
      assert.equal(field(configuration, 'services', 'policysync', 'credentials'), undefined);
    });

    test('the folder with its files is ours alone, and has only the hash of the token', async () => {
      const [file = ''] = (await readFile(`/proc/${client.enginePid()}/cmdline`, 'utf8'))
        .split('\0')
        .filter((argument) => argument.endsWith('policysync-door.rego'));
      assert(file.startsWith(tmpdir()), file);
      const folder = join(file, '..');
      assert.equal((await stat(folder)).mode & 0o777, 0o700);
      for (const name of await readdir(folder))
        assert.equal((await stat(join(folder, name))).mode & 0o777, 0o600, name);
      const [hash = ''] = /[0-9a-f]{64}/.exec(await readFile(file, 'utf8')) ?? [];
      assert.notEqual(hash, '');
      const answer = await ask(`${client.engineUrl}/v1/policies`, { headers: { authorization: `Bearer ${hash}` } });
      assert.equal(answer.status, 401);
    });
  });

  describe('a policy that calls the engine itself', () => {
    test('is let in no further than anybody else', async () => {
      const attack = `package attack

  import rego.v1

  put := http.send({
  	"method": "put",
  	"url": sprintf("%v/v1/policies/evil", [input.engine]),
  	"headers": {"content-type": "text/plain"},
  	"raw_body": "package evil\\n\\nx := 1\\n",
  }).status_code

  read := http.send({"method": "get", "url": sprintf("%v/v1/policies", [input.engine])}).status_code

  configuration := http.send({"method": "get", "url": sprintf("%v/v1/config", [input.engine])}).status_code
  `;
      await repo.commit({ 'attack.rego': attack });
      const input = { engine: client.engineUrl };
      await client.answers('/attack/put', input, 401);
      await client.answers('/attack/read', input, 401);
      await client.answers('/attack/configuration', input, 401);
      assert.equal(await client.query('/evil/x'), undefined);
      await repo.commit({ 'attack.rego': null });
      await client.healthy();
    });
  });

  describe('policy and data that come through the server', () => {
    test('a module that would take the place of the authorization policy is refused by name, with the remedy', async () => {
      for (const [file, rego] of [
        ['authz.rego', 'package system.authz\n\nimport rego.v1\n\nallow := true\n'],
        ['below.rego', 'package system.authz.more\n\nx := 1\n'],
        ['above.rego', 'package system\n\nimport rego.v1\n\nauthz.allow := true\n'],
      ] as const) {
        await repo.commit({ [file]: rego });
        const told = await client.tells('it is refused', (health) =>
          /package system/.test(String(field(health, 'policy', 'last_transaction', 'error'))),
        );
        const error = String(field(told.json, 'policy', 'last_transaction', 'error'));
        if (file !== 'above.rego') assert.match(error, /package system\.authz.*SYNC_INLINE_ENGINE_OPEN=true/);
        assert.equal((await ask(`${client.engineUrl}/v1/policies`)).status, 401);
        await repo.commit({ [file]: null });
        await client.healthy();
      }
    });

    test('data cannot be put where the authorization policy is', async () => {
      for (const path of ['/system/authz', '/system/authz/allow', '/system/authz/own_origins']) {
        await publish(server.url, { dst_path: path, data: { any: true } });
        const told = await client.tells('it is withheld', (health) =>
          failing(health).some((line) => line.startsWith(`${path}: `)),
        );
        assert.match(failing(told.json).join(), /kept for/);
        assert.equal((await ask(`${client.engineUrl}/v1/policies`)).status, 401);
        await publish(server.url, { dst_path: path, save_method: 'DELETE' });
      }
      await publish(server.url, { dst_path: '/system', data: { authz: { allow: true, foreign_page: false } } });
      await publish(server.url, { dst_path: '/mark', data: 1 });
      await client.holds('/mark', 1);
      assert.equal((await ask(`${client.engineUrl}/v1/policies`)).status, 401);
      await publish(server.url, { dst_path: '/users/bob', data: true });
      await client.holds('/users', { ann: true, bob: true });
    });
  });

  test('the drift check reads around the authorization policy, with the token or without', async () => {
    await using own = await startServer();
    await using one = await startClient({
      serverUrl: own.url,
      env: { SYNC_DRIFT_CHECK_INTERVAL: '0.1', SYNC_POLICY_UPDATER_ENABLED: 'false' },
    });
    await publish(own.url, { dst_path: '/', data: { x: 1, system: { n: 1 } } });
    await publish(own.url, { dst_path: '/system', data: { n: 2 } });
    await one.holds('/system/n', 2);
    const { json } = await one.tells(
      'documents were compared',
      (health) =>
        Number(field(health, 'data', 'drift', 'documents')) > 0 &&
        field(health, 'data', 'drift', 'checked_at') !== null,
    );
    const first = field(json, 'data', 'drift', 'checked_at');
    const again = await one.tells(
      'they were again',
      (health) => field(health, 'data', 'drift', 'checked_at') !== first,
    );
    const { repaired, error } = Object(field(again.json, 'data', 'drift')) as { repaired: unknown; error: unknown };
    assert.deepEqual({ repaired, error }, { repaired: 0, error: null });
  });

  describe('opa.runtime and http.send', () => {
    const OFF = { SYNC_INLINE_ENGINE_BUILTINS_OFF: 'opa.runtime,http.send' };

    test('off by a setting: no policy and no query calls them; a commit that does is refused with file and line', async () => {
      await using other = await gitRepo();
      await other.commit({ 'app.rego': 'package app\n\nallow := true\n' });
      await using own = await startServer(following(other));
      await using limited = await startClient({ serverUrl: own.url, env: OFF });
      await limited.healthy();
      for (const name of ['opa.runtime()', 'http.send({"method": "get", "url": "http://127.0.0.1:1"})']) {
        await other.commit({ 'app.rego': `package app\n\nallow := true\n\nx := ${name}\n` });
        const told = await limited.tells('it is refused', (health) =>
          String(field(health, 'policy', 'error', 'message')).includes(`undefined function ${name.split('(')[0]}`),
        );
        const error = field(told.json, 'policy', 'error');
        assert.match(String(field(error, 'message')), /^undefined function .*SYNC_INLINE_ENGINE_BUILTINS_OFF/);
        assert.deepEqual([field(error, 'file'), field(error, 'line')], ['app.rego', 5]);
        assert.equal(await limited.query('/app/allow'), true);
      }
      for (const [method, path, body] of [
        ['GET', '/v1/query?q=x:=opa.runtime()', undefined],
        ['POST', '/v1/query', '{"query":"x := opa.runtime()"}'],
        ['POST', '/v1/compile', '{"query":"opa.runtime().env == input.x","unknowns":["input"]}'],
      ] as const) {
        const answer = await ask(limited.engineUrl + path, { method, ...(body === undefined ? {} : { body }) });
        assert.equal(answer.status, 401, path);
      }
      await other.commit({ 'app.rego': 'package app\n\nallow := false\n' });
      await limited.healthy();
      assert.equal(await limited.query('/app/allow'), false);
    });

    test('on as in OPA where nothing is set', async () => {
      assert.equal(field(await client.query('/app/environment'), 'REGION'), 'eu-west');
    });

    test('a name that OPA does not know, or an open engine, is refused at the start', async () => {
      const start = (env: Record<string, string>) => startClient({ serverUrl: server.url, env });
      await assert.rejects(start({ SYNC_INLINE_ENGINE_BUILTINS_OFF: 'http.sned' }), /http\.sned: this OPA has no such/);
      await assert.rejects(start({ ...OFF, SYNC_INLINE_ENGINE_OPEN: 'true' }), /of no use with an open engine/);
    });
  });

  describe('who guards the engine', () => {
    const accessOf = async (one: StartedClient): Promise<unknown> =>
      field((await one.health()).json, 'engine', 'access');

    test('/healthy says it; SYNC_INLINE_ENGINE_OPEN=true lets everybody write, with a warning', async () => {
      assert.equal(await accessOf(client), 'token');
      await using open = await startClient({ serverUrl: server.url, env: { SYNC_INLINE_ENGINE_OPEN: 'true' } });
      await open.healthy();
      assert.equal(await accessOf(open), 'open');
      assert(open.log.some(({ msg, level }) => level === 40 && msg.includes('the inline engine is open')));
      const put = { method: 'PUT', body: EVIL };
      assert.equal((await ask(`${open.engineUrl}/v1/policies/evil`, put)).status, 200);
      assert.equal(await open.query('/evil/x'), 1);
    });

    test("the operator's own configuration file does not move the authorization policy", async () => {
      await using dir = await tempDir();
      const file = join(dir.path, 'opa.yaml');
      await writeFile(file, 'default_authorization_decision: /app/anything\nlabels:\n  region: eu\n');
      const env = { SYNC_INLINE_ENGINE_CONFIG: JSON.stringify({ config_file: file }) };
      await using own = await startClient({ serverUrl: server.url, env });
      await own.healthy();
      assert.equal(await accessOf(own), 'token');
      assert.equal((await ask(`${own.engineUrl}/v1/policies`)).status, 401);
      assert.equal(await own.query('/app/allow', { user: 'ann' }), true);
      assert.equal(field(await own.query('/app/configuration'), 'labels', 'region'), 'eu');
    });

    test("the operator's own settings of authentication and authorization are left as they are", async () => {
      const env = { SYNC_INLINE_ENGINE_CONFIG: '{"authorization":"off"}' };
      await using own = await startClient({ serverUrl: server.url, env });
      await own.healthy();
      assert.equal(await accessOf(own), 'open');
      assert.equal((await ask(`${own.engineUrl}/v1/policies`)).status, 200);
    });
  });
});
