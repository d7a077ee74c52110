import assert from 'node:assert/strict';
import { createHmac } from 'node:crypto';
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { describe, it } from 'node:test';
import { bearer, MASTER_TOKEN, tokenOf, withKeys } from '../support/auth.js';
import { exchange, type Headers, requestBytes, upgradeBytes } from '../support/hostile-wire.js';
import { postJson, request } from '../support/http.js';
import { type StartedPeer, startPeer } from '../support/start-peer.js';
import { startServer } from '../support/start-server.js';
import { together } from '../support/together.js';
import { until } from '../support/until.js';

/** What somebody without a token can make a server keep: as little as a header, and of one address so much and no more. */

const MIB = 1024 * 1024;
const SECRET = 'the secret of the webhooks';
const PAYLOAD = JSON.stringify({ ref: 'refs/heads/master', repository: { full_name: 'x/y' } });
const signature = (body: string): string => `sha256=${createHmac('sha256', SECRET).update(body).digest('hex')}`;

/** Says that a body of so many bytes follows and sends none of it; gives the status that comes all the same. */
async function statusBeforeBody(port: number, target: string, headers: Headers, length = MIB): Promise<number> {
  const head = requestBytes({ method: 'POST', target, headers: [...headers, ['Content-Length', String(length)]] });
  const socket = connect(port, '127.0.0.1');
  socket.on('error', () => undefined);
  socket.write(head);
  const [answer] = (await Promise.race([once(socket, 'data'), once(socket, 'close')])) as [unknown];
  socket.destroy();
  return Number(/^HTTP\/1\.1 (\d{3})/.exec(String(answer))?.[1] ?? 0);
}

describe('the header is looked at before the body', () => {
  it('/token answers a wrong master token at once, and takes no more than 64 KiB of whoever has it', async () => {
    await using server = await startServer(withKeys());
    assert.equal(await statusBeforeBody(server.port, '/token', []), 401);
    assert.equal(await statusBeforeBody(server.port, '/token', [['Authorization', 'Bearer wrong']]), 401);
    const master = ['Authorization', `Bearer ${MASTER_TOKEN}`] as const;
    assert.equal(await statusBeforeBody(server.port, '/token', [master], 65 * 1024), 413);
    const large = await postJson(`${server.url}/token`, { claims: { x: 'x'.repeat(60_000) } }, bearer(MASTER_TOKEN));
    assert.equal(large.status, 200);
  });

  it('a server without keys, or without a master token, says so before it reads', async () => {
    await using open = await startServer();
    assert.equal(await statusBeforeBody(open.port, '/token', []), 503);
    const { SYNC_AUTH_MASTER_TOKEN: _, ...keys } = withKeys();
    await using mute = await startServer(keys);
    assert.equal(await statusBeforeBody(mute.port, '/token', []), 403);
  });

  it('/webhook compares a token at once, and reads at most 5 MiB of anybody, 25 MiB where there is a secret', async () => {
    await using gitlab = await startServer({
      SYNC_POLICY_REPO_WEBHOOK_SECRET: SECRET,
      SYNC_POLICY_REPO_WEBHOOK_PARAMS: 'gitlab',
    });
    assert.equal(await statusBeforeBody(gitlab.port, '/webhook', []), 401);
    assert.equal(await statusBeforeBody(gitlab.port, '/webhook', [['X-Gitlab-Token', 'wrong']]), 401);
    assert.equal(await statusBeforeBody(gitlab.port, '/webhook', [['X-Gitlab-Token', SECRET]], 25 * MIB + 1), 413);
    assert.equal(await statusBeforeBody(gitlab.port, '/webhook', [['X-Gitlab-Token', 'wrong']], 20 * MIB), 401);

    await using github = await startServer({ SYNC_POLICY_REPO_WEBHOOK_SECRET: SECRET });
    assert.equal(await statusBeforeBody(github.port, '/webhook', []), 401);
    assert.equal(await statusBeforeBody(github.port, '/webhook', [['X-Hub-Signature-256', 'sha256=1234']]), 401);
    const signed = [['X-Hub-Signature-256', signature('{}')]] as const;
    assert.equal(await statusBeforeBody(github.port, '/webhook', signed, 25 * MIB + 1), 413);
    const malformed = [['X-Hub-Signature-256', 'sha256=1234']] as const;
    assert.equal(await statusBeforeBody(github.port, '/webhook', malformed, 20 * MIB), 401);
    const good = await postJson(`${github.url}/webhook`, PAYLOAD, { 'x-hub-signature-256': signature(PAYLOAD) });
    assert.equal(good.status, 200, good.text);

    await using open = await startServer();
    assert.equal(await statusBeforeBody(open.port, '/webhook', signed, 5 * MIB + 1), 413);
  });

  it('of the large payloads of one address one is held at a time, while others go on', async () => {
    await using github = await startServer({ SYNC_POLICY_REPO_WEBHOOK_SECRET: SECRET });
    const signed = [['X-Hub-Signature-256', signature('{}')]] as const;
    const headers = [...signed, ['Content-Length', String(20 * MIB)]] as const;
    const two = [1, 2].map(() => connect(github.port, '127.0.0.1').on('error', () => undefined));
    const first = Promise.race(two.map(async (socket) => String(await once(socket, 'data'))));
    for (const socket of two) socket.write(requestBytes({ method: 'POST', target: '/webhook', headers }));
    assert.match(await first, /^HTTP\/1\.1 429 /, 'the other one is waited for');
    const good = await postJson(`${github.url}/webhook`, PAYLOAD, { 'x-hub-signature-256': signature(PAYLOAD) });
    assert.equal(good.status, 200, good.text);
    for (const socket of two) socket.destroy();
  });

  it('every route that asks for a token refuses before it reads', async () => {
    await using server = await startServer(withKeys());
    for (const path of ['/data/config', '/data/callback_report', '/data/refresh']) {
      assert.equal(await statusBeforeBody(server.port, path, []), 401, path);
    }
  });
});

