import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { after, before, describe, it } from 'node:test';
import type * as z from 'zod';
import { answer } from '../../src/wire/client-ask.js';
import { dataUpdate, fetcherConfig } from '../../src/wire/data.js';
import { sessionReport, sessionSubscribe } from '../../src/wire/session.js';
import { bearer, tokenOf, withKeys } from '../support/auth.js';
import { type StartedCommand, startCommand } from '../support/command.js';
import { operations } from '../support/hostile-requests.js';
import { parsed, request } from '../support/http.js';
import { describedPlaces, type ListPlace, listPlaces, withElements } from '../support/schema-lists.js';
import { startPeer } from '../support/start-peer.js';
import { tempDir } from '../support/temp-dir.js';
import { patience } from '../support/until.js';

/**
 * Whoever may send one request must not be able to end the server with it: every list of every schema is sent with more elements
 * than it takes, and with as many wrong ones as it takes, to a program with little memory.
 */

/** Memory of the program for its own values. */
const HEAP_MB = 192;
/** With the bytes of two bodies and of Node itself. */
const PEAK_MB = 600;
/** Elements of a list, and members of a map, of some six megabytes. */
const COUNT = { list: 3_000_000, dict: 500_000 } as const;
/** Longest time for one answer, on a machine without other work. */
const WITHIN_MS = 5_000;
const LONGEST_ANSWER = 20_000;

