import assert from 'node:assert/strict';
import { readFile, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { isDeepStrictEqual } from 'node:util';
import { pino } from 'pino';
import { backboneOffer } from '../support/backbone-servers.js';
import { startCommand } from '../support/command.js';
import { fleetPeer } from '../support/fleet-peer.js';
import { fleetStream } from '../support/fleet-stream.js';
import { type Answer, field, postJson, request } from '../support/http.js';
import { startInstance } from '../support/instance.js';
import { startServer } from '../support/start-server.js';
import { tempDir } from '../support/temp-dir.js';
import { until } from '../support/until.js';

/** What a server says of its clients after it was stopped, or killed, and started again. */

const LISTENS = /"url":"(http:[^"]+)".*listening/;
const redis = await backboneOffer('Redis');
const WITHIN = { withinMs: 20_000 };

/** A server on a state folder, and its end. */
interface Life extends AsyncDisposable {
  readonly url: string;
  end(): Promise<void>;
}

const LIVES: Readonly<Record<'SIGKILL' | 'a stop', (stateDir: string) => Promise<Life>>> = {
  SIGKILL: async (stateDir) => {
    const command = startCommand('server', ['run', '--server-bind-port', '0', '--state-dir', stateDir]);
    const [, url = ''] = await command.says(LISTENS);
    const end = async (): Promise<void> => command[Symbol.asyncDispose]();
    return { url, end, [Symbol.asyncDispose]: end };
  },
  'a stop': async (stateDir) => {
    const server = await startServer({}, { stateDir });
    return { ...server, end: () => server.stop() };
  },
};

interface Listed {
  readonly incomplete: unknown;
  /** Each client: whether it is connected, why not, and the labels that it has. */
  readonly clients: Record<string, unknown>;
}

async function listed(url: string): Promise<Listed> {
  const { json, text } = await request(`${url}/clients`);
  const clients = field(json, 'clients');
  assert(Array.isArray(clients), text);
  const shown = clients.map((one): [string, unknown] => [
    String(field(one, 'client_id')),
    field(one, 'connected') === true ? 'here' : (field(one, 'away_reason') ?? 'away'),
  ]);
  return { incomplete: field(json, 'incomplete'), clients: Object.fromEntries(shown) };
}

/** Waits until the state folder has this text of the clients. */
async function stored(stateDir: string, pattern: RegExp): Promise<void> {
  const text = (): Promise<string> => readFile(join(stateDir, 'clients.jsonl'), 'utf8').catch(() => '');
  await until(async () => pattern.test(await text()), { ...WITHIN, what: `the clients are stored: ${pattern}` });
}

const BROKE = 'its connection broke: its program was killed, or the network failed';
const STOPPED = 'its server stopped';