describe('limits of one address', () => {
  /** Connections that have sent the beginning of a body that is signed, and nothing more. */
  function halfWebhooks(port: number, count: number, more: Headers = []): Socket[] {
    return Array.from({ length: count }, () => {
      const headers = [['X-Hub-Signature-256', signature('{}')], ['Content-Length', String(5 * MIB)], ...more] as const;
      const head = requestBytes({ method: 'POST', target: '/webhook', headers });
      const socket = connect(port, '127.0.0.1');
      socket.on('error', () => undefined);
      socket.write(head);
      socket.write('{');
      return socket;
    });
  }

  it('bodies of webhooks have so many bytes at one time; the others hear 429, and of another address they are taken', async () => {
    await using server = await startServer({
      SYNC_POLICY_REPO_WEBHOOK_SECRET: SECRET,
      SYNC_TRUSTED_PROXIES: '127.0.0.1',
    });
    const from = (address: string): Headers => [['X-Forwarded-For', `6.6.6.6, ${address}`]];
    const held = halfWebhooks(server.port, 3, from('203.0.113.7'));
    const post = (address: string) =>
      exchange(
        server.port,
        requestBytes({
          method: 'POST',
          target: '/webhook',
          headers: [
            ['X-Hub-Signature-256', signature(PAYLOAD)],
            ['Content-Type', 'application/json'],
            ...from(address),
          ],
          body: Buffer.from(PAYLOAD.padEnd(2 * MIB)),
        }),
      );
    const refused = await until(
      async () => {
        const answer = await post('203.0.113.7');
        return answer.status === 429 && answer;
      },
      { withinMs: 10_000, what: 'the address has used up its share' },
    );
    assert.match(refused.text, /retry-after: \d/i);
    assert.match(refused.text, /x-sync-error: address_limit/i);
    assert.match(refused.text, /SYNC_UNAUTHENTICATED_BYTES_PER_ADDRESS/);
    assert.equal((await post('203.0.113.8')).status, 401, 'it is read, and its signature is of other bytes');
    for (const socket of held) socket.destroy();
    await until(async () => (await post('203.0.113.7')).status === 401, { withinMs: 10_000, what: 'room again' });
  });

  it('a body that does not say how long it is counts as the longest', async () => {
    await using server = await startServer({
      SYNC_POLICY_REPO_WEBHOOK_SECRET: SECRET,
      SYNC_UNAUTHENTICATED_BYTES_PER_ADDRESS: String(5 * MIB),
    });
    const chunked = ['Transfer-Encoding', 'chunked'] as const;
    const head = requestBytes({
      method: 'POST',
      target: '/webhook',
      headers: [['X-Hub-Signature-256', signature('{}')], chunked],
    });
    const held = connect(server.port, '127.0.0.1');
    held.on('error', () => undefined);
    held.write(head);
    await until(async () => (await statusOf(server.url)) === 429, { withinMs: 10_000, what: 'no room' });
    held.destroy();
  });

  async function statusOf(url: string): Promise<number> {
    return (await postJson(`${url}/webhook`, PAYLOAD, { 'x-hub-signature-256': signature(PAYLOAD) })).status;
  }

  it('connections on which nobody was let in are so many; those of callers with a token do not count', async () => {
    await using server = await startServer({ ...withKeys(), SYNC_CONNECTIONS_PER_ADDRESS: '8' });
    const token = await tokenOf(server.url, { type: 'client' });
    await using peers = together<StartedPeer>();
    for (let count = 0; count < 12; count++) peers.add(await startPeer(server.url, bearer(token)));
    const idle = await Promise.all(
      Array.from({ length: 30 }, async () => {
        const socket = connect(server.port, '127.0.0.1');
        socket.on('error', () => undefined);
        await once(socket, 'connect');
        return socket;
      }),
    );
    const ends = idle.map((socket) => once(socket, 'close'));
    await until(() => idle.filter(({ closed }) => closed).length >= 22, {
      withinMs: 10_000,
      what: 'the others are cut',
    });
    for (const socket of idle) socket.destroy();
    await Promise.all(ends);
    const answer = await until(() => request(`${server.url}/healthcheck`).catch(() => undefined), {
      withinMs: 10_000,
      what: 'room again',
    });
    assert.equal(answer.status, 200);
  });

  it('behind a trusted proxy sockets and requests count for the address that it names', async () => {
    await using server = await startServer({
      ...withKeys(),
      SYNC_TRUSTED_PROXIES: '127.0.0.0/8',
      SYNC_RATE_LIMIT: '2 per hour',
    });
    const from = (address: string) => ({ headers: { 'x-forwarded-for': `1.2.3.4, ${address}` } });
    const ask = async (address: string) => (await request(`${server.url}/data/config`, from(address))).status;
    assert.deepEqual([await ask('203.0.113.7'), await ask('203.0.113.7'), await ask('203.0.113.7')], [401, 401, 429]);
    assert.equal(await ask('203.0.113.8'), 401);
    const upgrade = (address: string) =>
      exchange(server.port, upgradeBytes([['X-Forwarded-For', `203.0.113.9, ${address}`]]), { finish: true });
    assert.equal((await upgrade('203.0.113.7')).status, 429, 'the rate counts sockets of the address, too');
    assert.equal((await upgrade('203.0.113.10')).status, 401);
  });

  it('the addresses of a network of IPv6 are one: a single host may take each of them', async () => {
    await using server = await startServer({
      ...withKeys(),
      SYNC_TRUSTED_PROXIES: '127.0.0.0/8',
      SYNC_RATE_LIMIT: '2 per hour',
    });
    const ask = async (address: string) =>
      (await request(`${server.url}/data/config`, { headers: { 'x-forwarded-for': address } })).status;
    const one = ['2001:db8::1', '2001:db8:0:0:1:2:3:4', '2001:db8::ffff:0:1:1', '[2001:db8::5]:80'];
    assert.deepEqual(await Promise.all(one.map(ask)).then((all) => all.sort()), [401, 401, 429, 429]);
    assert.equal(await ask('2001:db8:0:1::1'), 401);
    assert.equal(await ask('::ffff:203.0.113.7'), 401);
  });

  it('without trusted proxies nobody says of himself where he comes from', async () => {
    await using server = await startServer({ SYNC_RATE_LIMIT: '2 per hour' });
    const statuses = [];
    for (let count = 0; count < 4; count++) {
      const headers = { 'x-forwarded-for': `203.0.113.${count}` };
      statuses.push((await request(`${server.url}/data/config`, { headers })).status);
    }
    assert.deepEqual(statuses, [200, 200, 429, 429]);
  });
});
