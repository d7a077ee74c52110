import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { text } from 'node:stream/consumers';
import { after, before, describe, it } from 'node:test';
import { bearer, MASTER_TOKEN, tokenOf, withKeys } from '../support/auth.js';
import { type CommandResult, runCommand, startCommand } from '../support/command.js';
import { startFakeOpal } from '../support/fake-opal.js';
import { field, postJson } from '../support/http.js';
import { listening } from '../support/http-server.js';
import { programFile } from '../support/program-file.js';
import { runHere } from '../support/run-here.js';
import { type StartedPeer, startPeer } from '../support/start-peer.js';
import { type StartedServer, startServer } from '../support/start-server.js';
import { until } from '../support/until.js';

/** What looks at a running server: `clients`, `log`, `refresh` and `status --watch`, on one server with authentication. */

const ESC = '\u001b';
let server: StartedServer;
let peer: StartedPeer;
let env: Record<string, string>;
let publisher: Record<string, string>;

function policysync(...args: string[]): Promise<CommandResult> {
  return runHere('policysync', args, env);
}

async function publish(dst_path: string, more: object = {}, reason = ''): Promise<void> {
  const entry = { url: 'http://127.0.0.1:9/data', topics: ['policy_data'], dst_path, ...more };
  const answer = await postJson(`${server.url}/data/config`, { entries: [entry], reason }, publisher);
  assert.equal(answer.status, 200, answer.text);
}

