import assert from 'node:assert/strict';
import { generateKeyPairSync } from 'node:crypto';
import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { createServer as createTcpServer } from 'node:net';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { pino } from 'pino';
import { CLIENT_SETTINGS } from '../../src/client/options.js';
import { Secret } from '../../src/lib/observe/log.js';
import { parseConfigFile } from '../../src/lib/settings/config-file.js';
import { readSettings, settingValues } from '../../src/lib/settings/options.js';
import {
  flagName,
  type Setting,
  type Settings,
  secretFileEnv,
  secretFileFlag,
} from '../../src/lib/settings/setting.js';
import { inspectBackbone } from '../../src/server/log/backbone/inspect-backbone.js';
import { BACKBONE_TIMES } from '../../src/server/log/backbone/session-keeper.js';
import { SERVER_SETTINGS } from '../../src/server/options.js';
import { withKeys } from '../support/auth.js';
import { field, postJson, request } from '../support/http.js';
import { listening } from '../support/http-server.js';
import { runHere } from '../support/run-here.js';
import { startClient } from '../support/start-client.js';
import { startServer } from '../support/start-server.js';
import { tempDir } from '../support/temp-dir.js';
import { until } from '../support/until.js';

/** Nothing of a value that came from a secret setting is ever printed, in whatever form it was given, and whoever repeats it. */

const MARK = 'pl4nted-s3cret';

/** The forms in which somebody gives a secret by mistake; each has the mark in it. */
const FORMS: Readonly<Record<string, string>> = {
  'a word': MARK,
  'a path that is not there': `/nowhere/${MARK}/key`,
  'a path in the home folder': `~/${MARK}`,
  'a line with blanks': ` x ${MARK} y `,
  'several lines': `${MARK}\n${MARK}\n`,
  'Windows lines': `${MARK}\r\n${MARK}\r\n`,
  'a literal \\n': `${MARK}\\n${MARK}`,
  'in quotes': `"${MARK}"`,
  JSON: `{"token":"${MARK}"}`,
  'control characters': `${MARK}\u0001\u009b${MARK}`,
  'beyond latin1': `${MARK}\u2028\u{1f511}${MARK}`,
  'a header': `Bearer ${MARK}`,
  'a URL with it': `https://u:${MARK}@127.0.0.1:1/x?k=${MARK}`,
  'a URL that is none': `postgres://u:${MARK}@host:99999/x?k=${MARK}`,
  'a URL of something else': `amqp://u:${MARK}@127.0.0.1:1`,
  'a URL with a slash too few': `postgres:/u:${MARK}@127.0.0.1:1/x`,
  'a private key that is cut off': `-----BEGIN OPENSSH PRIVATE KEY-----\n${MARK}`,
  'a private key with something else inside': `-----BEGIN PRIVATE KEY-----\n${MARK}\n-----END PRIVATE KEY-----`,
  'a public key': `ssh-ed25519 ${MARK} me@${MARK}`,
  'a key of PuTTY': `PuTTY-User-Key-File-3: ssh-ed25519\nPrivate-Lines: 1\n${MARK}`,
  'more than fits': MARK.repeat(10_000),
};

const PROGRAMS = { server: SERVER_SETTINGS, client: CLIENT_SETTINGS } as const satisfies Record<string, Settings>;
const SECRETS = Object.entries(PROGRAMS).flatMap(([section, settings]) =>
  Object.entries<Setting<unknown>>(settings)
    .filter(([, { secret }]) => secret)
    .map(([key, setting]) => ({ section, key, setting })),
);

/** The text of everything in a value or an error. */
function textOf(value: unknown): string {
  if (value instanceof Error) return `${value.message} ${value.stack} ${textOf(value.cause)} ${JSON.stringify(value)}`;
  return typeof value === 'string' ? value : (JSON.stringify(value) ?? String(value));
}

function assertHidden(value: unknown, what: string): void {
  const text = textOf(value);
  const at = text.indexOf(MARK);
  const base64 = Buffer.from(`u:${MARK}`).toString('base64').slice(0, 16);
  assert(at === -1 && !text.includes(base64), `${what}: ...${text.slice(Math.max(0, at - 200), at + 100)}`);
}

function attempted(work: () => unknown): unknown {
  try {
    return work();
  } catch (error) {
    return error;
  }
}

/** Those of the secrets by their variables, that the program of each takes in this form. */
function taken(value: string): Record<string, string> {
  const fitting = SECRETS.filter(
    ({ key, setting }) =>
      !(attempted(() => readSettings({ [key]: setting }, { env: { [setting.env]: value } })) instanceof Error),
  );
  return Object.fromEntries(fitting.map(({ setting }) => [setting.env, value]));
}