describe('lists that are too long', () => {
  let dir: Awaited<ReturnType<typeof tempDir>>;
  let program: StartedCommand;
  let url: string;
  const tokens: Record<string, string> = {};

  before(async () => {
    dir = await tempDir();
    program = startCommand('server', ['run'], {
      ...withKeys(),
      SYNC_SERVER_BIND_PORT: '0',
      SYNC_STATE_DIR: dir.path,
      SYNC_LOG_FORMAT: 'json',
      NODE_OPTIONS: `--max-old-space-size=${HEAP_MB}`,
    });
    url = (await program.says(/"url":"(http:[^"]+)"/))[1] ?? '';
    for (const type of ['client', 'datasource']) tokens[type] = await tokenOf(url, { type });
  });
  after(async () => {
    await program?.[Symbol.asyncDispose]();
    await dir?.[Symbol.asyncDispose]();
  });

  /** Sends a body to a route; answers what is wrong with what happens. */
  async function attack(method: string, path: string, body: string): Promise<string[]> {
    const token = path === '/token' ? 'the-master-token-of-the-test' : (tokens.datasource ?? '');
    const startedMs = performance.now();
    const answering = request(`${url}${path}`, {
      method,
      body,
      headers: { 'content-type': 'application/json', ...bearer(token) },
    });
    const [answer, health] = await Promise.all([answering, request(`${url}/healthcheck`)]);
    const tookMs = performance.now() - startedMs;
    const named = (parsed(answer.text) as { detail?: unknown } | undefined)?.detail;
    return [
      ...(answer.status >= 400 && answer.status < 500
        ? []
        : [`answered ${answer.status} ${answer.text.slice(0, 200)}`]),
      ...(answer.text.length > LONGEST_ANSWER ? [`an answer of ${answer.text.length} characters`] : []),
      ...(Array.isArray(named) && named.length > 21 ? [`${named.length} problems`] : []),
      ...(tookMs > WITHIN_MS * patience() ? [`took ${tookMs} ms`] : []),
      ...(health.status === 200 ? [] : [`health ${health.status}`]),
    ];
  }

  it('no list of any request body ends the server, keeps it busy, or makes a long answer', async () => {
    const bodies = operations((await request(`${url}/openapi.json`)).json).filter(({ body }) => body !== undefined);
    assert(bodies.length >= 5, `${bodies.length} routes with a body`);
    const problems: string[] = [];
    let sent = 0;
    for (const { method, path, body } of bodies) {
      for (const place of [...describedPlaces(body), ...hidden(path)]) {
        assert(place.max !== undefined, `${method} ${path} ${place.path.join('.')} says no maxItems`);
        for (const text of wrongTexts(place)) {
          sent++;
          const found = await attack(method, path, text);
          problems.push(...found.map((problem) => `${method} ${path} ${place.path.join('.')}: ${problem}`));
        }
      }
    }
    assert.deepEqual(problems, []);
    assert(sent >= 14, `${sent} bodies`);
    await assertSmall();
  });

  it('wrong entries of one update are named up to twenty, however many topics each has', async () => {
    const topics = `[${'1,'.repeat(99)}1]`;
    const entry = `{"url":"http://x","dst_path":"/a","topics":${topics}}`;
    const body = `{"entries":[${`${entry},`.repeat(4_999)}${entry}]}`;
    assert.deepEqual(await attack('POST', '/data/config', body), []);
    assert.deepEqual(await attack('POST', '/data/config', `{"entries":[${'{},'.repeat(9_999)}{}]}`), []);
    const patch = `{"entries":[{"url":"","topics":["a"],"dst_path":"/a","save_method":"PATCH","data":[${'1,'.repeat(3_000_000)}1]}]}`;
    assert.deepEqual(await attack('POST', '/data/config', patch), []);
    assert.deepEqual(await attack('POST', '/data/callback_report', `{"reports":[${'{},'.repeat(5_000_000)}{}]}`), []);
    await assertSmall();
  });

  it('no list of any message over the socket ends the server or makes it busy', async () => {
    const messages: [method: string, schema: z.ZodType, wrap: (text: string) => string][] = [
      ['subscribe', sessionSubscribe, (text) => text],
      ['unsubscribe', sessionSubscribe, (text) => text],
      ['report', sessionReport, (text) => text],
      ['answer', answer, (text) => text],
      ['publish', dataUpdate, (text) => `{"topics":["policy_data"],"data":${text}}`],
      ['publish', sessionSubscribe.pick({ topics: true }), (text) => text],
    ];
    for (const [method, schema, wrap] of messages) {
      const places = listPlaces(schema);
      assert(places.length > 0, method);
      for (const place of places) {
        for (const text of wrongTexts(place)) {
          await using peer = await startPeer(url, { ...bearer(tokens.datasource ?? ''), 'x-sync-protocol': '2' });
          peer.socket.on('error', () => undefined); // it may be cut
          const closed = new Promise<unknown>((resolve) => peer.socket.once('close', () => resolve('closed')));
          const startedMs = performance.now();
          peer.socket.send(`{"request":{"method":"${method}","arguments":${wrap(text)},"call_id":"x"}}`);
          const alive = peer.call('_ping_', {}).catch(() => 'closed');
          const outcome = await Promise.race([alive, closed]);
          const what = `${method} ${place.path.join('.')} of ${text.length} characters`;
          assert(outcome === 'pong' || outcome === 'closed', what);
          assert(performance.now() - startedMs < WITHIN_MS * patience(), `${what} took long`);
          assert(JSON.stringify(peer.frames).length < LONGEST_ANSWER, what);
        }
      }
    }
    assert.equal((await request(`${url}/healthcheck`)).status, 200);
    await assertSmall();
  });

  async function assertSmall(): Promise<void> {
    assert.equal(program.process.exitCode, null, program.stderr().slice(-2000));
    if (process.platform !== 'linux') return;
    const status = await readFile(`/proc/${program.process.pid}/status`, 'utf8');
    const peakMb = Number(/VmHWM:\s*(\d+) kB/.exec(status)?.[1]) / 1024;
    assert(peakMb < PEAK_MB, `the program had ${peakMb} MB`);
  }
});

/** Longer than it may be, and full of what is wrong. */
function wrongTexts(place: ListPlace): string[] {
  const atMost = Math.min(place.max ?? COUNT[place.kind], COUNT[place.kind]);
  return [withElements(place, COUNT[place.kind]), withElements(place, atMost)];
}

/** Lists that a check by code looks at, so that a walk does not find them. */
function hidden(path: string): ListPlace[] {
  if (path !== '/data/config') return [];
  return listPlaces(fetcherConfig).map((place) => ({ ...place, path: ['entries', 0, 'config', ...place.path] }));
}
