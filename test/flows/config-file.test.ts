import assert from 'node:assert/strict';
import { chmod, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { keyPair, MASTER_TOKEN } from '../support/auth.js';
import { type CommandResult, startCommand } from '../support/command.js';
import { gitRepo } from '../support/git-repo.js';
import { request } from '../support/http.js';
import { freePort, testOpa } from '../support/opa.js';
import { runHere } from '../support/run-here.js';
import { type TempDir, tempDir } from '../support/temp-dir.js';
import { until } from '../support/until.js';

const POLICY = 'package app\n\nallow if data.users[input.user] == "admin"\n';

describe('policysync with a configuration file', () => {
  let folder: TempDir;
  let config: string;
  let enginePort: number;
  let repo: Awaited<ReturnType<typeof gitRepo>>;
  const ends: (() => PromiseLike<unknown>)[] = [];

  const path = (name: string): string => join(folder.path, name);
  const secret = (name: string, text: string): Promise<void> => writeFile(path(name), `${text}\n`, { mode: 0o600 });
  const run = (...args: string[]): Promise<CommandResult> => runHere('policysync', [...args, '--config', config]);

  before(async () => {
    folder = await tempDir();
    repo = await gitRepo();
    await repo.commit({ 'app.rego': POLICY });
    const { publicKey, privateKey } = keyPair();
    await writeFile(path('auth.pub'), publicKey);
    await secret('auth.pem', privateKey);
    await secret('master', MASTER_TOKEN);
    const [serverPort, clientPort, engine] = [await freePort(), await freePort(), await freePort()];
    enginePort = engine;
    config = path('policysync.yaml');
    await writeFile(
      config,
      `# yaml-language-server: $schema=schema/policysync.schema.json
server:
  server-bind-port: ${serverPort}
  state-dir: ${path('state')}
  policy-repo-url: ${repo.path}
  policy-repo-main-branch: master
  auth-public-key: ${path('auth.pub')}
  auth-private-key-file: ${path('auth.pem')}
  auth-master-token-file: ${path('master')}

client:
  server-url: http://127.0.0.1:${serverPort}
  client-token-file: ${path('token')}
  client-api-server-port: ${clientPort}
  engine: inline
  inline-engine-exec-path: ${await testOpa()}
  policy-store-url: http://127.0.0.1:${engine}
  client-id: from-the-file
  data-topics: [users]
`,
    );
  });
  after(async () => {
    for (const end of ends.reverse()) await end();
    await repo[Symbol.asyncDispose]();
    await folder[Symbol.asyncDispose]();
  });

  it('the same file starts server and client, and the commands find server, token and master token in it', async () => {
    const server = startCommand('policysync', ['server', '--config', config]);
    ends.push(() => server[Symbol.asyncDispose]());
    await server.says(/sync server is listening/);
    const [client, datasource] = [await run('token'), await run('token', '--type', 'datasource')];
    assert.deepEqual([client.code, datasource.code], [0, 0], client.stderr + datasource.stderr);
    await secret('token', client.stdout.trim());
    await secret('datasource', datasource.stdout.trim());

    const started = startCommand('policysync', ['client'], { SYNC_CONFIG: config });
    ends.push(() => started[Symbol.asyncDispose]());
    await started.says(/sync client is listening/);
    const token = ['--token-file', path('datasource')];
    const publish = [
      'publish',
      '--topic',
      'users',
      '--dst-path',
      '/users',
      '--data',
      '{"alice":"admin"}',
      '--wait',
      '20',
    ];
    const allowed = async (): Promise<unknown> => {
      const url = `http://127.0.0.1:${enginePort}/v1/data/app/allow`;
      return (await request(url, { method: 'POST', body: '{"input":{"user":"alice"}}' })).json;
    };
    const hasPolicy = async (): Promise<boolean> =>
      /from-the-file +healthy/.test((await run('status', ...token)).stdout);
    await until(hasPolicy, { withinMs: 60_000, what: 'the client of the file is healthy' });
    const published = await run(...publish, ...token);
    assert.equal(published.code, 0, published.stderr);
    assert.match(published.stdout, /Applied by 1 client\./);
    assert.deepEqual(await allowed(), { result: true });
    const refused = await run(...publish);
    assert.equal(refused.code, 1, 'the token of the file is one of a client, which may not publish');
    for (const { stderr } of [server, started].map((each) => ({ stderr: each.stderr() }))) {
      assert.doesNotMatch(stderr, /every user of this machine|unknown settings/);
    }
  });

  it('that nobody named, in the working directory, is told of below a failure and a diagnosis', async () => {
    const told = /\nnote: policysync\.yaml in this folder was not read: --config policysync\.yaml names it\n$/;
    const closed = { SYNC_SERVER_URL: 'http://127.0.0.1:9' };
    const ask = (args: string[], env: Record<string, string> = closed): Promise<CommandResult> =>
      startCommand('policysync', args, env, { cwd: folder.path }).result;
    const failed = await ask(['status']);
    assert.match(failed.stderr, told);
    const diagnosis = await ask(['doctor', 'client', '--json', '--timeout', '1']);
    assert.match(`\n${diagnosis.stderr}`, told);
    assert.ok(JSON.parse(diagnosis.stdout));
    for (const { stderr } of [
      await ask(['status'], { ...closed, SYNC_CONFIG: config }),
      await ask(['status', '--server-url', 'http://127.0.0.1:9', '--config', 'policysync.yaml']),
      await ask(['keys', '--bits', '1']),
      await ask(['config', 'print']),
      await runHere('policysync', ['status'], closed),
    ]) {
      assert.doesNotMatch(stderr, /not read: --config/);
    }
  });

  it('config print says for each value where it comes from, and sync-server says the same', async () => {
    const env = { SYNC_CONFIG: config, SYNC_SERVER_HOST: '127.0.0.2', OPAL_DATA_TOPICS: 'a', SYNC_MASTER_TOKEN: 'x' };
    const args = ['--log-level', 'debug'];
    const server = await runHere('policysync', ['config', 'print', 'server', ...args], env);
    const lineOf = async (text: string): Promise<number> =>
      (await readFile(config, 'utf8')).split('\n').findIndex((line) => line.includes(text)) + 1;
    for (const line of [
      'SYNC_SERVER_HOST=127.0.0.2  # environment SYNC_SERVER_HOST',
      'SYNC_LOG_LEVEL=debug  # flag --log-level',
      `SYNC_STATE_DIR=${path('state')}  # file ${config}:${await lineOf('state-dir')}`,
      `SYNC_AUTH_MASTER_TOKEN=***  # file ${config}:${await lineOf('auth-master-token-file')}, read from ${path('master')}`,
      'SYNC_LOG_FORMAT=auto  # default',
      '# SYNC_POLICY_REPO_SSH_KEY is not set',
    ]) {
      assert(server.stdout.split('\n').includes(line), `${line} is not in ${server.stdout}`);
    }
    assert.equal((await runHere('server', ['run', '--print-config', ...args], env)).stdout, server.stdout);

    await secret('token', 'hush');
    const both = await runHere('policysync', ['config', 'print', '--json'], env);
    const { settings } = JSON.parse(both.stdout) as { settings: { program: string; key: string }[] };
    const found = (program: string, key: string): object | undefined =>
      settings.find((setting) => setting.program === program && setting.key === key);
    assert.deepEqual(found('client', 'client-token'), {
      ...{ program: 'client', name: 'SYNC_CLIENT_TOKEN', key: 'client-token', group: 'Sync server', value: '***' },
      origin: { from: 'file', path: config, line: await lineOf('client-token-file'), secret_file: path('token') },
    });
    assert.deepEqual(found('client', 'data-topics'), {
      ...{ program: 'client', name: 'SYNC_DATA_TOPICS', key: 'data-topics', group: 'Data', value: 'a' },
      origin: { from: 'environment', name: 'OPAL_DATA_TOPICS' },
    });
    assert.deepEqual(found('server', 'policy-repo-ssh-key'), {
      ...{ program: 'server', name: 'SYNC_POLICY_REPO_SSH_KEY', key: 'policy-repo-ssh-key', group: 'Policy source' },
      ...{ value: null, origin: { from: 'default' } },
    });
    const client = await runHere('policysync', ['config', 'print', 'client', '--json'], env);
    assert.deepEqual(JSON.parse(client.stdout), { settings: settings.filter(({ program }) => program === 'client') });
    assert.doesNotMatch(both.stdout + server.stdout, /hush|the-master-token/);
  });

  it('what is wrong in the file ends each program with 2, by line; what is open to others is a warning', async () => {
    const broken = path('broken.yaml');
    await writeFile(broken, 'server:\n  policy-repo-ulr: x\nclient:\n  server-url: y\n');
    for (const [program, args] of [
      ['server', ['run']],
      ['client', ['run']],
      ['policysync', ['config', 'print']],
      ['policysync', ['status']],
    ] as const) {
      const { code, stderr } = await runHere(program, [...args, '--config', broken]);
      assert.equal(code, 2, stderr);
      assert.match(stderr, /broken\.yaml:2: the server has no setting policy-repo-ulr: did you mean policy-repo-url\?/);
    }
    await writeFile(broken, 'client:\n  client-token: hush\n');
    await chmod(broken, 0o644);
    const open = await runHere('policysync', ['config', 'print', '--config', broken]);
    assert.equal(open.code, 0);
    assert.match(
      open.stderr,
      /^warning: \S+broken\.yaml has secrets \(client\.client-token\).* \(mode 644\): chmod 640/,
    );
    await writeFile(broken, 'client:\n  server-url: y\n');
    const value = await runHere('policysync', ['client', '--config', broken, '--client-id', '', '--config', broken]);
    assert.equal(value.code, 2);
    assert.match(
      value.stderr,
      /broken\.yaml:2: server-url must be a URL \(is "y"\)\n {2}--client-id has an empty value/,
    );
  });
});