describe('a secret setting', () => {
  it('is not shown by what reads it, in any form and on any way', async () => {
    assert(SECRETS.length >= 11, 'all secret settings are here');
    await using dir = await tempDir();
    const file = join(dir.path, 'file');
    for (const [form, value] of Object.entries(FORMS)) {
      await writeFile(file, Buffer.concat([Buffer.from(value), Buffer.from([0xff])]));
      for (const { section, key, setting } of SECRETS) {
        const settings: Settings = { [key]: setting };
        const json = JSON.stringify(value);
        const lines = [
          `${flagName(setting)}: ${json}`,
          `${secretFileFlag(setting)}: ${json}`,
          `${flagName(setting)}: ${value}`,
        ];
        const yaml = [
          ...lines,
          `${flagName(setting)}: [${json}]`,
          `${flagName(setting)}: *${MARK}`,
          `${flagName(setting)}: !${MARK} x`,
        ];
        const parsed = (line: string) =>
          parseConfigFile(`${section}:\n  ${line}\n`, '/x.yaml', { [section]: settings }).get(section);
        const ways: Record<string, () => Parameters<typeof readSettings>[1]> = {
          variable: () => ({ env: { [setting.env]: value } }),
          flag: () => ({ env: {}, flags: { [flagName(setting)]: value } }),
          'variable of a file': () => ({ env: { [secretFileEnv(setting.env)]: value } }),
          'flag of a file': () => ({ env: {}, flags: { [secretFileFlag(setting)]: value } }),
          'file that is no text': () => ({ env: { [secretFileEnv(setting.env)]: file } }),
          ...Object.fromEntries(
            yaml.map((line) => [`configuration file, ${line.slice(0, 60)}`, () => ({ env: {}, file: parsed(line) })]),
          ),
        };
        for (const [way, sources] of Object.entries(ways)) {
          const said = attempted(() => readSettings(settings, sources()));
          assertHidden(said, `${setting.env}, ${form}, ${way}`);
        }
        for (const given of [value, [value], { value }]) {
          assertHidden(
            attempted(() => settingValues(settings, { [key]: given })),
            `${key}, ${form}, by a program`,
          );
        }
      }
    }
  });

  it('is not shown by what prints all settings, or what is wrong with them', async () => {
    const printed = new Set<string>();
    for (const [form, value] of Object.entries(FORMS)) {
      const each = Object.keys(PROGRAMS).map((section) =>
        SECRETS.filter((secret) => secret.section === section).map(({ setting }) => [setting.env, value]),
      );
      for (const env of [...each.map((all) => Object.fromEntries(all)), taken(value)]) {
        const { code, stdout, stderr } = await runHere('policysync', ['config', 'print'], env);
        assertHidden(stdout + stderr, `${Object.keys(env)}, ${form}`);
        if (code === 0) for (const name of Object.keys(env)) printed.add(name);
      }
    }
    assert.deepEqual([...printed].sort(), [...new Set(SECRETS.map(({ setting }) => setting.env))].sort());
  });
});

