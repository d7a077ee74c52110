import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import { test } from 'node:test';
import { engineWrites } from '../support/engine-writes.js';
import { type FakeSessionServer, startFakeSessionServer } from '../support/fake-session-server.js';
import { listening } from '../support/http-server.js';
import { startOpa } from '../support/opa.js';
import { startClient } from '../support/start-client.js';
import { until } from '../support/until.js';

/** What a source says of its document's age, and what proves that a client has it. */
const KINDS = {
  etag: { header: 'etag', asks: 'if-none-match', value: (n: number) => `"v${n}"` },
  modified: {
    header: 'last-modified',
    asks: 'if-modified-since',
    value: (n: number) => new Date(Date.UTC(2026, 0, n)).toUTCString(),
  },
  plain: undefined,
} as const;

/** A source of one document of each kind. Notes each answer: `etag 304`. */
async function source(): Promise<{ url: string; version: number; answers: string[] } & AsyncDisposable> {
  const answers: string[] = [];
  const server = createServer((request, response) => {
    const kind = (request.url ?? '/').slice(1) as keyof typeof KINDS;
    const rule = KINDS[kind];
    const value = rule?.value(state.version);
    const isSame = rule !== undefined && request.headers[rule.asks] === value;
    answers.push(`${kind} ${isSame ? 304 : 200}`);
    response.writeHead(isSame ? 304 : 200, {
      'content-type': 'application/json',
      ...(rule === undefined ? {} : { [rule.header]: value }),
    });
    response.end(isSame ? '' : JSON.stringify({ version: state.version }));
  });
  const state = { ...(await listening(server)), version: 1, answers };
  return state;
}

/** The connection is lost and comes back; settles when each source was asked `times` times in all. */
async function reconnect(server: FakeSessionServer, answers: readonly string[], times: number): Promise<void> {
  server.drop();
  await until(() => answers.length === 3 * times, { withinMs: 20_000, what: `each source is asked ${times} times` });
}

test('after a reconnect each base entry is asked for by ETag, by Last-Modified or by its content, and what is the same is not written', async () => {
  await using from = await source();
  await using opa = await startOpa();
  await using writes = await engineWrites(opa.url);
  await using server = await startFakeSessionServer();
  server.base = Object.keys(KINDS).map((kind) => ({ url: `${from.url}/${kind}`, dst_path: `/base/${kind}` }));
  await using client = await startClient({
    serverUrl: server.url,
    engineUrl: writes.url,
    env: { SYNC_POLICY_UPDATER_ENABLED: 'false' },
  });
  const all = (version: number) => ({ etag: { version }, modified: { version }, plain: { version } });
  await client.holds('/base', all(1));
  await client.healthy();
  const before = writes.all.length;
  for (const times of [2, 3]) {
    await reconnect(server, from.answers, times);
    // An update goes in after what the reconnect may have brought.
    server.publish([{ dst_path: '/last', data: times }]);
    await client.holds('/last', times);
    await client.healthy();
    assert.deepEqual(from.answers.slice(-3).sort(), ['etag 304', 'modified 304', 'plain 200']);
  }
  assert.deepEqual(writes.since(before), ['PUT /v1/data/last', 'PUT /v1/data/last']);

  from.version = 2;
  await reconnect(server, from.answers, 4);
  await client.holds('/base', all(2));
  assert.deepEqual(from.answers.slice(-3).sort(), ['etag 200', 'modified 200', 'plain 200']);
});
