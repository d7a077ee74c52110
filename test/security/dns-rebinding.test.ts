import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { operations } from '../support/hostile-requests.js';
import { exchange, requestBytes, upgradeBytes } from '../support/hostile-wire.js';
import { startHostileWorld } from '../support/hostile-world.js';
import { request } from '../support/http.js';
import { startServer } from '../support/start-server.js';

/** A page of `http://evil.example:7002` whose name leads to 127.0.0.1 since a moment ago. */
const REBOUND = [
  ['Host', 'evil.example:7002'],
  ['Origin', 'http://evil.example:7002'],
] as const;

describe('a name that a page has lead to this machine', () => {
  it('opens no route of either program, no documentation and no socket', async () => {
    await using world = await startHostileWorld();
    for (const program of ['server', 'client'] as const) {
      const { url } = world[program];
      const port = world.portOf(url);
      const all = operations((await request(`${url}/openapi.json`)).json);
      const targets = [
        ...all.map(({ method, path }) => ({ method, target: path })),
        ...['/docs', '/docs/', '/openapi.json', '/nothing', '/healthy', '/healthcheck', '/metrics'].map((target) => ({
          method: 'GET',
          target,
        })),
        { method: 'OPTIONS', target: '/data/config' },
      ];
      for (const { method, target } of targets) {
        for (const headers of [REBOUND, [['Host', '127.0.0.1.evil.example']] as const]) {
          const body = method === 'GET' ? undefined : Buffer.from('{}');
          const answer = await exchange(port, requestBytes({ method, target, headers, body }));
          assert.equal(answer.status, 421, `${program} ${method} ${target}: ${answer.text}`);
          assert.match(answer.text, /x-sync-error: host_refused/i);
          assert.match(answer.text, /SYNC_ALLOWED_HOSTS/);
          assert.deepEqual(world.leaks(answer.text), []);
        }
      }
    }
    const socket = await exchange(world.server.port, upgradeBytes(REBOUND), { finish: true });
    assert.equal(socket.status, 421, socket.text);
  });

  it('is taken where the operator has named it, and loopback names always are', async () => {
    await using server = await startServer({ SYNC_ALLOWED_HOSTS: 'policies.example, .team.example' });
    const statusFor = async (host: string): Promise<number> =>
      (await exchange(server.port, requestBytes({ method: 'GET', target: '/healthcheck', headers: [['Host', host]] })))
        .status;
    for (const host of [
      'policies.example',
      'a.team.example:80',
      'localhost:7002',
      '127.0.0.1',
      '[::1]:7002',
      'x.localhost',
    ]) {
      assert.equal(await statusFor(host), 200, host);
    }
    for (const host of ['evil.example', 'policies.example.evil.example', 'team.example.', 'localhost.evil']) {
      assert.equal(await statusFor(host), 421, host);
    }
  });

  it('opens nothing where the program listens on a name that leads to loopback', async () => {
    // A spelling that only the system reads, as it reads a name.
    await using server = await startServer({ SYNC_SERVER_HOST: '127.1' });
    for (const [host, status] of [
      ['evil.example', 421],
      ['localhost', 200],
    ] as const) {
      const headers = [['Host', host]] as const;
      const answer = await exchange(server.port, requestBytes({ method: 'GET', target: '/healthcheck', headers }));
      assert.equal(answer.status, status, answer.text);
    }
    const socket = await exchange(server.port, upgradeBytes(REBOUND), { finish: true });
    assert.equal(socket.status, 421, socket.text);
  });

  it('a listener that is on a network takes every name, since it cannot know its own', async () => {
    await using server = await startServer({ SYNC_SERVER_HOST: '0.0.0.0' });
    const headers = [['Host', 'sync-server.internal:7002']] as const;
    assert.equal(
      (await exchange(server.port, requestBytes({ method: 'GET', target: '/healthcheck', headers }))).status,
      200,
    );
  });
});