describe('a secret in a place that is not for it', () => {
  const HUSH = 'hush-hush';

  it('is not shown with a flag that no command has', async () => {
    const flags = [`--tokn=${HUSH}`, `--token:${HUSH}`, `-zokn=${HUSH}`, `--tokn=it's '${HUSH}'`, `--tokn=a\n${HUSH}`];
    const commands = [
      'publish',
      'token',
      'status',
      'trace',
      'server',
      'client',
      'doctor server',
      'config print client',
    ];
    for (const flag of flags) {
      for (const command of commands) {
        const { code, stdout, stderr } = await runHere('policysync', [...command.split(' '), flag], {});
        assert.equal(code, 2, `${command} ${flag}`);
        assert.match(stderr, /unknown option '--?[tz]ok/);
        assert(!(stdout + stderr).includes(HUSH), `${command}: ${stderr}`);
      }
    }
  });

  it('is not printed as a public key, or as an address that is none', async () => {
    const pem = `-----BEGIN PRIVATE KEY-----\n${HUSH}\n-----END PRIVATE KEY-----`;
    const entry = { url: `http://u:${HUSH}@/x`, dst_path: '/x' };
    for (const env of [
      { SYNC_AUTH_PUBLIC_KEY: pem },
      { SYNC_AUTH_PUBLIC_KEY: pem.replaceAll(/\s/g, '_') },
      { SYNC_DATA_CONFIG_SOURCES: JSON.stringify({ config: { entries: [entry] } }) },
    ]) {
      const { stdout, stderr } = await runHere('policysync', ['config', 'print'], env);
      assert(!(stdout + stderr).includes(HUSH), Object.keys(env).join());
    }
  });
});

/** A server that repeats what it is told, wherever a response has room for it, and the credentials that it was sent. */
async function repeater() {
  const sent = new Set<string>();
  const server = createServer((request: IncomingMessage, response: ServerResponse) => {
    const told = request.headers.authorization ?? '';
    if (told !== '') sent.add(told);
    const isJson = /token|policies|data/.test(request.url ?? '');
    const reason = told.replaceAll(/[^\x20-\x7e]/g, '?') || 'No';
    response.writeHead(400, reason, { 'content-type': isJson ? 'application/json' : 'text/plain', 'x-told': reason });
    response.end(
      isJson ? JSON.stringify({ error: told, message: told, detail: told, code: told }) : `you said ${told}`,
    );
  });
  return { ...(await listening(server)), sent };
}

/** The texts that a program shows: what it logs, and what a caller without a token, or with any, may read. */
async function shownBy(url: string, paths: readonly string[], lines: readonly string[]): Promise<string> {
  const answers = await Promise.all(paths.map(async (path) => (await request(url + path)).text));
  return [...answers, ...lines].join('\n');
}

const SERVER_PATHS = [
  '/healthcheck',
  '/ready',
  '/policy',
  '/policy/source',
  '/policy/files',
  '/instances',
  '/statistics',
  '/metrics',
];
const CLIENT_PATHS = ['/healthy', '/healthcheck', '/ready', '/position', '/metrics', '/policy-store/config', '/'];

/** A private key that needs a passphrase, and none of the forms is it. */
const { privateKey: LOCKED_KEY } = generateKeyPairSync('ec', {
  namedCurve: 'P-256',
  publicKeyEncoding: { type: 'spki', format: 'pem' },
  privateKeyEncoding: { type: 'pkcs8', format: 'pem', cipher: 'aes-256-cbc', passphrase: 'another' },
});

describe('a program', { concurrency: 4 }, () => {
  for (const [form, value] of Object.entries(FORMS)) {
    it(`shows nothing of a secret that is ${form}`, async () => {
      await using peer = await repeater();
      const hidden = (text: unknown, what: string): void => {
        assertHidden(text, `${what}, ${form}`);
        for (const told of peer.sent) {
          const [, credentials = told] = told.split(' ');
          if (credentials.length >= 8) assert(!textOf(text).includes(credentials), `${what}, ${form}: ${textOf(text)}`);
        }
      };
      // What is refused as it is read never gets into a program.
      const usable = taken(value);
      const bundle = { SYNC_POLICY_SOURCE_TYPE: 'API', SYNC_POLICY_BUNDLE_URL: peer.url };
      const keys = { ...bundle, SYNC_POLICY_BUNDLE_SERVER_TYPE: 'AWS-S3' };
      const locked = { ...withKeys(), SYNC_AUTH_PRIVATE_KEY: LOCKED_KEY };
      const kinds: Record<string, readonly [env: Record<string, string>, secrets: readonly string[]]> = {
        'tokens and a webhook secret': [
          bundle,
          ['SYNC_POLICY_REPO_WEBHOOK_SECRET', 'SYNC_AUTH_MASTER_TOKEN', 'SYNC_POLICY_BUNDLE_SERVER_TOKEN'],
        ],
        'keys of S3': [keys, ['SYNC_POLICY_BUNDLE_SERVER_TOKEN', 'SYNC_POLICY_BUNDLE_SERVER_TOKEN_ID']],
        'ssh key': [{ SYNC_POLICY_REPO_URL: 'ssh://git@127.0.0.1:1/x' }, ['SYNC_POLICY_REPO_SSH_KEY']],
        'private key': [withKeys(), ['SYNC_AUTH_PRIVATE_KEY']],
        passphrase: [locked, ['SYNC_AUTH_PRIVATE_KEY_PASSPHRASE']],
        backbone: [{}, ['SYNC_BROADCAST_URI']],
      };
      for (const [kind, [plain, secrets]] of Object.entries(kinds)) {
        const given = secrets.filter((name) => Object.hasOwn(usable, name));
        if (given.length === 0) continue;
        const env = { ...plain, ...Object.fromEntries(given.map((name) => [name, value])) };
        const asksBundleServer = given.includes('SYNC_POLICY_BUNDLE_SERVER_TOKEN');
        const lines: string[] = [];
        const log = pino({ level: 'debug', base: null }, { write: (line) => void lines.push(line) });
        try {
          await using server = await startServer(env, { log });
          if (asksBundleServer) {
            await until(() => lines.some((line) => line.includes('bundle_server_failed')), {
              withinMs: 20_000,
              what: kind,
            });
          }
          await postJson(`${server.url}/webhook`, {}, { 'x-hub-signature-256': 'sha256=00' });
          await postJson(`${server.url}/token`, {}, { authorization: 'Bearer x' });
          hidden(await shownBy(server.url, SERVER_PATHS, lines), kind);
        } catch (error) {
          hidden(error, kind);
          hidden(lines, kind);
          assert.equal(field(error, 'code'), 'config_invalid', `${kind}, ${form}: ${error}`);
        }
      }
      const store = {
        SYNC_CLIENT_TOKEN: value,
        SYNC_POLICY_STORE_AUTH_TYPE: 'token',
        SYNC_POLICY_STORE_AUTH_TOKEN: value,
      };
      const oauth = {
        SYNC_POLICY_STORE_AUTH_TYPE: 'oauth',
        SYNC_POLICY_STORE_AUTH_OAUTH_SERVER: `${peer.url}/token`,
        SYNC_POLICY_STORE_AUTH_OAUTH_CLIENT_ID: 'id',
        SYNC_POLICY_STORE_AUTH_OAUTH_CLIENT_SECRET: value,
      };
      for (const [kind, env] of Object.entries({ 'tokens of a client': store, 'secret of OAuth': oauth })) {
        try {
          await using client = await startClient({ serverUrl: peer.url, engineUrl: peer.url, env });
          const fails = (health: unknown): boolean =>
            field(health, 'engine', 'error') !== null && field(health, 'server', 'error') !== null;
          await client.tells('it is refused', fails);
          const lines = client.log.map((line) => JSON.stringify(line));
          hidden(await shownBy(client.url, CLIENT_PATHS, lines), kind);
        } catch (error) {
          hidden(error, kind);
          assert.equal(field(error, 'code'), 'config_invalid', `${kind}, ${form}: ${error}`);
        }
      }
    });
  }
});

describe('a command', () => {
  it('shows nothing of its token, though the server repeats it', async () => {
    await using peer = await repeater();
    const url = ['--server-url', peer.url];
    for (const value of [MARK, `"${MARK}"`, `x ${MARK}`, `${MARK}\n`, `${MARK}\r\n${MARK}`]) {
      for (const args of [
        ['status', ...url, '--token', value],
        ['publish', ...url, '--token', value, '--topic', 't', '--data', '{}', '--dst-path', '/x'],
        ['clients', 'refresh', 'c', ...url, '--token', value],
        ['token', ...url, value],
        ['doctor', 'client', `--client-tokn=${value}`],
        ['server', `--auth-master-tokn=${value}`],
      ]) {
        const { code, stdout, stderr } = await runHere('policysync', args);
        assert.notEqual(code, 0, args.join(' '));
        assertHidden(`${stdout}${stderr}`, args.slice(0, -1).join(' '));
      }
    }
  });
});

describe('a backbone', () => {
  it('that repeats the password, as Redis does where AUTH has another name, is quoted without it', async () => {
    let scheme = '';
    const tcp = createTcpServer((socket) => {
      socket.on('error', () => undefined);
      socket.on('data', (data) => {
        // One for each command.
        for (const told of data.toString('latin1').split(/(?=\*\d+\r\n)/)) {
          const words = told.replaceAll(/[\r\n]+/g, ' ');
          socket.write(`-ERR unknown command, with args beginning with: ${words}\r\n`);
        }
      });
      if (scheme === 'nats') socket.write('INFO {}\r\n'); // it speaks first
    });
    tcp.listen(0, '127.0.0.1');
    await once(tcp, 'listening');
    const { port } = tcp.address() as AddressInfo;
    try {
      for (scheme of ['redis', 'postgres', 'nats']) {
        const uri = new Secret(`${scheme}://user:${encodeURIComponent(`${MARK}/x`)}@127.0.0.1:${port}/0`);
        const times = { ...BACKBONE_TIMES, connectMs: 500 };
        const error = await inspectBackbone({ uri, name: 'x', times }).catch((reason: unknown) => reason);
        assert(error instanceof Error, scheme);
        assertHidden(error, scheme);
        if (scheme === 'redis') assert.match(error.message, /unknown command.*\*\*\*/i);
      }
    } finally {
      tcp.close();
    }
  });
});
