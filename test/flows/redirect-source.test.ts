import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { test } from 'node:test';
import { importPKCS8, SignJWT } from 'jose';
import { pino } from 'pino';
import { keyPair, tokenOf, withKeys } from '../support/auth.js';
import { startDataSource } from '../support/data-source.js';
import { field, request } from '../support/http.js';
import { repoRoot } from '../support/repo.js';
import { failing, startClient } from '../support/start-client.js';
import { startServer } from '../support/start-server.js';
import { until } from '../support/until.js';

/** The external data source of examples/, as a process of its own. */
interface ExternalSource extends AsyncDisposable {
  /** Where it answers entries. */
  readonly url: string;
  /** Everything that it wrote. */
  output(): string;
}

async function startExternalSource(publicKey: string): Promise<ExternalSource> {
  const child = spawn(process.execPath, [join(repoRoot(), 'examples/external-data-source/server.mjs')], {
    env: { PATH: process.env.PATH, SYNC_AUTH_PUBLIC_KEY: publicKey, PORT: '0' },
  });
  let output = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (text: string) => {
      output += text;
    });
  }
  const closed = once(child, 'close');
  const url = await until(() => /http:\S+/.exec(output)?.[0], { withinMs: 15_000, what: 'the example listens' });
  return {
    url,
    output: () => output,
    [Symbol.asyncDispose]: async () => {
      child.kill();
      await closed;
    },
  };
}

const CLAIMS = { aud: 'https://api.opal.ac/v1/', iss: 'https://opal.ac/', tenant: 'acme' };

async function sign(privateKey: string, claims: Record<string, unknown>, expires = '1h'): Promise<string> {
  const key = await importPKCS8(privateKey, 'RS256');
  return new SignJWT(claims).setProtectedHeader({ alg: 'RS256' }).setExpirationTime(expires).sign(key);
}

const ENV = { SYNC_POLICY_UPDATER_ENABLED: 'false' };

test('two clients with different tokens get different data by way of the external data source', async () => {
  const keys = keyPair();
  await using source = await startExternalSource(keys.publicKey);
  const serverLog: string[] = [];
  await using server = await startServer(
    { ...withKeys(keys), SYNC_DATA_CONFIG_SOURCES: JSON.stringify({ external_source_url: source.url }) },
    { log: pino({ level: 'debug' }, { write: (line) => void serverLog.push(line) }) },
  );
  const tokens = await Promise.all(
    ['acme', 'globex'].map((tenant) => tokenOf(server.url, { type: 'client', claims: { tenant } })),
  );
  const [first = '', second = ''] = tokens;
  await using acme = await startClient({ serverUrl: server.url, env: { ...ENV, SYNC_CLIENT_TOKEN: first } });
  await using globex = await startClient({ serverUrl: server.url, env: { ...ENV, SYNC_CLIENT_TOKEN: second } });
  await acme.holds('/users', { alice: { role: 'admin' }, bob: { role: 'reader' } });
  await globex.holds('/users', { carol: { role: 'admin' } });
  await acme.healthy();
  await globex.healthy();

  const logs = [
    ...serverLog,
    ...acme.log.map((line) => JSON.stringify(line)),
    ...globex.log.map((line) => JSON.stringify(line)),
  ];
  assert(logs.length > 10);
  for (const token of tokens) {
    assert(!logs.join('\n').includes(token), 'a token is in a log');
    assert(!source.output().includes(token), "a token is in the example's log");
  }
});

test('a client whose token has no claim is told so, and so is who asks for its health', async () => {
  const keys = keyPair();
  await using source = await startExternalSource(keys.publicKey);
  const sources = JSON.stringify({ external_source_url: source.url });
  await using server = await startServer({ ...withKeys(keys), SYNC_DATA_CONFIG_SOURCES: sources });
  const token = await tokenOf(server.url, { type: 'client' });
  await using client = await startClient({ serverUrl: server.url, env: { ...ENV, SYNC_CLIENT_TOKEN: token } });
  const health = await client.tells('it says why', (json) => failing(json).length === 1);
  assert.match(
    failing(health.json)[0] ?? '',
    /API that the sync server redirects to answered 401 .*no claim \\?"tenant/,
  );
  assert(!health.text.includes(token));
  assert(!JSON.stringify(client.log).includes(token));
});

