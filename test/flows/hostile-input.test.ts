import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { connect } from 'node:net';
import { join } from 'node:path';
import { after, before, describe, it, test } from 'node:test';
import fc from 'fast-check';
import { WebSocket } from 'ws';
import { SyncError } from '../../src/lib/errors.js';
import { archiveFiles } from '../../src/server/policy/source/archive.js';
import { BAD_ARCHIVES, TEST_LIMITS, tarGz } from '../support/archive.js';
import { bearer } from '../support/auth.js';
import { damagedArchives, EVIL_ENTRIES } from '../support/hostile-archives.js';
import { BAD_CALLS, BAD_ENTRIES, BAD_MESSAGES } from '../support/hostile-calls.js';
import { BROKEN_FRAMES, badUpgrades } from '../support/hostile-frames.js';
import { type HostileCase, hostileCases, type Operation, operations } from '../support/hostile-requests.js';
import { badSignatures, WEBHOOK_PAYLOADS } from '../support/hostile-webhooks.js';
import { exchange, type RawAnswer, requestBytes, upgradeBytes } from '../support/hostile-wire.js';
import { type HostileWorld, maySeeSecrets, startHostileWorld } from '../support/hostile-world.js';
import { field, postJson, request } from '../support/http.js';
import { type StartedPeer, startPeer } from '../support/start-peer.js';
import { tempDir } from '../support/temp-dir.js';
import { patience } from '../support/until.js';

/**
 * Nobody who can reach a port may bring a program down, change what engines hold, or learn a secret. Requests are generated
 * from what the running programs say of themselves, so that a new route is tried without a line here. SYNC_TEST_SEED takes
 * the seed that a failure names.
 */

const SEED = Number(process.env.SYNC_TEST_SEED ?? 20_260_401);
/** Sampled requests per route, beside those for each field of its body. */
const PER_ROUTE = 25;
/** Connections at one time. */
const AT_ONCE = 8;

