import assert from 'node:assert/strict';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { test } from 'node:test';
import { listening } from '../../../test/support/http-server.js';
import { SyncError } from '../../lib/errors.js';
import { watchFleet } from './watch-fleet.js';

const SUMMARY = {
  total: 1,
  policy: { head: null, counts: { none: 1 } },
  data: { head: 3, counts: { at_head: 1 }, slowest_behind: 0, at_least: false },
  health: { healthy: 1 },
  ...{ needing: 0, under_way: null, incomplete: null, limited: false },
};
const ROW = {
  ...{
    id: 'shop-1',
    kind: 'session',
    connected: true,
    labels: {},
    address: 'a',
    instance: 'i',
    topics: [],
    engine: null,
  },
  policy: { state: 'none', held: null, behind: null, since: null, error: null },
  data: { state: 'at_head', at: 3, newest: 3, behind: 0, at_least: false, lag_seconds: 0 },
  health: { state: 'healthy', since: null },
  ...{ error: null, connected_at: 0, away_since: null, reported_at: null },
};
const SNAPSHOT = {
  ...{ at: 1, epoch: 'e', instance: 'i', head: 3, summary: SUMMARY, source: null, clients: [ROW], changes: [] },
  instances: [],
};

function event(name: string, id: string, data: object): string {
  return `event: ${name}\nid: ${id}\ndata: ${JSON.stringify(data)}\n\n`;
}

/** A terminal that keeps what it is told. */
function terminal() {
  const shown: string[] = [];
  const write = (text: string): unknown => shown.push(text);
  return { isTTY: true, columns: 80, rows: 24, shown, write, on: () => undefined, off: () => undefined };
}

async function withServer(
  answer: (request: IncomingMessage, response: ServerResponse) => void,
  use: (url: string) => Promise<void>,
): Promise<void> {
  await using server = await listening(createServer(answer));
  await use(server.url);
}

test('a stream that is cut is resumed after its last event, and nothing is lost of what is shown', async () => {
  const seen: (string | undefined)[] = [];
  await withServer(
    ({ headers }, response) => {
      seen.push(headers['last-event-id'] as string | undefined);
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      response.write('retry: 10\n\n');
      if (seen.length === 1) {
        response.write(event('snapshot', 'f-1', SNAPSHOT), () => response.destroy());
        return;
      }
      response.write(event('delta', 'f-2', { at: 2, clients: [{ ...ROW, id: 'shop-2' }] }));
    },
    async (url) => {
      const output = terminal();
      const done = new Error('both are there');
      const judge = ({ rows }: { rows: ReadonlyMap<string, unknown> }): void => {
        if (rows.size === 2) throw done;
      };
      const watching = watchFleet({ target: { url, token: undefined }, env: {}, output, judge });
      await assert.rejects(watching, (error) => error === done);
      assert.deepEqual(seen, [undefined, 'f-1']);
      const text = output.shown.join('');
      assert.match(text, /The server was lost at [\s\S]*At 00:00:00/);
      assert.match(output.shown.at(-1) ?? '', /shop-1[\s\S]*shop-2/);
    },
  );
});

test('a server without the stream is looked at in the old way, and nothing is shown before', async () => {
  await withServer(
    (_, response) => response.writeHead(404).end('{"detail":"Not Found"}'),
    async (url) => {
      const output = terminal();
      const judge = (): void => undefined;
      assert.equal(await watchFleet({ target: { url, token: undefined }, env: {}, output, judge }), false);
      assert.deepEqual(output.shown, []);
    },
  );
});

test('a token that does not do is no reason to wait', async () => {
  await withServer(
    (_, response) => response.writeHead(401).end('{"detail":"no"}'),
    async (url) => {
      const watching = watchFleet({
        target: { url, token: undefined },
        env: {},
        output: terminal(),
        judge: () => undefined,
      });
      await assert.rejects(watching, (error) => error instanceof SyncError && error.code === 'token_refused');
    },
  );
});
