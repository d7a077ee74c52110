import assert from 'node:assert/strict';
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { startCommand } from '../support/command.js';
import { field, postJson, request } from '../support/http.js';
import { programFile } from '../support/program-file.js';
import { startClient } from '../support/start-client.js';
import { tempDir } from '../support/temp-dir.js';
import { until } from '../support/until.js';

/** A server program whose disk takes no more: a limit on the size of its files stands for that, and `prlimit` makes room. */

const LISTENS = /"url":"(http:[^"]+)".*listening/;
/** Blocks of 512 or 1024 bytes. */
const BLOCKS = 1500;

interface LimitedServer extends AsyncDisposable {
  readonly url: string;
  /** From now on its files may grow. */
  makeRoom(): Promise<void>;
}

/** The server program with files that grow to {@link BLOCKS} at most. */
async function limitedServer(stateDir: string): Promise<LimitedServer> {
  const { PATH = '', HOME = '' } = process.env;
  const args = [process.execPath, programFile('server'), 'run', '--server-bind-port', '0', '--state-dir', stateDir];
  const child = spawn('sh', ['-c', `ulimit -S -f ${BLOCKS}; exec "$0" "$@"`, ...args], { env: { PATH, HOME } });
  const closed = once(child, 'close');
  let printed = '';
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    printed += text;
  });
  child.stdout.resume();
  const url = await until(() => LISTENS.exec(printed)?.[1], { withinMs: 20_000, what: 'the server listens' });
  return {
    url,
    makeRoom: async () => {
      await promisify(execFile)('prlimit', [`--pid=${child.pid}`, '--fsize=unlimited:']);
    },
    [Symbol.asyncDispose]: async () => {
      child.kill('SIGKILL');
      await closed;
    },
  };
}

function entry(path: string, data: unknown): object {
  return { url: '', topics: ['policy_data'], dst_path: path, data };
}

/** Wherever somebody may look, it is said that updates are refused, and from which size on; returns that. */
async function saysSo(url: string, stateDir: string): Promise<number | undefined> {
  const health = await request(`${url}/healthcheck`);
  assert.deepEqual([health.status, field(health.json, 'status')], [200, 'degraded']);
  const refusal = field(health.json, 'update_log', 'refuses') as { since: string; reason: string; from_bytes?: number };
  const { since, reason, from_bytes: from } = refusal;
  assert(Date.parse(since) > Date.now() - 60_000 && Date.parse(since) <= Date.now(), since);
  assert.match(reason, /full|disk/);
  assert(!health.text.includes(stateDir), 'no path is shown to everyone');
  const ready = await request(`${url}/ready`);
  assert.deepEqual([ready.status, field(ready.json, 'status')], [200, 'ok']);
  const limited = String(field(ready.json, 'limited'));
  assert.match(limited, /^updates (of [\d,]+ bytes and more )?are refused: /);
  assert(limited.endsWith(reason), limited);
  const metrics = (await request(`${url}/metrics`)).text;
  for (const name of ['policysync_log_up', 'policysync_log_writable'])
    assert.match(metrics, new RegExp(`^${name} 0$`, 'm'));
  const refuses = field((await request(`${url}/clients`)).json, 'log_refuses');
  assert.deepEqual([field(refuses, 'since'), field(refuses, 'reason')], [Date.parse(since), reason]);
  const instances = (await request(`${url}/instances`)).json;
  assert.equal(field(instances, 'instances', 0, 'state'), 'refuses_updates');
  return from;
}

test('a full disk: publishes are refused with 507, all else is served, and nothing that was answered 200 is lost', async () => {
  await using folder = await tempDir();
  let accepted = 0;
  {
    await using server = await limitedServer(folder.path);
    const env = { SYNC_POLICY_UPDATER_ENABLED: 'false' };
    await using client = await startClient({ serverUrl: server.url, env });
    const publish = (n: number) =>
      postJson(`${server.url}/data/config`, { entries: [entry(`/d${n}`, { n, filler: 'x'.repeat(50_000) })] });
    let refused = await publish(0);
    while (refused.status === 200 && accepted < 1000) refused = await publish(++accepted);
    assert.deepEqual([refused.status, refused.headers.get('x-sync-error')], [507, 'log_unwritable'], refused.text);
    assert(accepted > 1);

    const from = await saysSo(server.url, folder.path);
    assert(from === undefined || from > 50_000, `${from}`);

    const config = await request(`${server.url}/data/config`);
    assert.equal(config.status, 200);
    const entries = field(config.json, 'entries');
    assert(Array.isArray(entries));
    assert.equal(entries.length, accepted, 'what was refused is not there');
    assert.equal((await request(`${server.url}/data/updates`)).status, 200);
    assert.equal((await request(`${server.url}/data/log?limit=1`)).status, 200);
    assert.equal(field((await request(`${server.url}/clients`)).json, 'clients', 0, 'connected'), true);
    await until(async () => (await client.data(`/d${accepted - 1}`)) !== undefined, {
      withinMs: 15_000,
      what: 'the client has the last one',
    });
    assert.equal(await client.data(`/d${accepted}`), undefined, 'nobody is told of what was refused');
    await using late = await startClient({ serverUrl: server.url, env });
    await until(async () => (await late.data(`/d${accepted - 1}`)) !== undefined, {
      withinMs: 15_000,
      what: 'a newcomer has it, too',
    });
    assert.equal((await publish(accepted)).status, 507, 'still');
    await saysSo(server.url, folder.path);
  }
  {
    // Killed with a full disk: it starts again, knows at once, and serves what it has.
    await using server = await limitedServer(folder.path);
    await saysSo(server.url, folder.path);
    const entries = field((await request(`${server.url}/data/config`)).json, 'entries');
    assert(Array.isArray(entries));
    assert.equal(entries.length, accepted);
    const publish = (n: number) =>
      postJson(`${server.url}/data/config`, { entries: [entry(`/d${n}`, { n, filler: 'x'.repeat(50_000) })] });
    assert.equal((await publish(accepted)).status, 507);

    await server.makeRoom();
    await until(async () => field((await request(`${server.url}/healthcheck`)).json, 'status') === 'ok', {
      withinMs: 60_000,
      what: 'it is known without another publish',
    });
    assert.deepEqual((await request(`${server.url}/ready`)).json, { status: 'ok' });
    assert.match((await request(`${server.url}/metrics`)).text, /^policysync_log_up 1$/m);
    assert.equal((await publish(accepted)).status, 200);
    accepted++;
  }
  const args = ['run', '--server-bind-port', '0', '--state-dir', folder.path];
  await using command = startCommand('server', args);
  const [, url = ''] = await command.says(LISTENS);
  const answer = await postJson(`${url}/data/config`, { entries: [entry('/room', 1)] });
  assert.equal(answer.status, 200, answer.text);
  const config = await request(`${url}/data/config`);
  const entries = field(config.json, 'entries');
  assert(Array.isArray(entries));
  assert.equal(entries.length, accepted + 1);
});