describe('hostile input', () => {
  let world: HostileWorld;
  let stateBefore: Readonly<Record<string, string>>;
  let subscriber: StartedPeer;
  let sent = 0;
  const statuses = new Set<number>();
  const strays: unknown[] = [];
  const onStray = (error: unknown): void => void strays.push(error);

  before(async () => {
    process.on('unhandledRejection', onStray);
    process.on('uncaughtExceptionMonitor', onStray);
    world = await startHostileWorld();
    subscriber = await startPeer(world.server.url, bearer(world.tokens.client));
    assert.equal(await subscriber.call('subscribe', { topics: ['policy_data'] }), true);
    stateBefore = await world.state();
  });
  after(async () => {
    process.off('unhandledRejection', onStray);
    process.off('uncaughtExceptionMonitor', onStray);
    await subscriber?.[Symbol.asyncDispose]();
    await world?.[Symbol.asyncDispose]();
  });

  for (const program of ['server', 'client'] as const) {
    it(`${program}: several hundred bad requests, to every route, are refused or mean nothing, and show no secret`, async () => {
      const { url } = world[program];
      const all = operations((await request(`${url}/openapi.json`)).json);
      assert(all.length >= 10, `${all.length} routes`);
      const cases = all.flatMap((operation, index) =>
        hostileCases(operation, all, world.credentials, { seed: SEED + index, count: PER_ROUTE }),
      );
      assert(cases.length >= 200, `${cases.length} requests`);
      const problems: string[] = [];
      await inParallel(cases, async (one) => {
        const answer = await exchange(world.portOf(url), requestBytes(one.request));
        problems.push(...wrongWith(one, answer, all).map((problem) => `${one.name}: ${problem}`));
      });
      assert(problems.length === 0, `SYNC_TEST_SEED=${SEED}\n${problems.slice(0, 10).join('\n')}`);
      sent += cases.length;
    });
  }

  /** What is wrong with an answer. */
  function wrongWith(
    { must, names, mayCut, request: asked }: HostileCase,
    answer: RawAnswer,
    all: readonly Operation[],
  ): string[] {
    const { status, text } = answer;
    statuses.add(status);
    const shown = (): string =>
      `${status}, ${JSON.stringify(text.slice(-300))}, asked with ${JSON.stringify(
        requestBytes(asked).toString('latin1', 0, 300),
      )}`;
    const problems: string[] = [];
    const isCut = status === 0 && mayCut === true;
    const isRefusal = (status >= 400 && status < 500) || isCut;
    const isDocumented = status >= 500 && all.some(({ statuses }) => statuses.includes(status));
    if (must === 'refuse' && !isRefusal) problems.push(`is not refused: ${shown()}`);
    if ((status === 0 || status >= 500) && !isCut && !isDocumented) problems.push(`fails: ${shown()}`);
    if (text.includes('Uncaught')) problems.push(`is an uncaught exception: ${shown()}`);
    if (must === 'refuse' && status === 422 && names !== undefined && !namesPlace(text, names))
      problems.push(`does not name it: ${shown()}`);
    if (!maySeeSecrets(asked, answer)) {
      for (const secret of world.leaks(text)) problems.push(`shows ${secret}: ${shown()}`);
    }
    for (const [name, value] of asked.headers) {
      // What somebody tried as a token may be the right one for somewhere else.
      if (name !== 'Authorization' || value.length < 20) continue;
      if (text.includes(value.slice(-20))) problems.push(`repeats what was presented: ${shown()}`);
    }
    if (/\r\nx-injected/i.test(text)) problems.push(`has a header that the request asked for: ${shown()}`);
    return problems;
  }

  it('a webhook that is not signed, wrongly signed, or signed and hostile has nothing fetched and changes nothing', async () => {
    const post = (body: Buffer, headers: readonly (readonly [string, string])[]) =>
      exchange(
        world.portOf(world.server.url),
        requestBytes({ method: 'POST', target: '/webhook', headers: [['X-GitHub-Event', 'push'], ...headers], body }),
      );
    const push = Buffer.from(JSON.stringify({ ref: 'refs/heads/master', repository: { full_name: 'x/repo' } }));
    const [name, good] = world.signature(push);
    const signatures = badSignatures(good);
    for (const value of signatures) {
      const startedMs = performance.now();
      const answer = await post(push, value === '' ? [] : [[name, value]]);
      assert.equal(answer.status, 401, value.slice(0, 100));
      assert.deepEqual(world.leaks(answer.text), []);
      assert(!answer.text.includes(good), 'the right signature is not told');
      assert(performance.now() - startedMs < 1000 * patience(), `${value.slice(0, 20)} took long`);
    }
    for (const payload of WEBHOOK_PAYLOADS) {
      const body = Buffer.from(payload);
      const answer = await post(body, [world.signature(body)]);
      assert(answer.status >= 200 && answer.status < 500, `${payload.slice(0, 100)}: ${answer.status} ${answer.text}`);
      assert.deepEqual(world.leaks(answer.text), []);
    }
    const random = fc.sample(fc.json({ maxDepth: 6 }), { seed: SEED, numRuns: 100 });
    await inParallel(random, async (payload) => {
      const body = Buffer.from(payload);
      const { status, text } = await post(body, [world.signature(body)]);
      assert(status >= 200 && status < 500, `SYNC_TEST_SEED=${SEED} ${payload}: ${status} ${text}`);
    });
    sent += signatures.length + WEBHOOK_PAYLOADS.length + random.length;
  });

  it('bad upgrades are answered with a 4xx', async () => {
    const upgrades = badUpgrades(world.tokens.client, world.credentials.bad);
    await Promise.all(
      Object.entries(upgrades).map(async ([name, [bytes, status]]) => {
        // Whoever is done sending is not held back.
        const answer = await exchange(world.portOf(world.server.url), bytes, { finish: true });
        assert(status.includes(answer.status), `${name}: ${answer.text}`);
        assert.deepEqual(world.leaks(answer.text), [], name);
      }),
    );
    sent += Object.keys(upgrades).length;
  });

  /** Opens a socket as a `datasource`, sends what `frames` gives in one go, and waits for its end. */
  async function sendFrames(frames: Buffer, headers = bearer(world.tokens.datasource)): Promise<RawAnswer> {
    const bytes = Buffer.concat([upgradeBytes([['Authorization', headers.authorization]]), frames]);
    return exchange(world.portOf(world.server.url), bytes, { finish: true });
  }

  it('broken frames end the connection that sent them, and no other', async () => {
    const random = fc.sample(fc.uint8Array({ minLength: 1, maxLength: 300 }), { seed: SEED, numRuns: 60 });
    const all = [
      ...Object.entries(BROKEN_FRAMES),
      ...random.map((bytes) => [`bytes ${Buffer.from(bytes).toString('hex')}`, bytes] as const),
    ];
    await inParallel(all, async ([name, frames]) => {
      const answer = await sendFrames(Buffer.from(frames));
      assert.equal(answer.status, 101, name);
      assert.deepEqual(world.leaks(answer.text), [], name);
    });
    sent += all.length;
    assert.equal(await subscriber.call('_ping_', {}), 'pong');
  });

  it('calls of wrong shapes are answered or ignored, and what they publish is refused', async () => {
    await using peer = await startPeer(world.server.url, bearer(world.tokens.datasource));
    for (const entry of BAD_ENTRIES) {
      const args = { topics: ['policy_data'], data: { entries: [entry] } };
      assert.equal(await peer.call('publish', args), false, JSON.stringify(entry).slice(0, 200));
    }
    for (const [method, args, result] of BAD_CALLS) {
      assert.equal(
        await peer.call(method, args),
        result,
        `${method.slice(0, 50)} ${JSON.stringify(args).slice(0, 200)}`,
      );
    }
    const texts = [...BAD_MESSAGES, ...fc.sample(fc.json(), { seed: SEED, numRuns: 60 })];
    for (const text of texts) peer.socket.send(text);
    assert.equal(await peer.call('_ping_', {}), 'pong', 'it is still served');
    assert.deepEqual(world.leaks(JSON.stringify(peer.frames)), []);
    sent += BAD_ENTRIES.length + BAD_CALLS.length + texts.length;
  });

  it('a socket that may not publish cannot, whatever it says of itself', async () => {
    const update = {
      topics: ['policy_data'],
      data: { entries: [{ url: '', topics: ['policy_data'], dst_path: '/users', data: {} }] },
    };
    for (const type of ['client', 'listener'] as const) {
      await using peer = await startPeer(world.server.url, {
        ...bearer(world.tokens[type]),
        'x-sync-protocol': '1',
        'x-peer-type': 'datasource',
      });
      for (const more of [{}, { notifier_id: 'server' }, { sync: true }, { peer_type: 'datasource' }]) {
        assert.equal(await peer.call('publish', { ...update, ...more }), false, type);
      }
    }
  });

  it('floods of calls and of connections that say half a request do not keep the others waiting', async () => {
    const { port } = world.server;
    const starts = [
      Buffer.from('GE'),
      Buffer.from('POST /data/config HTTP/1.1\r\nContent-Le'),
      requestBytes({
        method: 'POST',
        target: '/data/config',
        headers: [['Authorization', `Bearer ${world.tokens.datasource}`]],
        body: Buffer.alloc(1000, '['),
      }).subarray(0, -500),
      upgradeBytes([['Authorization', `Bearer ${world.tokens.client}`]]),
      upgradeBytes([['Authorization', 'Bearer not-a-token']]),
    ];
    const halves = Array.from({ length: 100 }, (_, index) => {
      const half = connect(port, '127.0.0.1');
      half.on('error', () => undefined); // it may be cut
      half.write(starts[index % starts.length] ?? '');
      return half;
    });
    const flood = new WebSocket(`ws://127.0.0.1:${port}/ws`, { headers: bearer(world.tokens.datasource) });
    await new Promise((resolve) => flood.once('open', resolve));
    flood.pause(); // it never reads an answer
    for (let call = 0; call < 5000; call++) {
      flood.send(
        JSON.stringify({
          request: { method: 'publish', arguments: { topics: ['policy_data'], data: call }, call_id: `${call}` },
        }),
      );
    }
    const startedMs = performance.now();
    assert.equal(await subscriber.call('_ping_', {}), 'pong');
    assert.equal((await request(`${world.server.url}/healthcheck`)).status, 200);
    assert(performance.now() - startedMs < 5000 * patience());
    flood.terminate();
    for (const half of halves) half.destroy();
    sent += halves.length;
  });

  it('after all of it engine and log hold what they held, no log line has a secret, and updates still arrive', async () => {
    assert(sent >= 800, `${sent} were sent`);
    for (const status of [400, 401, 404, 405, 413, 417, 422, 431])
      assert(statuses.has(status), `no ${status} was seen`);
    assert.deepEqual(strays, [], 'no error without an owner');
    assert.equal(({} as Record<string, unknown>).x, undefined);
    assert.deepEqual(Object.keys(Object.prototype), []);
    assert.equal(existsSync('/tmp/policysync-was-here'), false);
    const stateAfter = await world.state();
    for (const [name, text] of Object.entries(stateBefore)) assert.equal(stateAfter[name], text, name);
    assert.deepEqual(
      subscriber.frames.map((frame) => field(frame, 'request', 'method')).filter((method) => method === 'notify'),
      [],
    );

    // The check for secrets finds them where they belong.
    assert(world.leaks(stateAfter['GET /data/config'] ?? '').includes('a header value of an entry'));
    const log = world.logText();
    assert.deepEqual(world.leaks(log), []);
    assert(!log.includes('password-in-target'), 'a password in a request target is not logged');
    assert.doesNotMatch(log, /uncaught exception|"level":60/);

    const entry = { url: '', topics: ['policy_data'], dst_path: '/after', data: { still: 'here' } };
    const answer = await postJson(
      `${world.server.url}/data/config`,
      { entries: [entry] },
      bearer(world.tokens.datasource),
    );
    assert.equal(answer.status, 200, answer.text);
    const [data] = await subscriber.notified(1);
    assert.equal(field(data, 'entries', 0, 'dst_path'), '/after');
    await world.client.holds('/after', { still: 'here' });
  });
});

