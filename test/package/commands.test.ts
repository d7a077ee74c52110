import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { delimiter, dirname, join } from 'node:path';
import { text } from 'node:stream/consumers';
import { describe, it } from 'node:test';
import { MASTER_TOKEN, withKeys } from '../support/auth.js';
import type { CommandResult } from '../support/command.js';
import { field, request } from '../support/http.js';
import { installedPackage } from '../support/installed-package.js';
import { freePort, testOpa } from '../support/opa.js';
import { tempDir } from '../support/temp-dir.js';
import { until } from '../support/until.js';

const { project, folder, bin } = installedPackage();
type Program = keyof typeof bin;

/** How a command is called, and how it has to end. */
interface Case {
  readonly args: readonly string[];
  readonly code?: number;
  readonly says: RegExp;
}

/** Each command of a program but `run`; what needs a server finds one at `%SERVER%`, which issues tokens and takes all that come. */
const COMMANDS: Readonly<Record<Program, Readonly<Record<string, readonly Case[]>>>> = {
  'sync-server': {
    'print-config': [{ args: [], says: /SYNC_SERVER_BIND_PORT/ }],
    'generate-secret': [
      { args: [], says: /^[\w-]{43}\n$/ },
      { args: ['--size', '1'], code: 2, says: /--size/ },
    ],
    'obtain-token': [
      { args: [MASTER_TOKEN, '--server-url', '%SERVER%', '--type', 'datasource'], says: /^eyJ[\w.-]+\n$/ },
      { args: ['wrong', '--server-url', '%SERVER%'], code: 1, says: /master/ },
      { args: [], code: 2, says: /SYNC_MASTER_TOKEN/ },
    ],
    status: [
      { args: ['--server-url', '%SERVER%', '--token', '%TOKEN%'], says: /0 clients/ },
      { args: ['--server-url', '%CLOSED%'], code: 1, says: /no answer|refused/ },
    ],
  },
  'sync-client': {
    'print-config': [{ args: [], says: /SYNC_SERVER_URL/ }],
    'publish-data-update': [
      {
        args: ['--server-url', '%SERVER%', '--token', '%TOKEN%', '-t', 'x', '--dst-path', '/x', '--data', '{"a":1}'],
        says: /Publish/,
      },
      { args: ['--server-url', '%SERVER%', '-t', 'x', '--dst-path', '/x', '--data', '1'], code: 1, says: /401|token/i },
      { args: ['--data', '{'], code: 2, says: /--/ },
    ],
    'obtain-token': [{ args: [MASTER_TOKEN, '--server-url', '%SERVER%'], says: /^eyJ[\w.-]+\n$/ }],
    'get-opa': [
      { args: [], says: /^OPA \d+\.\d+\.\d+ at .+\n$/ },
      { args: ['now'], code: 2, says: /too many arguments/ },
    ],
    status: [{ args: ['--client-url', '%CLOSED%'], code: 1, says: /no answer|refused/ }],
  },
};

