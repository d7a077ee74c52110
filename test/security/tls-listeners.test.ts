import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { readFile, writeFile } from 'node:fs/promises';
import { Agent, get } from 'node:https';
import { connect, type Socket } from 'node:net';
import { after, before, describe, test } from 'node:test';
import { type TLSSocket, connect as tlsConnect } from 'node:tls';
import { promisify } from 'node:util';
import type { Logger } from '../../src/lib/observe/log.js';
import { bearer, MASTER_TOKEN, withKeys } from '../support/auth.js';
import { makeAuthority, type Pair, type TestAuthority } from '../support/certificates.js';
import { exchange } from '../support/hostile-wire.js';
import { silentLogger } from '../support/library.js';
import { type StartedServer, startServer } from '../support/start-server.js';
import { requestBy } from '../support/tls-request.js';
import { until } from '../support/until.js';

/** What somebody does with a listener that speaks TLS before, and instead of, speaking it. */

const exec = promisify(execFile);
/** Connections of one address on which nobody was let in. */
const MOST = 12;

describe('a listener that speaks TLS', () => {
  let authority: TestAuthority;
  let stranger: TestAuthority;
  let pair: Pair;
  let server: StartedServer;
  /** Asks for client certificates. */
  let closed: StartedServer;
  let ca: Buffer;
  let lines = 0;

  before(async () => {
    [authority, stranger] = await Promise.all([makeAuthority('test authority'), makeAuthority('a stranger')]);
    pair = await authority.issue('server');
    ca = await readFile(authority.file);
    const count = () => void lines++;
    const log = { ...silentLogger(), info: count, warn: count, error: count } as unknown as Logger;
    Object.assign(log, { child: () => log });
    const tls = { SYNC_SERVER_TLS_CERT_FILE: pair.cert, SYNC_SERVER_TLS_KEY_FILE: pair.key };
    server = await startServer({ ...withKeys(), ...tls, SYNC_CONNECTIONS_PER_ADDRESS: String(MOST) }, { log });
    closed = await startServer({ ...tls, SYNC_SERVER_TLS_CA_FILE: authority.file });
  });
  after(async () => {
    for (const part of [server, closed, authority, stranger]) await part?.[Symbol.asyncDispose]();
  });

  async function serves(what: string): Promise<void> {
    const { status } = await requestBy({ ca: authority.file })(`${server.url}/healthcheck`);
    assert.equal(status, 200, what);
  }

  function opened(port: number): Socket {
    const socket = connect(port, '127.0.0.1');
    socket.on('error', () => undefined);
    return socket;
  }

  test('plain text, noise and other protocols on a TLS port end their connection, and fill no log', async () => {
    const before = lines;
    const texts = [
      'GET /healthcheck HTTP/1.1\r\nHost: localhost\r\n\r\n',
      'SSH-2.0-x\r\n',
      '\u0016\u0003\u0001\u00ff\u00ff',
      '\0'.repeat(2000),
    ];
    for (let round = 0; round < 25; round++) {
      const answers = await Promise.all(
        texts.map((text) => exchange(server.port, Buffer.from(text, 'latin1'), { finish: true })),
      );
      for (const { text } of answers) assert.doesNotMatch(text, /HTTP\/1\.1 200|status/);
    }
    await serves('after it');
    assert(lines - before < 20, `${lines - before} lines for 100 connections of one address`);
  });

  test('TLS on a port in plain text is an error of HTTP, and nothing else', async () => {
    await using plain = await startServer();
    const socket = tlsConnect({ port: plain.port, host: '127.0.0.1', ca });
    const [error] = (await once(socket, 'error')) as [Error];
    assert.match(error.message, /wrong version number|packet length|socket disconnected/i);
  });

  test('half handshakes of one address are so many, and others are served meanwhile', async () => {
    const hello = Buffer.from([0x16, 3, 1, 0, 200, 1, 0, 0, 196, 3, 3]);
    const sockets = Array.from({ length: 60 }, () => opened(server.port));
    const ended = new Set<Socket>();
    for (const socket of sockets) {
      socket.on('close', () => ended.add(socket));
      socket.write(hello);
    }
    try {
      await until(() => ended.size >= 60 - MOST, { withinMs: 10_000, what: 'all beyond the limit are closed' });
      assert.equal(ended.size, 60 - MOST, 'by the limit, before their handshakes take too long');
      const way = connect({ port: server.port, host: '127.0.0.1', localAddress: '127.0.0.2' });
      const other = tlsConnect({ socket: way, ca, servername: 'localhost' });
      await once(other, 'secureConnect');
      other.destroy();
    } finally {
      for (const socket of sockets) socket.destroy();
    }
    await until(() => serves('after it').then(() => true), { withinMs: 10_000, what: 'the address is served again' });
  });

  test('a renegotiation is refused, or so many and no more', async () => {
    const socket: TLSSocket = tlsConnect({
      ...{ port: server.port, host: '127.0.0.1', ca, servername: 'localhost' },
      maxVersion: 'TLSv1.2',
    });
    await once(socket, 'secureConnect');
    socket.on('error', () => undefined);
    let done = 0;
    const renegotiated = (): Promise<boolean> =>
      new Promise((resolve) => {
        socket.once('close', () => resolve(false));
        setTimeout(() => resolve(false), 300).unref(); // a refusal is an alert, of which Node says nothing
        if (socket.destroyed || !socket.renegotiate({ rejectUnauthorized: true }, (error) => resolve(error === null)))
          resolve(false);
      });
    while (done < 50 && (await renegotiated())) done++;
    assert(done <= 5, `${done} renegotiations`);
    socket.destroy();
    await serves('after it');
  });

  test('connections on which a token was accepted do not count for their address, over TLS as without', async () => {
    const issued = await requestBy({ ca: authority.file, token: MASTER_TOKEN })(`${server.url}/token`, {
      method: 'POST',
      body: '{}',
    });
    const { token } = issued.json as { token: string };
    const agents = Array.from({ length: 2 * MOST }, () => new Agent({ keepAlive: true, ca }));
    try {
      for (const [index, agent] of agents.entries()) {
        const status = await new Promise((resolve) => {
          const asked = get(`${server.url}/data/config`, { agent, headers: bearer(token) });
          asked.on('response', (answer) => answer.resume().on('end', () => resolve(answer.statusCode)));
          asked.on('error', (error) => resolve(error.message));
        });
        assert.equal(status, 200, `connection ${index + 1}`);
      }
    } finally {
      for (const agent of agents) agent.destroy();
    }
  });

  test('a certificate of a client that is expired, its own, of another authority or for servers opens nothing', async () => {
    const at = (name: string): string => `${authority.dir}/${name}`;
    const good = await authority.issue('client');
    const make = async (name: string, extensions: string, days: string): Promise<Pair> => {
      await writeFile(at(`${name}.ext`), extensions);
      await exec('openssl', [
        ...['x509', '-req', '-in', at('client.csr'), '-days', days, '-extfile', at(`${name}.ext`)],
        ...['-CA', at('ca.pem'), '-CAkey', at('ca.key'), '-CAcreateserial', '-out', at(`${name}.pem`)],
      ]);
      return { cert: at(`${name}.pem`), key: good.key };
    };
    await exec('openssl', [
      'x509',
      '-req',
      '-in',
      at('client.csr'),
      '-days',
      '2',
      '-key',
      good.key,
      '-out',
      at('own.pem'),
    ]);
    const certificates: Readonly<Record<string, Pair | undefined>> = {
      none: undefined,
      'of another authority': await stranger.issue('client'),
      'its own': { cert: at('own.pem'), key: good.key },
      'for servers alone': await make('wrong-use', 'extendedKeyUsage=serverAuth\n', '2'),
      expired: await make('expired', 'extendedKeyUsage=clientAuth\n', '0'),
    };
    const asked = (own: Pair | undefined): Promise<number> =>
      requestBy({ ca: authority.file, ...(own && { own }) })(`${closed.url}/`).then(({ status }) => status);
    assert.equal(await asked(good), 200, 'the certificate that the others are made from');
    await new Promise((resolve) => setTimeout(resolve, 1100)); // until the expired one is
    for (const [what, own] of Object.entries(certificates)) await assert.rejects(asked(own), what);
  });
});
