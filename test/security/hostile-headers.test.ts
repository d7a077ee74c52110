import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { bearer, tokenOf, withKeys } from '../support/auth.js';
import { cpuTimer } from '../support/cpu-time.js';
import { exchange, requestBytes } from '../support/hostile-wire.js';
import { CLIENT_SETTINGS, createClient, loadSettings, silentLogger } from '../support/library.js';
import { startFront } from '../support/opa-front.js';
import { type StartedServer, startServer } from '../support/start-server.js';

/** Each header that is read, as long as Node takes it and as hard to read as it can be, at every listener of both programs. */

const CHARS = 14_000;
/** Most processor time for all that one header is sent at one listener. */
const WITHIN_MS = 500;

const UNITS = [
  'a',
  '1',
  'a.',
  ' ',
  ',',
  ';',
  '=',
  '"',
  '\\',
  '/',
  '.',
  ':',
  '%',
  '-',
  '(',
  'a,',
  'a;',
  'a=',
  '"\\',
  ' ,',
  '\t ',
  '1.',
  '::',
  'http://',
];
const HEADERS = [
  ...['host', 'origin', 'referer', 'cookie', 'authorization', 'accept', 'accept-encoding', 'accept-language', 'range'],
  ...['if-none-match', 'if-modified-since', 'content-type', 'content-encoding', 'content-length', 'transfer-encoding'],
  ...['x-forwarded-for', 'x-forwarded-proto', 'x-forwarded-host', 'forwarded', 'traceparent', 'tracestate', 'baggage'],
  ...[
    'sec-fetch-site',
    'x-sync-protocol',
    'x-sync-ui',
    'x-request-id',
    'x-hub-signature-256',
    'x-gitlab-token',
    'prefer',
  ],
  ...['sec-websocket-key', 'sec-websocket-protocol', 'sec-websocket-extensions', 'sec-websocket-version', 'connection'],
];
const BEFORE: Readonly<Record<string, readonly string[]>> = {
  authorization: ['', 'Bearer ', 'Basic ', 'Bearer a.'],
  cookie: ['', 'policysync='],
  'content-type': ['application/json;', 'application/json; charset="', 'multipart/form-data; boundary='],
  'x-hub-signature-256': ['sha256='],
  traceparent: ['00-'],
};
const TARGETS = [
  'GET /',
  'GET /healthcheck',
  'GET /ui/events',
  'GET /policy',
  'POST /webhook',
  'POST /token',
  'GET /v1/data',
  'UPGRADE /ws',
];
/** Answers that are none of a broken program. 0: Node ended the connection, as it does for bytes that are no HTTP. */
const isCalm = (status: number): boolean => status < 500 || [501, 503].includes(status);

async function bombard(port: number, targets: readonly string[]): Promise<void> {
  for (const [index, header] of HEADERS.entries()) {
    const spentMs = cpuTimer();
    const asked = UNITS.flatMap((unit, at) =>
      (BEFORE[header] ?? ['']).map(async (begin, of) => {
        const value = `${begin}${unit.repeat(CHARS / unit.length)}x`;
        const [method = '', target = ''] = (targets[(index + at + of) % targets.length] ?? '').split(' ');
        const upgrade = [
          ['Connection', 'Upgrade'],
          ['Upgrade', 'websocket'],
          ['Sec-WebSocket-Version', '13'],
        ] as const;
        const own = method === 'UPGRADE' ? upgrade.filter(([name]) => name.toLowerCase() !== header) : [];
        const headers = [...own, [header, value] as const];
        const body =
          method === 'POST' && !/^(content-length|transfer-encoding)$/.test(header) ? Buffer.from('{}') : undefined;
        const bytes = requestBytes({ method: method === 'UPGRADE' ? 'GET' : method, target, headers, body });
        const { status, text } = await exchange(port, bytes, { finish: true });
        assert(isCalm(status), `${method} ${target} ${header}: ${unit}: ${text.slice(0, 300)}`);
        assert(text.length < 40_000, `${header}: an answer of ${text.length} characters`);
      }),
    );
    await Promise.all(asked);
    assert(spentMs() < WITHIN_MS, `${header}: ${Math.round(spentMs())} ms`);
  }
}

describe('headers that are long and hard to read', () => {
  let server: StartedServer;
  before(async () => {
    server = await startServer({ ...withKeys(), SYNC_TRUSTED_PROXIES: '127.0.0.1' });
  });
  after(() => server?.[Symbol.asyncDispose]());

  it('cost the server nothing, before and behind a proxy', () => bombard(server.port, TARGETS));

  it('cost the embedded engine nothing', async () => {
    await using front = await startFront();
    await bombard(front.port, ['GET /v1/data/app', 'POST /v1/data/app', 'POST /v1/query', 'GET /health', 'POST /']);
  });

  it('cost the API of a client nothing', async () => {
    const token = await tokenOf(server.url, { type: 'listener' });
    const client = createClient(
      loadSettings(CLIENT_SETTINGS, {
        env: {
          ...withKeys(),
          SYNC_CLIENT_API_SERVER_PORT: '0',
          SYNC_SERVER_URL: server.url,
          SYNC_CLIENT_TOKEN: token,
          SYNC_INLINE_ENGINE_ENABLED: 'false',
          SYNC_POLICY_STORE_URL: 'http://127.0.0.1:9',
        },
      }).values,
      { log: silentLogger(), env: process.env },
    );
    try {
      const { port } = new URL((await client.start()).url);
      await bombard(Number(port), [
        'GET /',
        'GET /healthy',
        'POST /callbacks',
        'POST /access/v1/evaluation',
        'GET /position',
      ]);
    } finally {
      await client.stop();
    }
  });

  it('are of nobody who is let in by them', async () => {
    const token = await tokenOf(server.url);
    for (const value of [
      `Bearer ${token}${' '.repeat(CHARS)}x`,
      `Bearer${' '.repeat(CHARS)}`,
      `Bearer ${token},Bearer x`,
    ]) {
      const headers = [['Authorization', value]] as const;
      const { status } = await exchange(server.port, requestBytes({ method: 'GET', target: '/clients', headers }));
      assert.equal(status, 401);
    }
    const { status } = await fetch(`${server.url}/data/config`, { headers: bearer(token) });
    assert.equal(status, 200);
  });
});