test('an archive that was changed at random is read whole or refused, never leads out of its folder, and never hangs', async () => {
  await using dir = await tempDir();
  const file = join(dir.path, 'bundle.tar.gz');
  const good = await tarGz([
    { name: 'a/', type: 'directory' },
    { name: 'a/a.rego', content: 'package a\n' },
    { name: 'a/data.json', content: '{"x":1}' },
    { name: `${'long/'.repeat(30)}b.rego`, content: 'package b\n' },
    { name: '.manifest', content: 'a/a.rego\n' },
  ]);
  const damaged = fc.sample(damagedArchives(good), { seed: SEED, numRuns: 350 });
  const evil = await Promise.all(fc.sample(EVIL_ENTRIES, { seed: SEED, numRuns: 150 }).map(tarGz));
  const known = await Promise.all(Object.values(BAD_ARCHIVES).map(({ bytes }) => bytes()));
  let read = 0;
  let refused = 0;
  for (const bytes of [good, ...known, ...evil, ...damaged]) {
    await writeFile(file, bytes);
    const what = (): string => `SYNC_TEST_SEED=${SEED} archive ${bytes.subarray(0, 3000).toString('base64')}`;
    try {
      for await (const { path, content } of archiveFiles(file, TEST_LIMITS, AbortSignal.timeout(5000))) {
        if (!isInside(path)) assert.fail(`${what()}: ${JSON.stringify(path)}`);
        for await (const _ of content); // read as the importer does
      }
      read++;
    } catch (error) {
      if (!(error instanceof SyncError && error.code === 'bundle_archive_refused')) assert.fail(`${what()}: ${error}`);
      refused++;
    }
  }
  assert(read > 0 && refused > 300, `${read} read, ${refused} refused`);
});

/** Whether one of the places that a 422 lists is the place, lies above it or below it. */
function namesPlace(answer: string, place: readonly (string | number)[]): boolean {
  const detail: unknown = field(JSON.parse(answer.slice(answer.indexOf('\r\n\r\n') + 4)), 'detail');
  if (!Array.isArray(detail)) return false;
  return detail.some((problem) => {
    const loc: unknown = field(problem, 'loc');
    if (!Array.isArray(loc)) return false;
    const found = loc.slice(1); // after `body`
    return place.every((part, index) => index >= found.length || part === found[index]);
  });
}

/** True for a relative path that stays in its folder, and out of git's, on every system. */
function isInside(path: string): boolean {
  const parts = path.split('/');
  return (
    !path.includes('\\') &&
    !path.includes('\0') &&
    parts.every((part) => part !== '' && part !== '.' && part !== '..' && !/^\.git$/i.test(part))
  );
}

/** Runs a task for each item, a few at a time. */
async function inParallel<T>(items: readonly T[], task: (item: T) => Promise<void>): Promise<void> {
  const queue = [...items];
  await Promise.all(
    Array.from({ length: AT_ONCE }, async () => {
      for (let item = queue.shift(); item !== undefined; item = queue.shift()) await task(item);
    }),
  );
}
