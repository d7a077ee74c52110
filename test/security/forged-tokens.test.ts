import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { bearer, keyPair, tokenOf, withKeys } from '../support/auth.js';
import { badUpgrades } from '../support/hostile-frames.js';
import { badAuthorizations } from '../support/hostile-tokens.js';
import { exchange, type Headers, requestBytes, upgradeBytes } from '../support/hostile-wire.js';
import { request } from '../support/http.js';
import { type StartedServer, startServer } from '../support/start-server.js';

/** Every forgery, over HTTP and on the socket. The same ones go to every route of both programs in test/flows/hostile-input.test.ts. */
describe('forged tokens', () => {
  let server: StartedServer;
  let forged: Readonly<Record<string, Headers>>;
  let good: string;

  before(async () => {
    const keys = keyPair();
    server = await startServer(withKeys(keys));
    good = await tokenOf(server.url, { type: 'datasource' });
    forged = badAuthorizations({ good, ...keys });
  });
  after(() => server?.[Symbol.asyncDispose]());

  it('there are at least 45 of them, and the token that they are made from is good', async () => {
    assert(Object.keys(forged).length >= 45, `${Object.keys(forged).length} forgeries`);
    assert.equal((await request(`${server.url}/data/config`, { headers: bearer(good) })).status, 200);
    const opened = await exchange(server.port, upgradeBytes([['Authorization', `Bearer ${good}`]]), { finish: true });
    assert.equal(opened.status, 101);
  });

  it('none reads, publishes, or is told why in words of the token', async () => {
    const problems: string[] = [];
    for (const [name, headers] of Object.entries(forged)) {
      for (const [method, target] of [
        ['GET', '/data/config'],
        ['GET', '/clients'],
        ['POST', '/data/config'],
      ] as const) {
        const body = method === 'POST' ? Buffer.from('{"entries":[]}') : undefined;
        const answer = await exchange(server.port, requestBytes({ method, target, headers, body }));
        // A header that is too long is refused before it is read.
        if (answer.status !== 401 && answer.status !== 431)
          problems.push(`${name}: ${method} ${target} ${answer.status}`);
        const presented = headers.find(([header]) => header === 'Authorization')?.[1] ?? '';
        if (presented.length > 30 && answer.text.includes(presented.slice(-20))) problems.push(`${name} is repeated`);
      }
    }
    assert.deepEqual(problems, []);
  });

  it('none opens the socket', async () => {
    const upgrades = badUpgrades(good, forged);
    const answers = await Promise.all(
      Object.keys(forged).map(async (name) => {
        const [bytes, statuses] = upgrades[name] ?? [Buffer.alloc(0), []];
        const { status } = await exchange(server.port, bytes, { finish: true });
        return statuses.includes(status) ? [] : [`${name}: ${status}`];
      }),
    );
    assert.deepEqual(answers.flat(), []);
  });

  it('a token in the query, in a cookie or in a subprotocol is none', async () => {
    for (const bytes of [
      upgradeBytes([], `/ws?access_token=${good}&token=${good}`),
      upgradeBytes([['Cookie', `token=${good}; Authorization=Bearer ${good}`]]),
      upgradeBytes([['Sec-WebSocket-Protocol', `bearer, ${good}`]]),
      upgradeBytes([['Proxy-Authorization', `Bearer ${good}`]]),
    ]) {
      assert.equal((await exchange(server.port, bytes, { finish: true })).status, 401);
    }
  });
});
