import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { X509Certificate } from 'node:crypto';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { mkdir, readdir, readFile, stat } from 'node:fs/promises';
import { delimiter, dirname, join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { runCommand } from '../support/command.js';
import { doctor } from '../support/doctor.js';
import { type GitRepo, gitRepo } from '../support/git-repo.js';
import { field, postJson } from '../support/http.js';
import { installedPackage } from '../support/installed-package.js';
import { freePort } from '../support/opa.js';
import { runHere } from '../support/run-here.js';
import { NO_GATE } from '../support/start-server.js';
import { type TempDir, tempDir } from '../support/temp-dir.js';
import { until } from '../support/until.js';

/** `policysync init` of the package, and the commands that it prints, as they are printed. */

const { PATH = '', HOME = '' } = process.env;
const bin = join(installedPackage().project, 'node_modules', '.bin');
/** What a person has in the shell: the commands of the package and the Node of this test. */
const ENV = { PATH: [bin, dirname(process.execPath), PATH].join(delimiter), HOME };
/** Extended key usage of callers (RFC 5280). */
const CLIENT_AUTH = '1.3.6.1.5.5.7.3.2';
/** Makes a terminal for a program. */
const SCRIPT = '/usr/bin/script';

let repo: GitRepo;
let dir: TempDir;

/** `policysync init` of a folder, at a terminal. */
function askedInit(folder: string) {
  const child = spawn(SCRIPT, ['-qec', `stty cols 100 rows 40; exec policysync init ${folder}`, '/dev/null'], {
    env: { ...ENV, TERM: 'xterm' },
  });
  let text = '';
  child.stdout.setEncoding('utf8').on('data', (part: string) => {
    text += part;
  });
  const ended = once(child, 'close').then(([code]) => code as number | null);
  return {
    ended,
    text: () => text,
    /** Types an answer once the question is there. */
    answer: async (question: string, keys: string): Promise<void> => {
      await until(() => text.includes(question), { withinMs: 30_000, what: `${question} in ${text}` });
      child.stdin.write(keys);
    },
    [Symbol.asyncDispose]: async () => void (child.kill() && (await ended)),
  };
}

/** Runs a line in a shell of a folder. */
function shell(line: string, cwd: string) {
  const env = { ...ENV, ...NO_GATE };
  const child = spawn('/bin/sh', ['-c', `exec ${line}`], { cwd, env, stdio: ['ignore', 'pipe', 'pipe'] });
  let text = '';
  const add = (part: string): void => {
    text += part;
  };
  for (const stream of [child.stdout, child.stderr]) stream.setEncoding('utf8').on('data', add);
  const ended = once(child, 'close').then(([code]) => code as number | null);
  return {
    ended,
    text: () => text,
    [Symbol.asyncDispose]: async () => {
      child.kill('SIGTERM');
      await ended;
    },
  };
}

/** Flags for ports that are free, and the port of the engine. */
async function ports(): Promise<{ flags: string[]; engine: number }> {
  const [server, client, engine] = [await freePort(), await freePort(), await freePort()];
  const flags = ['--port', String(server), '--client-port', String(client), '--engine-port', String(engine)];
  return { flags, engine };
}

/** The commands below "Next:" of what `init` prints. */
function nextCommands(text: string): string[] {
  const [, next = ''] = text.split('\nNext:\n');
  return [...next.matchAll(/^ {2}(\S.*)$/gm)].map(([, line = '']) => line);
}

/** Runs the printed commands in the folder, and asks OPA; then `doctor` checks both programs. */
async function decides(folder: string, printed: string, engine: number): Promise<void> {
  const [cd, check = '', server = '', client = '', ...rest] = nextCommands(printed);
  assert.match(cd ?? '', /^cd /);
  assert.deepEqual(rest, []);
  await using checking = shell(check, folder);
  assert.equal(await checking.ended, 0, checking.text());
  await using serving = shell(server, folder);
  await until(() => serving.text().includes('sync server is listening'), {
    withinMs: 60_000,
    what: 'the server listens',
  });
  await using following = shell(client, folder);
  const ask = async (): Promise<unknown> => {
    const url = `http://127.0.0.1:${engine}/v1/data/app/rbac/allow`;
    return field((await postJson(url, { input: { user: 'ann' } })).json, 'result');
  };
  await until(async () => (await ask()) === true, { withinMs: 60_000, what: 'a decision' }).catch((cause: unknown) => {
    throw new Error(`${serving.text()}\n${following.text()}`, { cause });
  });
  // From another folder: the paths in the file begin in its own.
  const { code, stdout, stderr } = await runHere(
    'policysync',
    ['doctor', '--strict', '--config', join(folder, 'policysync.yaml')],
    ENV,
  );
  assert.equal(code, 0, stdout + stderr);
  assert.match(stdout, /is held by the sync server[\s\S]*is held by the sync client[\s\S]*0 errors, 0 warnings/);
}

describe('policysync init', () => {
  before(async () => {
    [repo, dir] = await Promise.all([gitRepo(), tempDir()]);
    await repo.commit({ 'app/rbac.rego': 'package app.rbac\nallow := data.app.users[input.user] == "admin"\n' });
    await repo.commit({ 'app/data.json': '{"users":{"ann":"admin"}}' });
    await repo.git('branch', 'other');
  });
  after(async () => {
    await repo[Symbol.asyncDispose]();
    await dir[Symbol.asyncDispose]();
  });

  test('local: the printed commands lead to a decision', async () => {
    const { flags, engine } = await ports();
    const folder = join(dir.path, 'local');
    const made = await runCommand('policysync', ['init', folder, '--repository', repo.path, '--yes', ...flags]);
    assert.equal(made.code, 0, made.stderr);
    await decides(folder, made.stdout, engine);
    assert.deepEqual((await readdir(folder)).sort(), ['policysync.yaml', 'state']);
  });

  test('network with a trial certificate: the same, with keys, tokens and TLS', async () => {
    const { flags, engine } = await ports();
    const folder = join(dir.path, 'network');
    const args = ['--repository', repo.url, '--mode', 'network', '--tls', 'trial', '--server-name', 'localhost'];
    const made = await runCommand('policysync', ['init', folder, ...args, ...flags]);
    assert.equal(made.code, 0, made.stderr);
    await decides(folder, made.stdout, engine);

    for (const part of ['secrets', 'state']) assert.equal((await stat(join(folder, part))).mode & 0o777, 0o700, part);
    const secrets = [
      'auth-private-key.pem',
      'master-token',
      'webhook-secret',
      'client-token',
      'tls/ca.key',
      'tls/server.key',
    ];
    const settings = await readFile(join(folder, 'policysync.yaml'), 'utf8');
    for (const name of secrets) {
      const file = join(folder, 'secrets', name);
      assert.equal((await stat(file)).mode & 0o777, 0o600, name);
      const secret = (await readFile(file, 'utf8')).trim();
      assert.ok(!settings.includes(secret) && !made.stdout.includes(secret), name);
    }
    assert.equal(await readFile(join(folder, 'secrets', '.gitignore'), 'utf8'), '# Nothing here belongs in git.\n*\n');
    const { keyUsage } = new X509Certificate(await readFile(join(folder, 'secrets', 'tls', 'server.pem')));
    assert.ok(keyUsage.includes(CLIENT_AUTH), 'the health check presents it to a server that demands certificates');
    // The other roles work at once, too: a listener reads, a datasource may not be a client.
    const listener = join(folder, 'secrets', 'listener-token');
    const token = (await readFile(listener, 'utf8')).trim();
    const claims = JSON.parse(Buffer.from(token.split('.')[1] ?? '', 'base64url').toString()) as Record<
      string,
      unknown
    >;
    assert.equal(claims.peer_type, 'listener');
    assert.match(made.stdout, new RegExp(`listener-token .*id ${String(claims.sub).slice(0, 8)}-`));
  });

  test('writes nothing where something is there, and new keys with --force', async () => {
    const folder = join(dir.path, 'twice');
    const args = ['init', folder, '--repository', repo.url, '--mode', 'network', '--yes', '--json'];
    const first = JSON.parse((await runHere('policysync', args)).stdout) as { commands: string[] };
    assert.equal(first.commands.length, 3);
    const key = await readFile(join(folder, 'secrets', 'auth-private-key.pem'), 'utf8');
    const refused = await runHere('policysync', args);
    assert.equal(refused.code, 2);
    assert.match(refused.stderr, /has policysync\.yaml.* already: .*--force/);
    assert.equal(await readFile(join(folder, 'secrets', 'auth-private-key.pem'), 'utf8'), key);
    const again = await runHere('policysync', [...args, '--force']);
    assert.equal(again.code, 0, again.stderr);
    const { replaced } = JSON.parse(again.stdout) as { replaced: string };
    const kept = join(folder, replaced, 'secrets', 'auth-private-key.pem');
    assert.equal(await readFile(kept, 'utf8'), key, 'what cannot be made again is kept');
    assert.equal((await stat(kept)).mode & 0o777, 0o600);
    assert.equal((await stat(join(folder, replaced))).mode & 0o777, 0o700);
    assert.equal(await readFile(join(folder, replaced, '.gitignore'), 'utf8'), '*\n');
    const told = await runHere('policysync', [...args.filter((arg) => arg !== '--json'), '--force']);
    assert.match(told.stdout, /What these replace is in .*\/twice\/replaced-\d{8}T\d{9}Z: remove it/);
    assert.notEqual(await readFile(join(folder, 'secrets', 'auth-private-key.pem'), 'utf8'), key);
    // Without TLS, doctor says what that means.
    const found = await doctor(
      ['server', '--config', join(folder, 'policysync.yaml'), '--state-dir', join(folder, 'state')],
      {
        SYNC_AUTH_PUBLIC_KEY: join(folder, 'secrets', 'auth-public-key.pem'),
        SYNC_AUTH_PRIVATE_KEY_FILE: join(folder, 'secrets', 'auth-private-key.pem'),
        SYNC_AUTH_MASTER_TOKEN_FILE: join(folder, 'secrets', 'master-token'),
        SYNC_POLICY_REPO_WEBHOOK_SECRET_FILE: join(folder, 'secrets', 'webhook-secret'),
      },
    );
    assert.match(found.of('server_tls'), /^warning: plain HTTP on 0\.0\.0\.0/);
  });

  test('says what to give where nobody can be asked', async () => {
    const nothing = await runHere('policysync', ['init', join(dir.path, 'x')]);
    assert.equal(nothing.code, 2);
    assert.match(nothing.stderr, /give --repository <git-url> and --mode local or --mode network/);
    const gone = await runHere('policysync', [
      'init',
      join(dir.path, 'x'),
      '--repository',
      `${repo.path}-gone`,
      '--yes',
    ]);
    assert.equal(gone.code, 1);
    assert.match(gone.stderr, /-gone: git ls-remote failed/);
    assert.doesNotMatch(gone.stderr, /access rights|Check SYNC_POLICY_REPO_URL/);
    const local = ['init', join(dir.path, 'x'), '--repository', repo.path, '--yes', '--tls', 'trial'];
    assert.match((await runHere('policysync', local)).stderr, /--tls trial is for --mode network/);
    assert.ok(!existsSync(join(dir.path, 'x')));
  });

  const noTerminal = existsSync(SCRIPT) ? false : `there is no ${SCRIPT} to make a terminal`;
  test('says how a folder becomes a repository', async () => {
    const folder = join(dir.path, 'plain-folder');
    await mkdir(folder);
    const { code, stderr } = await runHere('policysync', ['init', '--yes', '--repository', folder]);
    assert.equal(code, 1);
    assert.match(
      stderr,
      /plain-folder' does not appear to be a git repository; a folder becomes a repository by `git init -b main`/,
    );
  });

  test('asks at a terminal', { skip: noTerminal }, async () => {
    const folder = join(dir.path, 'asked');
    await using terminal = askedInit(folder);
    for (const [question, answer] of [
      ['Git repository', `${repo.path}-mistyped\r`],
      ['does not appear to be a git repository', `${repo.path}\r`],
      ['Where do the clients run', '\r'],
      ['Branch', '\r'],
      ['More files', '\r'],
    ] as const) {
      await terminal.answer(question, answer);
    }
    assert.equal(await terminal.ended, 0, terminal.text());
    // The branch of HEAD comes first.
    assert.match(await readFile(join(folder, 'policysync.yaml'), 'utf8'), /policy-repo-main-branch: master/);
  });

  test('that is cancelled at a question ends with 2 and writes nothing', { skip: noTerminal }, async () => {
    const folder = join(dir.path, 'cancelled');
    await using terminal = askedInit(folder);
    await terminal.answer('Git repository', '\u0003');
    assert.equal(await terminal.ended, 2, terminal.text());
    assert.match(terminal.text(), /Cancelled: nothing was written/);
    assert.ok(!existsSync(folder));
  });
});