/** Starts a program by the name under which npm has put it, with the Node that runs this test. */
function start(program: Program, args: readonly string[], env: Readonly<Record<string, string>> = {}) {
  const { PATH = '', HOME = '' } = process.env;
  const child = spawn(join(project, 'node_modules', '.bin', program), args, {
    env: { PATH: `${dirname(process.execPath)}${delimiter}${PATH}`, HOME, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const result = Promise.all([once(child, 'close'), text(child.stdout), text(child.stderr)]).then(
    ([[code], stdout, stderr]): CommandResult => ({ code, stdout, stderr }),
  );
  return { child, result, [Symbol.asyncDispose]: async () => void (child.kill('SIGKILL') && (await result)) };
}

/** A running program of the package that answers at `url`. */
async function running(program: Program, portSetting: string, env: Readonly<Record<string, string>>) {
  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  const started = start(program, ['run'], { ...env, [portSetting]: String(port) });
  const answers = async (): Promise<boolean> => {
    if (started.child.exitCode !== null) throw new Error((await started.result).stderr);
    return (await request(url)).status > 0;
  };
  await until(answers, { withinMs: 60_000, what: `${program} answers` });
  return { ...started, url };
}

describe('the commands of the package', () => {
  for (const [program, commands] of Object.entries(COMMANDS) as [Program, (typeof COMMANDS)[Program]][]) {
    it(`${program} tells its version and its help, which names every command of this test and no other`, async () => {
      assert.match(await readFile(join(folder, bin[program]), 'utf8'), /^#!\/usr\/bin\/env node\n/);
      const { version } = JSON.parse(await readFile(join(folder, 'package.json'), 'utf8')) as { version: string };
      assert.deepEqual(await start(program, ['--version']).result, { code: 0, stdout: `${version}\n`, stderr: '' });
      const { code, stdout } = await start(program, ['--help']).result;
      assert.equal(code, 0);
      const [, list = ''] = /\nCommands:\n([\s\S]*)$/.exec(stdout) ?? [];
      const names = [...list.matchAll(/^ {2}([a-z-]+)/gm)].map(([, name]) => name).filter((name) => name !== 'help');
      assert.deepEqual(names.toSorted(), ['run', ...Object.keys(commands)].toSorted());
      for (const name of names) assert.equal((await start(program, [name ?? '', '--help']).result).code, 0, name);
      assert.equal((await start(program, ['no-such-command']).result).code, 2);
      assert.equal((await start(program, ['run', '--no-such-option']).result).code, 2);
    });
  }

  it('each ends with the code that says how it went', async () => {
    await using dir = await tempDir();
    await using server = await running('sync-server', 'SYNC_SERVER_BIND_PORT', {
      ...withKeys(),
      SYNC_STATE_DIR: join(dir.path, 'state'),
    });
    const asked = ['obtain-token', MASTER_TOKEN, '--server-url', server.url, '--type', 'datasource'];
    const token = (await start('sync-server', asked).result).stdout.trim();
    const places = { '%SERVER%': server.url, '%CLOSED%': 'http://127.0.0.1:9', '%TOKEN%': token };
    const placed = (arg: string): string => places[arg as keyof typeof places] ?? arg;
    const env = { SYNC_INLINE_ENGINE_EXEC_PATH: await testOpa() };
    const problems: string[] = [];
    for (const [program, commands] of Object.entries(COMMANDS) as [Program, (typeof COMMANDS)[Program]][]) {
      for (const [name, cases] of Object.entries(commands)) {
        for (const { args, code = 0, says } of cases) {
          const ended = await start(program, [name, ...args.map(placed)], env).result;
          const said = code === 0 ? ended.stdout : ended.stderr;
          if (ended.code === code && says.test(said)) continue;
          problems.push(`${program} ${name} ${args.join(' ')}: ${ended.code}\n${ended.stdout}${ended.stderr}`);
        }
      }
    }
    assert.deepEqual(problems, []);
  });

  for (const signal of ['SIGTERM', 'SIGINT'] as const) {
    it(`run: both programs end with 0 by ${signal}, also when their documentation was read`, async () => {
      await using dir = await tempDir();
      await using server = await running('sync-server', 'SYNC_SERVER_BIND_PORT', {
        SYNC_STATE_DIR: join(dir.path, 'state'),
      });
      await using client = await running('sync-client', 'SYNC_CLIENT_API_SERVER_PORT', {
        SYNC_SERVER_URL: server.url,
        SYNC_POLICY_STORE_URL: `http://127.0.0.1:${await freePort()}`,
        SYNC_INLINE_ENGINE_EXEC_PATH: await testOpa(),
      });
      const isOnline = async (): Promise<boolean> =>
        field((await request(`${client.url}/healthy`)).json, 'engine', 'online') === true;
      await until(isOnline, { withinMs: 60_000, what: 'the engine of the client is there' });
      for (const { url } of [server, client]) {
        for (const path of ['/docs', '/docs/swagger-ui-bundle.js', '/openapi.json'])
          assert.equal((await request(`${url}${path}`)).status, 200, path);
      }
      for (const { child, result } of [client, server]) {
        child.kill(signal);
        const { code, stderr } = await result;
        assert.equal(code, 0, stderr);
        assert.match(stderr, /stopped/);
      }
    });
  }

  it('run: a setting that cannot be used ends both with 2', async () => {
    for (const program of ['sync-server', 'sync-client'] as const) {
      const { code, stderr } = await start(program, ['run'], { SYNC_LOG_LEVEL: 'loud' }).result;
      assert.equal(code, 2, stderr);
      assert.match(stderr, /SYNC_LOG_LEVEL/);
    }
  });
});
