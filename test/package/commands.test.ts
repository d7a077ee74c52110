import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { delimiter, dirname, join } from 'node:path';
import { text } from 'node:stream/consumers';
import { describe, it } from 'node:test';
import { MASTER_TOKEN, tokenOf, withKeys } from '../support/auth.js';
import type { CommandResult } from '../support/command.js';
import { field, request } from '../support/http.js';
import { installedPackage } from '../support/installed-package.js';
import { freePort, testOpa } from '../support/opa.js';
import { repoRoot } from '../support/repo.js';
import { runHere } from '../support/run-here.js';
import { tempDir } from '../support/temp-dir.js';
import { until } from '../support/until.js';
import type { CommandLine } from './commands-runner.js';

const { project, folder, bin } = installedPackage();
type Program = keyof typeof bin;

/** How a command is called, and how it has to end. */
interface Case {
  readonly args: readonly string[];
  readonly code?: number;
  readonly says: RegExp;
}

/** Each command of a program but those that run it; what needs a server finds one at `%SERVER%`, which issues tokens and takes all that come. */
const COMMANDS: Readonly<Record<Program, Readonly<Record<string, readonly Case[]>>>> = {
  policysync: {
    demo: [{ args: ['now'], code: 2, says: /too many arguments/ }],
    publish: [
      {
        args: ['--server-url', '%SERVER%', '--token', '%TOKEN%', '--dst-path', '/x', '--data', '1'],
        says: /Published/,
      },
    ],
    status: [
      { args: ['--server-url', '%SERVER%', '--token', '%TOKEN%'], says: /0 clients/ },
      { args: ['--server-url', '%CLOSED%'], code: 1, says: /no answer|refused/ },
      { args: ['client', '--client-url', '%CLOSED%'], code: 1, says: /no answer|refused/ },
      { args: ['client', '--server-url', '%SERVER%'], code: 2, says: /--server-url belongs to `status server`/ },
    ],
    healthcheck: [
      { args: ['server'], code: 1, says: /does not answer/ },
      { args: ['nobody'], code: 1, says: /server, client/ },
      { args: [], code: 1, says: /missing required argument/ },
      { args: ['server', '--nothing'], code: 1, says: /unknown option/ },
      { args: ['server', '--config', ''], code: 1, says: /--config/ },
      { args: ['server', '--timeout', '0'], code: 1, says: /must be more than 0 and at most 60 seconds \(is "0"\)/ },
    ],
    init: [
      { args: [], code: 2, says: /give --repository/ },
      { args: ['--repository', '/nowhere', '--yes'], code: 1, says: /git ls-remote failed/ },
    ],
    doctor: [
      { args: ['server', '--server-bind-port', '0'], says: /in order\n$/ },
      { args: ['client', '--server-url', '%CLOSED%'], code: 1, says: /1 error/ },
    ],
    clients: [
      { args: ['--server-url', '%SERVER%', '--token', '%TOKEN%', '--json'], says: /"clients":\[\]/ },
      { args: ['--server-url', '%CLOSED%'], code: 1, says: /no answer|refused/ },
      {
        args: ['nobody', '--server-url', '%SERVER%', '--token', '%TOKEN%'],
        code: 1,
        says: /no client "nobody" is known/,
      },
      { args: ['nobody', '--only', 'away', '--server-url', '%SERVER%'], code: 2, says: /--only/ },
    ],
    log: [
      { args: ['--server-url', '%SERVER%', '--token', '%TOKEN%'], says: /PUT \/x/ },
      { args: ['--limit', 'all'], code: 2, says: /--limit/ },
    ],
    refresh: [
      { args: ['--server-url', '%SERVER%', '--token', '%TOKEN%', '--path', '/'], says: /Nothing to fetch again/ },
      { args: [], code: 2, says: /--path .* or --topic/ },
    ],
    token: [
      { args: [MASTER_TOKEN, '--server-url', '%SERVER%', '--type', 'datasource'], says: /^eyJ[\w.-]+\n$/ },
      { args: ['wrong', '--server-url', '%SERVER%'], code: 1, says: /master/ },
      { args: [], code: 2, says: /SYNC_MASTER_TOKEN/ },
    ],
    completion: [
      { args: ['bash'], says: /^complete -F _policysync policysync$/m },
      { args: [], code: 2, says: /shell/ },
    ],
    keys: [
      { args: ['--secret', '--json'], says: /^\{"secret":"[\w-]{43}"\}\n$/ },
      { args: ['--secret', '1'], code: 2, says: /--secret/ },
    ],
    'config print server': [{ args: ['--server-bind-port', '1'], says: /SYNC_SERVER_BIND_PORT=1 {2}# flag/ }],
    'config print client': [{ args: [], says: /SYNC_SERVER_URL/ }],
    'config print': [
      { args: ['foo'], code: 2, says: /config print is of server or client \(is "foo"\)/ },
      { args: ['server', 'foo'], code: 2, says: /too many arguments/ },
      { args: ['--json'], says: /"program": "server".*"program": "client"/s },
    ],
    trace: [
      { args: ['nowhere', '--server-url', '%SERVER%', '--token', '%TOKEN%'], code: 1, says: /"nowhere" is known/ },
      { args: [], code: 2, says: /change/ },
    ],
    check: [
      { args: ['%POLICIES%'], says: /0 errors, 0 warnings/ },
      { args: ['%POLICIES%', '--against', '%SERVER%'], code: 1, says: /\/policy answered/ },
      { args: ['/nowhere'], code: 2, says: /no folder/ },
    ],
    'opa get': [
      { args: ['--json'], says: /^\{"version":"[\d.]+","path":"\/[^"]+"\}\n$/ },
      { args: [], says: /^OPA \d+\.\d+\.\d+ at .+\n$/ },
      { args: ['now'], code: 2, says: /too many arguments/ },
    ],
  },
  'sync-server': {
    run: [{ args: ['--print-config'], says: /SYNC_SERVER_BIND_PORT/ }],
    'generate-secret': [
      { args: [], says: /^[\w-]{43}\n$/ },
      { args: ['--size', '1'], code: 2, says: /--size/ },
    ],
    'obtain-token': [{ args: [MASTER_TOKEN], code: 2, says: /use: policysync token$/m }],
  },
  'sync-client': {
    run: [{ args: ['--print-config'], says: /SYNC_SERVER_URL/ }],
    'publish-data-update': [
      {
        args: ['--server-url', '%SERVER%', '--token', '%TOKEN%', '-t', 'x', '--dst-path', '/x', '--data', '{"a":1}'],
        says: /Publish/,
      },
      { args: ['--server-url', '%SERVER%', '-t', 'x', '--dst-path', '/x', '--data', '1'], code: 1, says: /401|token/i },
      { args: ['--data', '{'], code: 2, says: /--/ },
    ],
    'print-config': [{ args: [], code: 2, says: /use: policysync config print$/m }],
  },
};

/** The commands that run a server or a client. */
const RUNS = ['server', 'client'];

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

/** How command lines of the installed programs end, one after the other in one process. */
async function runAll(lines: readonly CommandLine[]): Promise<CommandResult[]> {
  const child = spawn(process.execPath, [join(import.meta.dirname, 'commands-runner.js')], {
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  child.stdin.end(JSON.stringify(lines));
  return JSON.parse(await text(child.stdout)) as CommandResult[];
}

/** A running program of the package that answers at `url`. */
async function running(
  [program, command]: readonly [Program, string],
  portSetting: string,
  env: Readonly<Record<string, string>>,
) {
  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  const started = start(program, [command], { ...env, [portSetting]: String(port) });
  const answers = async (): Promise<boolean> => {
    if (started.child.exitCode !== null) throw new Error((await started.result).stderr);
    return (await request(url)).status > 0;
  };
  await until(answers, { withinMs: 60_000, what: `${program} answers` });
  return { ...started, url };
}

describe('the commands of the package', () => {
  for (const program of Object.keys(COMMANDS) as Program[]) {
    it(`${program} is a file that Node runs, and tells its version`, async () => {
      assert.match(await readFile(join(folder, bin[program]), 'utf8'), /^#!\/usr\/bin\/env node\n/);
      const { version } = JSON.parse(await readFile(join(folder, 'package.json'), 'utf8')) as { version: string };
      assert.deepEqual(await start(program, ['--version']).result, { code: 0, stdout: `${version}\n`, stderr: '' });
    });
  }

  it('the help of policysync names every command of this test and no other', async () => {
    const { code, stdout } = await start('policysync', ['--help']).result;
    assert.equal(code, 0);
    const names = [...stdout.matchAll(/^ {2}([a-z][a-z-]*)/gm)]
      .map(([, name]) => name)
      .filter((name) => name !== 'help');
    const tested = Object.keys(COMMANDS.policysync).map((name) => name.split(' ')[0]);
    assert.deepEqual(names.toSorted(), [...new Set([...RUNS, ...tested])].toSorted());
    for (const name of names) assert.equal((await runHere('policysync', [name ?? '', '--help'])).code, 0, name);
    for (const run of RUNS) assert.equal((await runHere('policysync', [run, '--no-such-option'])).code, 2);
    assert.equal((await runHere('policysync', ['no-such-command'])).code, 2);
  });

  it('the help of sync-server and sync-client is that of the command of policysync', async () => {
    for (const [program, name] of [
      ['sync-server', 'server'],
      ['sync-client', 'client'],
    ] as const) {
      const { code, stdout } = await start(program, ['--help']).result;
      assert.deepEqual([code, stdout], [0, (await runHere('policysync', [name, '--help'])).stdout]);
    }
  });

  it('each runs as it ships, and ends with the code that says how it went, with wrong arguments too', async () => {
    await using dir = await tempDir();
    await using server = await running(['sync-server', 'run'], 'SYNC_SERVER_BIND_PORT', {
      ...withKeys(),
      SYNC_STATE_DIR: join(dir.path, 'state'),
    });
    const token = await tokenOf(server.url, { type: 'datasource' });
    const policies = join(repoRoot(), 'examples', 'policies');
    const places = {
      '%POLICIES%': policies,
      '%SERVER%': server.url,
      '%CLOSED%': 'http://127.0.0.1:9',
      '%TOKEN%': token,
    };
    const placed = (arg: string): string => places[arg as keyof typeof places] ?? arg;
    const { PATH = '', HOME = '' } = process.env;
    // No program of this machine listens on port 9.
    const env = { PATH, HOME, SYNC_INLINE_ENGINE_EXEC_PATH: await testOpa(), SYNC_SERVER_BIND_PORT: '9' };
    const all = (Object.entries(COMMANDS) as [Program, (typeof COMMANDS)[Program]][]).flatMap(([program, commands]) =>
      Object.entries(commands).flatMap(([name, cases]) =>
        cases.map((one) => ({
          ...{ code: 0, ...one, program, name: `${program} ${name} ${one.args.join(' ')}` },
          line: { file: join(folder, bin[program]), args: [...name.split(' '), ...one.args.map(placed)], env },
        })),
      ),
    );
    const ends = await runAll(all.map(({ line }) => line));
    const results = new Map(all.map(({ name }, index) => [name, ends[index]]));
    // As a process of its own each program ends in the same way: with a code of failure, and without one.
    for (const program of Object.keys(COMMANDS) as Program[]) {
      const ofProgram = all.filter((one) => one.program === program);
      for (const one of [ofProgram.find(({ code }) => code === 0), ofProgram.find(({ code }) => code !== 0)])
        if (one !== undefined) results.set(one.name, await start(program, one.line.args, env).result);
    }
    const problems = all.flatMap(({ name, code, says }) => {
      const ended = results.get(name);
      assert(ended !== undefined, name);
      const said = code === 0 ? ended.stdout : ended.stdout + ended.stderr;
      return ended.code === code && says.test(said) ? [] : [`${name}: ${ended.code}\n${ended.stdout}${ended.stderr}`];
    });
    assert.deepEqual(problems, []);
  });

  for (const [signal, asServer, asClient] of [
    ['SIGTERM', ['sync-server', 'run'], ['sync-client', 'run']],
    ['SIGINT', ['policysync', 'server'], ['policysync', 'client']],
  ] as const) {
    it(`${asServer.join(' ')} and ${asClient.join(' ')} end with 0 by ${signal}, also when their documentation was read`, async () => {
      await using dir = await tempDir();
      await using server = await running(asServer, 'SYNC_SERVER_BIND_PORT', {
        SYNC_STATE_DIR: join(dir.path, 'state'),
      });
      await using client = await running(asClient, 'SYNC_CLIENT_API_SERVER_PORT', {
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
    const env = { SYNC_LOG_LEVEL: 'loud' };
    for (const { code, stderr } of [
      await start('sync-server', ['run'], env).result,
      await start('policysync', ['client'], env).result,
      await runHere('client', ['run'], env),
      await runHere('policysync', ['server'], env),
    ]) {
      assert.equal(code, 2, stderr);
      assert.match(stderr, /SYNC_LOG_LEVEL/);
    }
  });
});