// They wait for what is stored, which is gathered for a second.
describe('clients of a server that starts again', { concurrency: true }, () => {
  for (const [end, live] of Object.entries(LIVES)) {
    it(`after ${end} and a start, who does not come back is away and the answer is no`, async () => {
      await using folder = await tempDir();
      await using first = await live(folder.path);
      assert.deepEqual(
        await listed(first.url),
        { incomplete: null, clients: {} },
        'nobody is expected at a new server',
      );
      {
        const more = { labels: { app: 'billing' } };
        await using a = await fleetPeer(first.url, 'a', { more });
        await using b = await fleetPeer(first.url, 'b');
        await using killed = await fleetPeer(first.url, 'killed');
        for (const one of [a, b, killed]) one.holds('f'.repeat(40));
        await stored(folder.path, /"a".*"b".*"killed"/s);
        killed.socket.terminate();
        await until(async () => (await listed(first.url)).clients.killed === BROKE, { ...WITHIN, what: 'one is away' });
        await stored(folder.path, /"awayReason":"its connection broke/);
        await first.end();
      }
      assert.equal((await stat(join(folder.path, 'clients.jsonl'))).mode & 0o077, 0, 'only its user reads it');

      await using second = await startServer({}, { stateDir: folder.path });
      const before = await listed(second.url);
      assert.deepEqual(before.clients, { a: STOPPED, b: STOPPED, killed: BROKE });
      assert.match(String(before.incomplete), /^this server started \d+ s ago: clients are still coming back$/);
      await using stream = await fleetStream(second.url);
      await stream.sees('that clients are coming back', ({ fleet: { summary } }) => {
        return summary.total === 3 && /^this server started \d+ s ago/.test(summary.incomplete ?? '');
      });
      assert.equal(stream.rows.get('killed')?.error?.text, BROKE);
      await using _a = await fleetPeer(second.url, 'a');
      assert.notEqual((await listed(second.url)).incomplete, null, 'one is still missing');
      await using _b = await fleetPeer(second.url, 'b');
      assert.deepEqual(await listed(second.url), {
        incomplete: null,
        clients: { a: 'here', b: 'here', killed: BROKE },
      });
    });
  }

  it('who came, or subscribed to more, the moment before a crash is expected, and no wait counts without it', async () => {
    await using folder = await tempDir();
    await using first = await LIVES.SIGKILL(folder.path);
    await using _early = await fleetPeer(first.url, 'early');
    await stored(folder.path, /"early"/);
    await using late = await fleetPeer(first.url, 'late', { topics: ['other'] });
    await late.subscribe(['policy_data']);
    await first.end();

    await using second = await startServer({}, { stateDir: folder.path });
    const { clients, incomplete } = await listed(second.url);
    assert.deepEqual(clients, { early: STOPPED, late: STOPPED });
    assert.match(String(incomplete), /clients are still coming back$/);
    await using early = await fleetPeer(second.url, 'early');
    const entries = [{ url: '', topics: ['policy_data'], dst_path: '/n', data: 1 }];
    const publish = (timeout: string): Promise<Answer> =>
      postJson(`${second.url}/data/config?wait=applied&timeout=${timeout}`, { entries });
    early.holds(null, 1);
    assert.equal((await publish('1s')).status, 202, 'the other one is missing');
    await using back = await fleetPeer(second.url, 'late', { topics: ['other', 'policy_data'] });
    back.holds(null, 2);
    early.holds(null, 2);
    assert.equal((await publish('100ms')).status, 202, 'the last update is not theirs yet');
  });

  it('a damaged file of clients is a warning, and the server starts without it', async () => {
    await using folder = await tempDir();
    await writeFile(
      join(folder.path, 'clients.jsonl'),
      '{"version":1,"instance":"i","atMs":1,"epoch":"e","seen":0}\n{"clients":\n',
    );
    const lines: string[] = [];
    const log = pino({ level: 'warn' }, { write: (line) => void lines.push(line) });
    await using server = await startServer({}, { stateDir: folder.path, log });
    assert.match(lines.join(''), /cannot read which clients were here/);
    assert.deepEqual(await listed(server.url), { incomplete: null, clients: {} });
    await using _ = await fleetPeer(server.url, 'a');
    await stored(folder.path, /"a"/);
  });

  it('who left longer ago than clients stay listed is not known after a start, but expected for a while', async () => {
    await using folder = await tempDir();
    await using first = await startServer({}, { stateDir: folder.path });
    await using _a = await fleetPeer(first.url, 'a');
    await stored(folder.path, /"a"/);
    const path = join(folder.path, 'clients.jsonl');
    const left = await readFile(path, 'utf8');
    await first.stop();
    // As a server leaves it that was killed long ago.
    await writeFile(path, left.replaceAll(/"(atMs|connectedAtMs)":\d+/g, '"$1":1'));
    await using second = await startServer({}, { stateDir: folder.path });
    const { incomplete, clients } = await listed(second.url);
    assert.deepEqual(clients, {});
    assert.match(String(incomplete), /clients are still coming back$/);
  });

  it('beside another instance: who is cut off is away at once, who moved is listed once', {
    skip: redis.missing ?? false,
  }, async () => {
    await using backbone = await redis.start();
    const env = { SYNC_BROADCAST_URI: backbone.uri };
    await using one = await startServer(env);
    await using other = await startInstance(env);
    await using _moves = await fleetPeer(other.url, 'moves');
    await using _stays = await fleetPeer(other.url, 'stays');
    const shows = (url: string, clients: object): Promise<unknown> =>
      until(async () => isDeepStrictEqual((await listed(url)).clients, clients), {
        ...WITHIN,
        what: `${url} lists ${JSON.stringify(clients)}`,
      });
    await shows(one.url, { moves: 'here', stays: 'here' });
    await stored(other.stateDir, /"moves".*"stays"/s);
    await other.kill();
    await using again = await startServer(env, { stateDir: other.stateDir });
    // Its former self said a moment ago that they are connected to it.
    const { clients, incomplete } = await listed(again.url);
    assert.deepEqual(clients, { moves: STOPPED, stays: STOPPED });
    assert.match(String(incomplete), /clients are still coming back$/);
    await shows(one.url, { moves: STOPPED, stays: STOPPED });
    await using _moved = await fleetPeer(one.url, 'moves');
    for (const { url } of [one, again]) await shows(url, { moves: 'here', stays: STOPPED });
  });
});
