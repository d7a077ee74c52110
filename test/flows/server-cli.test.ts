import assert from 'node:assert/strict';
import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { connect } from 'node:net';
import { join } from 'node:path';
import { test } from 'node:test';
import { runCommand, startCommand } from '../support/command.js';
import { gitRepoAt } from '../support/git-repo.js';
import { runHere } from '../support/run-here.js';
import { startServer } from '../support/start-server.js';
import { tempDir } from '../support/temp-dir.js';

function startRun(stateDir: string, ...args: string[]) {
  return startCommand('server', ['run', '--server-bind-port', '0', '--state-dir', stateDir, ...args]);
}

const LISTENS = /"url":"(http:[^"]+)".*listening/;

test('a second signal ends it at once, although a request is in flight', async () => {
  await using folder = await tempDir();
  await using server = startRun(folder.path);
  const [, url = ''] = await server.says(LISTENS);
  const socket = connect(Number(new URL(url).port), '127.0.0.1');
  socket.on('error', () => undefined); // the server's end may reset it
  await once(socket, 'connect');
  socket.write('POST /data/config HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\nExpect: 100-continue\r\n\r\n');
  await once(socket, 'data'); // 100 Continue: the request is in the server's hands
  server.process.kill('SIGTERM');
  await server.says(/stopping/);
  server.process.kill('SIGTERM');
  assert.equal((await server.result).code, 1);
  assert.match(server.stderr(), /exiting at once/);
  socket.destroy();
});

test('asked to stop while it waits for its backbone, it ends with 0 and without delay', async () => {
  await using folder = await tempDir();
  await using server = startCommand('server', ['run', '--server-bind-port', '0', '--state-dir', folder.path], {
    SYNC_BROADCAST_URI: 'redis://127.0.0.1:1',
  });
  await server.says(/the backbone does not respond yet/);
  const startedMs = performance.now();
  server.process.kill('SIGTERM');
  assert.equal((await server.result).code, 0, server.stderr());
  assert.ok(performance.now() - startedMs < 15_000, 'of the half minute that a start waits');
});

test('a second server on the same state folder ends with a sentence that names the folder', async () => {
  await using folder = await tempDir();
  await using first = startRun(folder.path);
  await first.says(LISTENS);
  const second = await startRun(folder.path).result;
  assert.equal(second.code, 1);
  assert.match(second.stderr, /policysync: another server has the update log .* open/);
  assert(second.stderr.includes(folder.path));
});

test('what only other settings mend ends it with 2, also where it is found after the start', async () => {
  await using folder = await tempDir();
  await writeFile(join(folder.path, 'mine.txt'), 'not a mirror');
  for (const [args, says] of [
    [['--server-host', '203.0.113.1'], /cannot listen on 203\.0\.113\.1:0.*EADDRNOTAVAIL/],
    [
      ['--policy-repo-url', folder.path, '--policy-repo-clone-path', folder.path],
      /SYNC_POLICY_REPO_CLONE_PATH .* is not empty/,
    ],
  ] as const) {
    const { code, stderr } = await startRun(folder.path, ...args).result;
    assert.equal(code, 2, stderr);
    assert.match(stderr, says);
  }
});

test('the scheme of a repository and the name of a branch are judged by the rules of git', async () => {
  await using folder = await tempDir();
  for (const [url, branch, message] of [
    ['ext::true', 'main', /SYNC_POLICY_REPO_URL has the scheme ext/],
    [folder.path, 'a..b', /SYNC_POLICY_REPO_MAIN_BRANCH "a\.\.b"/],
  ] as const) {
    const starting = startServer({ SYNC_POLICY_REPO_URL: url, SYNC_POLICY_REPO_MAIN_BRANCH: branch });
    await assert.rejects(starting, { code: 'config_invalid', message });
  }
});

test('what a push, a right or the network mends is waited for: a wrong branch, a repository that is away', async () => {
  await using folder = await tempDir();
  const repo = await gitRepoAt(join(folder.path, 'repo'));
  await repo.commit({ 'a.rego': 'package a' });
  await using server = startRun(
    join(folder.path, 'state'),
    '--policy-repo-url',
    repo.url,
    '--policy-repo-main-branch',
    'main',
  );
  await server.says(/branch main does not exist in .*it has master/);
  await repo.git('branch', 'main');
  await server.says(/policy commit served/);
  server.process.kill('SIGTERM');
  assert.equal((await server.result).code, 0, server.stderr());
});