test('an external data source that repeats the token or ends brings it into no log', async () => {
  const keys = keyPair();
  await using source = await startDataSource();
  const sources = JSON.stringify({ external_source_url: `${source.url}/config?own=1` });
  await using server = await startServer({ ...withKeys(keys), SYNC_DATA_CONFIG_SOURCES: sources });
  const token = await tokenOf(server.url, { type: 'client' });
  source.answer(`/config?own=1&token=${token}`, { status: 500, text: `cannot answer /config?own=1&token=${token}` });
  await using client = await startClient({ serverUrl: server.url, env: { ...ENV, SYNC_CLIENT_TOKEN: token } });
  const health = await client.tells('it is told', (json) => /answered 500/.test(failing(json)[0] ?? ''));
  assert.match(failing(health.json)[0] ?? '', /token=\*\*\*/);
  await source[Symbol.asyncDispose]();
  const gone = await client.tells('it is gone', (json) => /ECONNREFUSED|does not answer/.test(failing(json)[0] ?? ''));
  assert(!`${health.text}${gone.text}${JSON.stringify(client.log)}`.includes(token));
});

test('the server redirects with the token of the caller, and without one answers 401 in place of a redirect', async () => {
  const keys = keyPair();
  await using server = await startServer({
    ...withKeys(keys),
    SYNC_DATA_CONFIG_SOURCES: JSON.stringify({ external_source_url: 'https://api.example/entries?v=1' }),
  });
  const token = await tokenOf(server.url, { type: 'client' });
  const authorized = await request(`${server.url}/data/config`, { headers: { authorization: `Bearer ${token}` } });
  assert.equal(authorized.status, 307);
  assert.equal(authorized.headers.get('location'), `https://api.example/entries?v=1&token=${token}`);
  const none = await request(`${server.url}/data/config`);
  assert.equal(none.status, 401);
  assert.equal(none.headers.get('location'), null);
});

test('the example answers 401 with a description: no token, a token that is not valid, a valid one without the claim', async () => {
  const keys = keyPair();
  await using source = await startExternalSource(keys.publicKey);
  const cases: [what: string, token: string | undefined, says: RegExp][] = [
    ['none', undefined, /token.*was not provided/],
    ['an empty one', '', /was not provided/],
    ['no JWT', 'x.y.z', /not valid/],
    ['of another key', await sign(keyPair().privateKey, CLAIMS), /not valid/],
    ['expired', await sign(keys.privateKey, CLAIMS, '-1h'), /not valid/],
    ['another audience', await sign(keys.privateKey, { ...CLAIMS, aud: 'x' }), /not valid/],
    ['another issuer', await sign(keys.privateKey, { ...CLAIMS, iss: 'x' }), /not valid/],
    ['another algorithm', await unsigned(CLAIMS), /not valid/],
    ['no claim', await sign(keys.privateKey, { ...CLAIMS, tenant: undefined }), /no claim "tenant"/],
    ['an unknown tenant', await sign(keys.privateKey, { ...CLAIMS, tenant: '__proto__' }), /claim "tenant"/],
  ];
  for (const [what, token, says] of cases) {
    const answer = await request(token === undefined ? source.url : `${source.url}?token=${encodeURIComponent(token)}`);
    assert.equal(answer.status, 401, what);
    assert.match(String(field(answer.json, 'detail')), says, what);
    assert(token === undefined || token === '' || !answer.text.includes(token), 'the answer repeats the token');
  }
  const good = await request(`${source.url}?token=${await sign(keys.privateKey, CLAIMS)}`);
  assert.equal(good.status, 200);
  assert.equal(field(good.json, 'entries', 0, 'dst_path'), '/users');
});

/** A token of the algorithm `none`. */
async function unsigned(claims: object): Promise<string> {
  const part = (value: object): string => Buffer.from(JSON.stringify(value)).toString('base64url');
  return `${part({ alg: 'none' })}.${part({ ...claims, exp: 4_000_000_000 })}.`;
}