describe('commands that look at a running server', () => {
  before(async () => {
    server = await startServer(withKeys());
    const token = await tokenOf(server.url, { type: 'datasource' });
    publisher = bearer(token);
    env = { SYNC_SERVER_URL: server.url, SYNC_CLIENT_TOKEN: token };
    const ofClient = await tokenOf(server.url, { type: 'client' });
    peer = await startPeer(server.url, { 'x-sync-protocol': '2', ...bearer(ofClient) });
    await peer.call('subscribe', { topics: ['policy_data', 'policy:.'], client_id: 'shop-1' });
  });
  after(async () => {
    await peer[Symbol.asyncDispose]();
    await server[Symbol.asyncDispose]();
  });

  describe('policysync clients', () => {
    it('lists who is connected, as a table or as JSON', async () => {
      const { code, stdout, stderr } = await policysync('clients');
      assert.equal(code, 0, stderr);
      assert.match(
        stdout,
        /^1 client\n\nCLIENT +STATE +CONNECTED +ADDRESS +SERVER +SUBJECT +ENGINE +TOPICS\nshop-1 +new .* 127\.0\.0\.1:\d+ .* 1 of policy, policy_data\n$/,
      );
      const json = JSON.parse((await policysync('clients', '--json')).stdout) as object;
      assert.deepEqual([field(json, 'clients', 0, 'client_id'), field(json, 'total')], ['shop-1', 1]);
    });

    it('--only chooses by condition, in both forms', async () => {
      assert.equal((await policysync('clients', '--only', 'away')).stdout, '0 clients of 1\n');
      const json = JSON.parse((await policysync('clients', '--only', 'away,behind', '--json')).stdout) as object;
      assert.deepEqual(field(json, 'clients'), []);
      const wrong = await policysync('clients', '--only', 'sick');
      assert.deepEqual([wrong.code, /--only takes unhealthy, behind, away/.test(wrong.stderr)], [2, true]);
    });
  });

  describe('policysync log and refresh', () => {
    it('shows what was published, the newest last, with filters', async () => {
      await publish('/users', { url: '', data: { a: 1 } }, 'first');
      await publish('/roles', {}, 'second');
      const { code, stdout, stderr } = await policysync('log');
      assert.equal(code, 0, stderr);
      const [header = '', ...lines] = stdout.trimEnd().split('\n');
      assert.match(header, /^SEQ +TIME +PUBLISHER +CHANGE +TOPICS +REASON$/);
      assert.match(
        lines.at(-2) ?? '',
        /^\d+ +\d{4}-\d\d-\d\d \d\d:\d\d:\d\d +\S+ +PUT \/users \(7 bytes\) +policy_data +first$/,
      );
      assert.match(lines.at(-1) ?? '', /PUT \/roles from http:\/\/127\.0\.0\.1:9\/data +policy_data +second$/);

      const shown = async (...args: string[]): Promise<unknown[]> => {
        const json = JSON.parse((await policysync('log', '--json', ...args)).stdout) as object;
        return (field(json, 'updates') as object[]).map((update) => field(update, 'reason'));
      };
      assert.deepEqual(await shown(), ['second', 'first'], 'JSON is as the server has it');
      assert.deepEqual(await shown('--limit', '1'), ['second']);
      assert.deepEqual(await shown('--path', '/users'), ['first']);
      assert.deepEqual(await shown('--topic', 'other'), []);
      assert.deepEqual(await shown('--since', '2h'), ['second', 'first']);
      assert.deepEqual(await shown('--until', '2h'), []);
      for (const [args, says] of [
        [['--since', 'yesterday'], /--since takes a time such as .* \(is "yesterday"\)/],
        [['--limit', '0'], /--limit must be a whole number/],
        [['--follow', '--until', '1h'], /without --until/],
      ] as const) {
        const wrong = await policysync('log', ...args);
        assert.equal(wrong.code, 2, args.join(' '));
        assert.match(wrong.stderr, says);
      }
      assert.match((await policysync('log', '--topic', 'other')).stdout, /^No data update is in the log, or none/);
    });

    it('--follow goes on with what comes, and ends with 0 when it is stopped', async () => {
      await using lines = startCommand('policysync', ['log', '--follow', '--limit', '1', '--topic', 'followed'], env);
      await using json = startCommand('policysync', ['log', '-f', '--json', '--topic', 'followed'], env);
      await until(() => lines.stdout().includes('SEQ'), { withinMs: 15_000, what: 'the header' });
      await publish('/followed', { topics: ['followed'] }, 'one');
      await publish('/other', {}, 'not followed');
      await publish('/followed', { topics: ['followed'] }, 'two');
      for (const command of [lines, json])
        await until(() => /one[\s\S]*two/.test(command.stdout()), { withinMs: 15_000, what: 'both updates' });
      assert.doesNotMatch(lines.stdout(), /not followed/);
      const parsed = json
        .stdout()
        .trimEnd()
        .split('\n')
        .map((line) => JSON.parse(line) as object);
      assert.deepEqual(
        parsed.map((update) => field(update, 'reason')),
        ['one', 'two'],
      );
      lines.process.kill('SIGTERM');
      json.process.stdout.destroy(); // as `| head` does
      await publish('/followed', { topics: ['followed'] }, 'three');
      assert.deepEqual([(await lines.result).code, (await json.result).code], [0, 0]);
    });

    it('refresh publishes again what has a URL, and says when there is nothing', async () => {
      const { code, stdout, stderr } = await policysync('refresh', '--path', '/roles', '--reason', 'repaired');
      assert.equal(code, 0, stderr);
      assert.match(
        stdout,
        /^Published 1 entry again as update \S+, seq \d+: .*; 1 subscriber is connected for these topics now\.\n$/,
      );
      const last = await policysync('log', '--limit', '1');
      assert.match(last.stdout, /PUT \/roles .* repaired\n$/);
      const json = await policysync('refresh', '-t', 'policy_data', '--path', '/roles', '--json');
      assert.equal(field(JSON.parse(json.stdout), 'entries'), 1);
      assert.match((await policysync('refresh', '--path', '/nothing/here')).stdout, /^Nothing to fetch again/);
      const wrong = await policysync('refresh');
      assert.deepEqual([wrong.code, /--path .* or --topic/.test(wrong.stderr)], [2, true]);
    });
  });

  describe('an OPAL server', () => {
    it('is recognised by what it does not have, and what can be used instead is said', async () => {
      await using opal = await startFakeOpal();
      const env = { SYNC_SERVER_URL: opal.url };
      for (const [args, what] of [
        [['status'], /\/clients answered 404: this is an OPAL server, which does not have this/],
        [['clients'], /this is an OPAL server/],
        [['log'], /\/data\/log\S* answered 404: this is an OPAL server/],
        [['trace', '7'], /\/trace\/7 answered 404: this is an OPAL server/],
        [['refresh', '--path', '/'], /not refreshed: .* this is an OPAL server/],
        [
          ['publish', '--dst-path', '/a', '--data', '1', '--wait'],
          /published, but an OPAL server does not tell what its clients have applied/,
        ],
      ] as const) {
        const { code, stderr } = await runHere('policysync', args, env);
        assert.equal(code, 1, stderr);
        assert.match(stderr, what);
        assert.match(stderr, /What to do: .*`publish` without --wait.*\[opal_server\]$/m);
      }
      // Of our server a path too much is no OPAL server.
      const wrong = await runHere('policysync', ['clients', '--server-url', `${server.url}/api`]);
      assert.match(wrong.stderr, /answered 404: the sync server has nothing there: .*a path too much/);
    });
  });

  it('what answers in place of a sync server is shown', async () => {
    await using page = await listening(
      createServer((_, response) => response.end('<html><head><title>Sign in</title></head></html>')),
    );
    const { code, stderr } = await runHere('policysync', ['clients', '--server-url', page.url]);
    assert.equal(code, 1);
    assert.match(stderr, /answers, but not as a sync server does: Sign in\n/);
  });

  describe('a token that does not do', () => {
    it('is answered with its type and the one that is needed, or with what it is instead', async () => {
      const client = await tokenOf(server.url, { type: 'client' });
      for (const [args, token, says] of [
        [
          ['publish', '--dst-path', '/a', '--data', '1'],
          client,
          /nothing was sent: the token of SYNC_CLIENT_TOKEN is of type client, and this needs one of type datasource\n.* `policysync token --type/,
        ],
        [
          ['refresh', '--path', '/'],
          client,
          /nothing was sent: .* is of type client, and this needs one of type datasource/,
        ],
        [['clients'], client, /the token is of type client, and this needs one of type datasource or listener \(/],
        [
          ['log'],
          await tokenOf(server.url, { type: 'listener' }),
          /of type listener, and this needs one of type datasource/,
        ],
        [['clients'], MASTER_TOKEN, /perhaps it is the master token, for which `policysync token` issues one/],
        [['clients'], undefined, /\(no token was sent\)/],
      ] as const) {
        const { code, stderr } = await runHere('policysync', args, {
          SYNC_SERVER_URL: server.url,
          ...(token !== undefined && { SYNC_CLIENT_TOKEN: token }),
        });
        assert.equal(code, 1, stderr);
        assert.match(stderr, says);
        assert.match(stderr, /\[token_refused\]$/m);
        if (token !== undefined) assert(!stderr.includes(token));
      }
    });

    it('an empty flag is an error that names it', async () => {
      for (const [args, flag] of [
        [['log', '--path', ''], '--path'],
        [['publish', '--dst-path', '/a', '--data', '1', '-t', ''], '--topic'],
        [['clients', '--token', ''], '--token'],
        [['keys', '--out', ''], '--out'],
        [['token', 'master', '--permitted-topics', ''], '--permitted-topics'],
        [['token', 'master', '--permitted-topics', 'a', '--permitted-paths', ','], '--permitted-paths'],
      ] as const) {
        const { code, stderr } = await policysync(...args);
        assert.equal(code, 2, stderr);
        assert.match(stderr, new RegExp(`${flag} has an empty value: give one, or leave it out`));
      }
    });
  });

  describe('policysync publish --json', () => {
    it('prints the response of the server alone', async () => {
      const args = ['publish', '--json', '--dst-path', '/json', '--data', '1'];
      const { stdout } = await policysync(...args);
      assert.deepEqual(
        [field(JSON.parse(stdout), 'status'), typeof field(JSON.parse(stdout), 'seq')],
        ['ok', 'number'],
      );
      const waited = await policysync(...args, '--wait', '0.1');
      assert.equal(waited.code, 1);
      assert.deepEqual(field(JSON.parse(waited.stdout), 'applied'), 0);
      assert.match(waited.stderr, /not applied everywhere within 0\.1 s:\n {2}shop-1: /);
    });
  });

  describe('colours', () => {
    it('are for terminals, and NO_COLOR turns them off', async () => {
      const { PATH = '', HOME = '' } = process.env;
      const help = `exec '${process.execPath}' '${programFile('policysync')}' --help`;
      const onTerminal = async (more: Record<string, string>): Promise<string> => {
        const terminal = spawn('script', ['-qec', help, '/dev/null'], {
          env: { PATH, HOME, TERM: 'xterm-256color', ...more },
        });
        return text(terminal.stdout);
      };
      const [coloured, plain, piped] = await Promise.all([
        onTerminal({}),
        onTerminal({ NO_COLOR: '1' }),
        runCommand('policysync', ['--help']),
      ]);
      assert(coloured.includes(`${ESC}[1mUsage:`), coloured);
      for (const shown of [plain, piped.stdout]) assert(!shown.includes(ESC) && shown.includes('Usage:'), shown);
    });
  });

  describe('policysync status --watch', () => {
    it('prints a block for each change where there is no terminal, and one line of JSON with --json', async () => {
      await using blocks = startCommand('policysync', ['status', '--watch'], env);
      await using json = startCommand('policysync', ['status', '--watch', '--json'], env);
      for (const command of [blocks, json])
        await until(() => command.stdout().includes('shop-1'), { withinMs: 15_000, what: 'a look' });
      await using second = await startPeer(server.url, {
        'x-sync-protocol': '2',
        ...bearer(await tokenOf(server.url)),
      });
      await second.call('subscribe', { topics: ['policy_data'], client_id: 'shop-2' });
      for (const command of [blocks, json])
        await until(() => command.stdout().includes('shop-2'), { withinMs: 15_000, what: 'a second look' });
      for (const command of [blocks, json]) command.process.kill('SIGINT');
      assert.deepEqual([(await blocks.result).code, (await json.result).code], [0, 0]);
      const times = blocks.stdout().match(/^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC$/gm) ?? [];
      assert.equal(times.length, 2, blocks.stdout());
      assert(!blocks.stdout().includes(ESC));
      const documents = json
        .stdout()
        .trimEnd()
        .split('\n')
        .map((line) => JSON.parse(line) as object);
      assert.equal(documents.length, 2);
      assert.equal(field(documents.at(-1), 'clients', 1, 'client_id'), 'shop-2');
    });

    it('redraws one screen of a terminal, leaves no lines behind but the last, and ends with 0 by Ctrl-C', async () => {
      const command = `stty rows 24 cols 70 && exec '${process.execPath}' '${programFile('policysync')}' status --watch`;
      const { PATH = '', HOME = '' } = process.env;
      // A terminal of its own, from util-linux, which every Linux has.
      const terminal = spawn('script', ['-qec', command, '/dev/null'], { env: { PATH, HOME, TERM: 'xterm', ...env } });
      let shown = '';
      terminal.stdout.on('data', (part) => {
        shown += part;
      });
      const ended = once(terminal, 'close');
      try {
        await until(() => shown.includes('shop-1') && shown.split(`${ESC}[H`).length > 2, {
          ...{ withinMs: 20_000 },
          what: 'frames',
        });
        terminal.stdin.write('\u0003');
        const [code] = await ended;
        assert.equal(code, 0, shown);
      } finally {
        terminal.kill('SIGKILL');
      }
      const [inside = '', behind = ''] = (shown.split(`${ESC}[?1049h`)[1] ?? '').split(`${ESC}[?1049l`);
      const frames = inside.split(`${ESC}[H`).slice(1);
      assert(frames.length >= 2);
      for (const frame of frames) assert((frame.match(/\n/g) ?? []).length < 24, 'a frame never scrolls');
      assert.match(
        frames.at(-1) ?? '',
        /Live from http:\S+, \d\d:\d\d:\d\d UTC[\s\S]*Data {4}[\s\S]*CLIENT[\s\S]*shop-1/,
      );
      for (const clear of ['[2J', '[3J'])
        assert(!shown.includes(`${ESC}${clear}`), 'the screen is never pushed into the scrollback');
      assert.equal((behind.match(/CLIENT +POLICY/g) ?? []).length, 1, 'what it showed last stays');
      const colours = new RegExp(`${ESC}\\[\\d+m`, 'g');
      for (const line of behind.split(/\r?\n/)) assert(line.replace(colours, '').length <= 70, line);
    });
  });
});