test('names every setting that is not valid, and ends with 2', async () => {
  const { code, stderr, stdout } = await runHere('server', ['run', '--bundle-cache-bytes', 'much'], {
    SYNC_SERVER_BIND_PORT: '70000',
    OPAL_LOG_LEVEL: 'loud',
    SYNC_DATA_CONFIG_SOURCES: '{"config":{"entries":[{"url":5}]}}',
    SYNC_POLICY_REPO_POLLING_INTERVAL: 'often',
  });
  assert.equal(code, 2);
  assert.equal(stdout, '');
  for (const name of [
    'SYNC_SERVER_BIND_PORT',
    'OPAL_LOG_LEVEL',
    'SYNC_DATA_CONFIG_SOURCES',
    'SYNC_POLICY_REPO_POLLING_INTERVAL',
    '--bundle-cache-bytes',
  ]) {
    assert(stderr.includes(name), `${name} is not in: ${stderr}`);
  }
});

test('the client program answers in the same way', async () => {
  const { code, stderr } = await runHere('client', ['run', '--fetching-worker-count', '0'], {
    SYNC_SERVER_URL: 'localhost:7002',
    OPAL_INLINE_OPA_LOG_FORMAT: 'loud',
  });
  assert.equal(code, 2);
  for (const name of ['SYNC_SERVER_URL', 'OPAL_INLINE_OPA_LOG_FORMAT', '--fetching-worker-count']) {
    assert(stderr.includes(name), `${name} is not in: ${stderr}`);
  }
  const shown = await runHere('client', ['run', '--print-config'], { OPAL_CLIENT_TOKEN: 'hush' });
  assert.match(shown.stdout, /^SYNC_CLIENT_TOKEN=\*\*\* {2}# environment OPAL_CLIENT_TOKEN$/m);
});

test('a wrong call ends with 2 and says what is wrong', async () => {
  for (const [args, message] of [
    [['run', '--no-such-flag'], /unknown option '--no-such-flag'/],
    [['run', '--port', '7002'], /unknown option '--port': did you mean --server-bind-port\?/],
    [['run', '--port=7002'], /unknown option '--port': did you mean --server-bind-port\?/],
    [['run', '--auth-master-tokn=hush'], /unknown option '--auth-master-tokn': did you mean --auth-master-token\?/],
    [['run', '--log-lvel', 'debug'], /unknown option '--log-lvel': did you mean --log-level\?/],
    [['--no-such-flag'], /unknown option '--no-such-flag'/],
    [['--auth-master-tokn=hush', 'run'], /unknown option '--auth-master-tokn': did you mean --auth-master-token\?/],
    [['no-such-command'], /too many arguments for 'server'/],
    [['status'], /too many arguments for 'server'/],
  ] as const) {
    const { code, stderr } = await runHere('server', args);
    assert.equal(code, 2, args.join(' '));
    assert.match(stderr, message);
    assert(!stderr.includes('hush'), stderr);
  }
  for (const [program, args, message] of [
    [
      'policysync',
      ['--policy-repo-url', 'x'],
      /unknown option '--policy-repo-url': .* as in `policysync server --policy-repo-url`$/m,
    ],
    ['policysync', ['--auth-master-token=hush', 'server'], /'--auth-master-token': options stand after the command/],
    [
      'policysync',
      ['--policy-repo-ulr=x', 'server'],
      /after the command, as in `policysync server --policy-repo-url`$/m,
    ],
    ['policysync', ['--master-token=hush'], /as in `policysync (?:token --master-token|server --auth-master-token)`/],
    ['policysync', ['--nothing-like-it', 'server'], /^error: unknown option '--nothing-like-it'$/m],
    ['policysync', ['no-such-command'], /unknown command 'no-such-command'/],
    ['policysync', ['keys', '--secret', '3'], /--secret must be a whole number of bytes from 16 to 1024/],
    [
      'policysync',
      ['config', '--policy-repo-url', 'x', 'print'],
      /as in `policysync config print \S+ --policy-repo-url`$/m,
    ],
    ['policysync', ['status', '--nothing'], /^error: unknown option '--nothing'$/m],
  ] as const) {
    const { code, stderr } = await runHere(program, args);
    assert.equal(code, 2, args.join(' '));
    assert.match(stderr, message);
    assert(!stderr.includes('hush'), stderr);
  }
  const { code, stderr } = await runCommand('policysync', []);
  assert.equal(code, 2);
  assert.match(stderr, /Usage: policysync/);
});

test('warns of names that look like settings and are none', async () => {
  await using folder = await tempDir();
  await using server = startCommand('server', ['run'], {
    SYNC_SERVER_BIND_PORT: '0',
    SYNC_STATE_DIR: folder.path,
    SYNC_DATA_TOPICS: 'a', // the client's: no reason to warn
    SYNC_GATEWAY_MODE: 'x', // of another program
    SYNC_SERVER_PORT: 'tcp://10.0.0.1:7002', // of a Service in Kubernetes
    SYNC_SERVER_SERVICE_HOST: '10.0.0.1',
  });
  const [line] = await server.says(/.*unknown settings in the environment.*/);
  assert.match(line, /\["SYNC_GATEWAY_MODE"\]/);
});

test('--print-config shows each value with its origin, flag before environment before default, and no secret', async () => {
  const env = {
    SYNC_SERVER_BIND_PORT: '7100',
    SYNC_SERVER_HOST: '0.0.0.0',
    OPAL_POLICY_REPO_URL: 'https://me:hush@git.example/policy.git',
    SYNC_POLICY_REPO_SSH_KEY: 'hush',
    SYNC_DATA_CONFIG_SOURCES:
      '{"config":{"entries":[{"url":"http://d/?key=hush","config":{"headers":{"Authorization":"hush"},"connection_params":{"user":"me","password":"hush"}}}]}}',
  };
  const args = ['--server-bind-port', '7200', '--data-updates-retained'];
  const run = await runHere('server', ['run', ...args, '--print-config'], env);
  assert.equal(run.code, 0, run.stderr);
  assert.match(run.stdout, /^SYNC_SERVER_BIND_PORT=7200 {2}# flag --server-bind-port$/m);
  assert.match(run.stdout, /^SYNC_SERVER_HOST=0\.0\.0\.0 {2}# environment SYNC_SERVER_HOST$/m);
  assert.match(run.stdout, /^SYNC_POLICY_REPO_URL=\S*git\.example\S* {2}# environment OPAL_POLICY_REPO_URL$/m);
  assert.match(run.stdout, /^SYNC_DATA_UPDATES_RETAINED=true {2}# flag --data-updates-retained$/m);
  assert.match(run.stdout, /^SYNC_BUNDLE_CACHE_BYTES=67108864 {2}# default$/m);
  assert.match(run.stdout, /^SYNC_POLICY_REPO_SSH_KEY=\*\*\*/m);
  assert.doesNotMatch(run.stdout + run.stderr, /hush/);
  assert.equal((await runHere('policysync', ['config', 'print', 'server', ...args], env)).stdout, run.stdout);
  assert.equal((await runHere('server', [...args, '--print-config'], env)).stdout, run.stdout);
});

test('help lists every setting under its heading; version is that of the package', async () => {
  const { code, stdout } = await runHere('server', ['run', '--help-all']);
  assert.equal(code, 0);
  for (const text of ['HTTP and sockets:', 'Policy source:', '--policy-repo-url', '--log-level is SYNC_LOG_LEVEL']) {
    assert(stdout.replace(/\s+/g, ' ').includes(text), text);
  }
  const short = await runHere('server', ['run', '--help']);
  assert.match(short.stdout, /--policy-repo-url.*--help-all/s);
  assert(short.stdout.length < stdout.length / 3);
  for (const program of ['server', 'client'] as const) {
    const version = await runHere(program, ['--version']);
    assert.equal(version.code, 0);
    assert.match(version.stdout, /^\d+\.\d+\.\d+\n$/);
    const help = await runHere(program, ['--help']);
    assert.equal(help.code, 0);
    assert.equal(help.stdout, (await runHere('policysync', [program, '--help'])).stdout);
  }
});

test("sync-server and sync-client have the commands of the specification, and say what OPAL's others are called", async () => {
  const secrets = await Promise.all([
    runHere('server', ['generate-secret']),
    runHere('server', ['generate-secret']),
    runHere('policysync', ['keys', '--secret', '20']),
  ]);
  const [first = '', second = '', short = ''] = secrets.map(({ stdout }) => stdout);
  assert.match(first, /^[\w-]{43}\n$/);
  assert.notEqual(first, second);
  assert.match(short, /^[\w-]{27}\n$/);
  const publish = await runHere('client', ['publish-data-update', '--dst-path', '/x']);
  assert.deepEqual([publish.code, publish.stdout], [2, '']);
  assert.match(publish.stderr, /^policysync: give the data to publish: --src-url/);
  for (const [name, words] of [
    ['obtain-token', 'token'],
    ['print-config', 'config print'],
    ['version', '--version'],
  ] as const) {
    for (const program of ['server', 'client'] as const) {
      const stderr = `error: unknown command '${name}'; use: policysync ${words}\n`;
      assert.deepEqual(await runHere(program, [name, 'more']), { code: 2, stdout: '', stderr });
    }
  }
});
