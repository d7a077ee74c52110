import assert from 'node:assert/strict';
import { readdir, readFile, stat, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { createLocalJWKSet, decodeJwt, decodeProtectedHeader, jwtVerify } from 'jose';
import { clientAuthenticator } from '../../src/auth/security.js';
import { bearer, keyPair, MASTER_TOKEN, tokenOf, withKeys } from '../support/auth.js';
import { field, postJson, request } from '../support/http.js';
import { CLIENT_SETTINGS, loadSettings } from '../support/library.js';
import { runHere } from '../support/run-here.js';
import { type StartedServer, startServer } from '../support/start-server.js';
import { tempDir } from '../support/temp-dir.js';

/** `POST /token`, the JWKS and `policysync token`, on a real server. */

const MASTER = bearer(MASTER_TOKEN);

const pair = keyPair();

describe('tokens', () => {
  let server: StartedServer;
  before(async () => {
    server = await startServer(withKeys(pair));
  });
  after(() => server[Symbol.asyncDispose]());

  it('a token is issued in the documented form, and every OPAL peer can verify it', async () => {
    const id = '5A8E53A5421042178180D29A6851552B';
    const before = Math.floor(Date.now() / 1000);
    const answer = await postJson(
      `${server.url}/token`,
      { id, type: 'listener', ttl: 'PT1H', claims: { tenant: 't' } },
      MASTER,
    );
    assert.equal(answer.status, 200, answer.text);
    const { token, details, ...rest } = answer.json as { token: string; details: { expired: string } };
    assert.deepEqual(rest, { type: 'bearer' });
    const { expired, ...others } = details;
    assert.deepEqual(others, {
      id: '5a8e53a5-4210-4217-8180-d29a6851552b',
      type: 'listener',
      claims: { peer_type: 'listener', tenant: 't' },
    });
    assert.match(expired, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}$/);

    const { iat = 0, exp = 0, ...claims } = decodeJwt(token);
    assert.deepEqual(claims, {
      aud: 'https://api.opal.ac/v1/',
      iss: 'https://opal.ac/',
      sub: '5a8e53a5421042178180d29a6851552b',
      peer_type: 'listener',
      tenant: 't',
    });
    assert.ok(Number.isInteger(iat) && iat >= before && Number.isInteger(exp));
    assert.ok(Math.abs(exp - iat - 3600) <= 1);
    assert.equal(Math.floor(Date.parse(`${expired}Z`) / 1000), exp);

    const jwks = await request(`${server.url}/.well-known/jwks.json`);
    assert.equal(jwks.status, 200);
    assert.match(jwks.headers.get('cache-control') ?? '', /public, max-age=\d+/);
    const { keys } = jwks.json as { keys: { kty: string; kid: string }[] };
    assert.equal(keys.length, 1);
    assert.deepEqual(Object.keys(keys[0] ?? {}).sort(), ['alg', 'e', 'key_ops', 'kid', 'kty', 'n', 'use']);
    assert.equal(decodeProtectedHeader(token).kid, keys[0]?.kid);
    await jwtVerify(token, createLocalJWKSet({ keys }), { audience: String(claims.aud), issuer: String(claims.iss) });

    const settings = loadSettings(CLIENT_SETTINGS, {
      env: { OPAL_AUTH_PUBLIC_KEY: pair.publicKey.trim().replaceAll('\n', '_') },
    });
    const caller = await (await clientAuthenticator(settings.values)).authenticate(`Bearer ${token}`);
    assert.equal(caller.peerType, 'listener');
  });

  it('a publisher has the name of its token wherever it is shown', async () => {
    const name = 'Billing (EU), "team" 7';
    const env = { SYNC_SERVER_URL: server.url, SYNC_MASTER_TOKEN: MASTER_TOKEN };
    const issued = async (...more: string[]) => {
      const { stdout, stderr } = await runHere('policysync', ['token', '--json', '--id', name, ...more], env);
      assert.equal(stderr, '');
      return JSON.parse(stdout) as { token: string; details: { id: string } };
    };
    const { token, details } = await issued('--type', 'datasource');
    const { sub = '', name: named } = decodeJwt(token);
    // OPAL's peers take no other subject than a UUID, and parse `details.id` as one.
    assert.match(sub, /^[0-9a-f]{32}$/);
    assert.deepEqual([named, details.id.replaceAll('-', '')], [name, sub]);
    assert.equal(decodeJwt((await issued()).token).sub, sub, 'another token of that name is of the same holder');

    const ask = async (path: string, init: RequestInit = {}) =>
      (await request(`${server.url}${path}`, { ...init, headers: { ...bearer(token) } })).json;
    const entries = [{ url: '', topics: ['policy_data'], dst_path: '/named', data: { a: 1 } }];
    const published = await postJson(`${server.url}/data/config`, { id: 'n1', entries }, bearer(token));
    assert.equal(published.status, 200, published.text);

    assert.equal(field(await ask(`/data/log?publisher=${encodeURIComponent(name)}`), 'updates', 0, 'publisher'), name);
    assert.equal(field(await ask('/trace/n1'), 'publisher'), name);
    assert.equal(field(await ask('/changes?limit=1'), 'changes', 0, 'by'), name);
    assert.equal(field(await ask('/data/documents?path=/named'), 'documents', 0, 'publisher'), name);
    const shown = { SYNC_SERVER_URL: server.url, SYNC_CLIENT_TOKEN: token };
    for (const args of [
      ['log', '--publisher', name],
      ['trace', 'n1'],
    ]) {
      const { stdout, stderr } = await runHere('policysync', args, shown);
      assert(stdout.includes(name), stdout + stderr);
    }
  });

  it('without anything asked for it is a client token of a new subject for a year', async () => {
    const [first, second] = [decodeJwt(await tokenOf(server.url)), decodeJwt(await tokenOf(server.url))];
    assert.equal(first.peer_type, 'client');
    assert.notEqual(first.sub, second.sub);
    assert.ok(Math.abs((first.exp ?? 0) - (first.iat ?? 0) - 365 * 86_400) <= 1);
  });

  it('only who has the master token gets one, and a refusal echoes nothing', async () => {
    const refused = async (headers: Record<string, string>) => {
      // Not even what is wrong with the body is told to others.
      const answer = await postJson(`${server.url}/token`, '{"type":', headers);
      assert.equal(answer.status, 401);
      assert.equal(answer.headers.get('www-authenticate'), 'Bearer');
      return field(answer.json, 'detail');
    };
    assert.deepEqual(await refused({}), { error: 'Authorization header is required!' });
    for (const wrong of [
      'Bearer hush',
      `Basic ${MASTER_TOKEN}`,
      `Bearer ${MASTER_TOKEN}x`,
      `Bearer ${await tokenOf(server.url)}`,
    ]) {
      assert.deepEqual(await refused({ authorization: wrong }), { error: 'unauthorized to access this endpoint!' });
    }
  });

  it('what cannot be issued is refused with the name of the field', async () => {
    const rows: [unknown, string][] = [
      [{ ttl: -1 }, 'ttl'],
      [{ ttl: 0 }, 'ttl'],
      [{ ttl: 'P1Y' }, 'ttl'],
      [{ ttl: 1e12 }, 'ttl'],
      [{ ttl: null }, 'ttl'],
      [{ ttl: true }, 'ttl'],
      [{ id: '' }, 'id'],
      [{ id: ' ann' }, 'id'],
      [{ id: 'a\u001b[2Jb' }, 'id'],
      [{ id: 'a'.repeat(65) }, 'id'],
      [{ id: 'ann', claims: { name: 'bob' } }, 'claims.name'],
      [{ id: 5 }, 'id'],
      [{ type: 'admin' }, 'type'],
      [{ type: 5 }, 'type'],
      [{ claims: [] }, 'claims'],
      [{ claims: { permitted_topics: 'a' } }, 'claims.permitted_topics'],
      ...['sub', 'exp', 'iat', 'aud', 'iss', 'nbf', 'jti', 'peer_type'].map((name): [unknown, string] => [
        { claims: { [name]: 'x' } },
        `claims.${name}`,
      ]),
      [{ claim: {} }, ''],
      [[], ''],
    ];
    for (const [body, place] of rows) {
      const answer = await postJson(`${server.url}/token`, body, MASTER);
      assert.equal(answer.status, 422, JSON.stringify(body));
      const loc = field(answer.json, 'detail', 0, 'loc');
      assert.deepEqual(loc, ['body', ...(place === '' ? [] : place.split('.'))], answer.text);
    }
    assert.equal((await postJson(`${server.url}/token`, '', MASTER)).status, 422);
  });

  it('without a master token, and without keys, nobody gets a token', async () => {
    const { SYNC_AUTH_MASTER_TOKEN, ...keys } = withKeys(pair);
    await using noMaster = await startServer(keys);
    const forbidden = await postJson(`${noMaster.url}/token`, {}, MASTER);
    assert.deepEqual([forbidden.status, forbidden.headers.get('x-sync-error')], [403, 'tokens_not_issued']);
    await using noKeys = await startServer({ SYNC_AUTH_MASTER_TOKEN: String(SYNC_AUTH_MASTER_TOKEN) });
    const unavailable = await postJson(`${noKeys.url}/token`, {}, MASTER);
    assert.equal(unavailable.status, 503);
    assert.match(unavailable.text, /was not configured with security, cannot generate tokens!/);
    assert.deepEqual((await request(`${noKeys.url}/.well-known/jwks.json`)).json, { keys: [] });
  });

  it('the path of the JWKS is a setting', async () => {
    await using server = await startServer({ ...withKeys(pair), SYNC_AUTH_JWKS_URL: '/keys/jwks.json' });
    assert.equal((await request(`${server.url}/keys/jwks.json`)).status, 200);
    assert.equal((await request(`${server.url}/.well-known/jwks.json`)).status, 404);
    for (const SYNC_AUTH_JWKS_URL of ['http://x/:a', '/policy', '/loadlimit', '/docs', '/openapi.json']) {
      await assert.rejects(startServer({ SYNC_AUTH_JWKS_URL }), { code: 'config_invalid' }, SYNC_AUTH_JWKS_URL);
    }
  });

  it('token prints a token that the server takes', async () => {
    const env = { SYNC_SERVER_URL: server.url, OPAL_MASTER_TOKEN: MASTER_TOKEN };
    const plain = await runHere('policysync', ['token'], env);
    assert.equal(plain.code, 0, plain.stderr);
    assert.match(plain.stdout, /^[\w-]+\.[\w-]+\.[\w-]+\n$/);
    assert.equal((await request(`${server.url}/data/config`, { headers: bearer(plain.stdout.trim()) })).status, 200);

    const args = ['token', '--server-url', server.url, '--type', 'datasource', '--claims', '{"tenant":"t"}'];
    const whole = await runHere('policysync', [...args, '--no-just-the-token', '--ttl', '2', 'hours', MASTER_TOKEN]);
    assert.equal(whole.code, 0, whole.stderr);
    const answer: unknown = JSON.parse(whole.stdout);
    assert.deepEqual(field(answer, 'details', 'claims'), { peer_type: 'datasource', tenant: 't' });
    const { iat = 0, exp = 0 } = decodeJwt(String(field(answer, 'token')));
    assert.ok(Math.abs(exp - iat - 7200) <= 1);
  });

  it('token takes durations as people write them', async () => {
    const env = { SYNC_SERVER_URL: server.url, SYNC_MASTER_TOKEN: MASTER_TOKEN };
    for (const [words, seconds] of [
      [['30d'], 2_592_000],
      [['90m', MASTER_TOKEN], 5400],
      [['1h 30m'], 5400],
      [['2 weeks'], 1_209_600],
      [['P1DT12H'], 129_600],
      [['1', 'day', MASTER_TOKEN], 86_400],
    ] as const) {
      const { stdout, stderr } = await runHere('policysync', ['token', '--json', '--ttl', ...words], env);
      assert.equal(stderr, '');
      const { iat = 0, exp = 0 } = decodeJwt(String(field(JSON.parse(stdout), 'token')));
      assert.ok(Math.abs(exp - iat - seconds) <= 1, words.join(' '));
    }
  });

  it('token --out writes a file that its owner alone may read, and follows no link', async () => {
    await using dir = await tempDir();
    const file = join(dir.path, 'publisher-token');
    await writeFile(file, 'the token before', { mode: 0o644 });
    const env = { SYNC_SERVER_URL: server.url, SYNC_MASTER_TOKEN: MASTER_TOKEN };
    const args = ['token', '--type', 'datasource', '--id', 'billing', '--out'];
    const { code, stdout, stderr } = await runHere('policysync', [...args, file], env);
    assert.equal(code, 0, stderr);
    assert.equal(stdout, `Wrote ${file}: a token of type datasource for billing, for its owner alone.\n`);
    const token = await readFile(file, 'utf8');
    assert.equal(decodeJwt(token.trim()).name, 'billing');
    assert.equal((await stat(file)).mode & 0o777, 0o600);
    const json = JSON.parse((await runHere('policysync', [...args, file, '--json'], env)).stdout);
    assert.deepEqual([field(json, 'token_file'), field(json, 'token')], [file, undefined]);

    const before = await readFile(file, 'utf8');
    const link = join(dir.path, 'link');
    await symlink(file, link);
    for (const [path, what] of [
      [link, /--out: .*link is a link: give the path of the file itself/],
      [dir.path, /--out: .* is a folder/],
      [join(dir.path, 'none', 'token'), /--out: .*token cannot be written: its folder does not exist/],
      [join(file, 'token'), /--out: .*token cannot be written: a part of its path is no folder/],
    ] as const) {
      const refused = await runHere('policysync', [...args, path], env);
      assert.deepEqual([refused.code, refused.stdout], [2, ''], refused.stderr);
      assert.match(refused.stderr, what);
    }
    assert.equal(await readFile(file, 'utf8'), before);
    assert.deepEqual((await readdir(dir.path)).sort(), ['link', 'publisher-token']);
  });

  it('token that fails says why: 2 for a wrong call, 1 for the rest', async () => {
    const rows: [string[], number, RegExp][] = [
      [[], 2, /give the master token/],
      [['m', '--ttl', '5'], 2, /--ttl takes a duration: 30d, .*\(is "5"\)/],
      [['m', '--ttl', '-5', 'days'], 2, /ttl/],
      [['--ttl', '5', 'fortnights', 'm'], 2, /--ttl takes/],
      [['m', '--ttl', '5', 'days', 'm'], 2, /--ttl takes/],
      [['m', '--claims', '[]'], 2, /--claims must be a JSON object/],
      [['m', '--type', 'admin'], 2, /Allowed choices are client, datasource, listener/],
      [
        ['hush'],
        1,
        /the master token is not that of the server \(.* answered 401: unauthorized to access this endpoint!\)/,
      ],
      [[await tokenOf(server.url)], 1, /what was given is a token of type client, not the master token/],
      [['m', '--type', 'client', '--id', ''], 2, /--id has an empty value/],
      [[MASTER_TOKEN, '--ttl', '100000', 'weeks'], 1, /answered 422: body\.ttl: must be from 1 second to 3660 days/],
      [['m', '--server-url', 'http://127.0.0.1:1'], 1, /no token: no answer from http:\/\/127\.0\.0\.1:1/],
    ];
    for (const [args, code, message] of rows) {
      const result = await runHere('policysync', ['token', ...args], { SYNC_SERVER_URL: server.url });
      assert.equal(result.code, code, `${args.join(' ')}: ${result.stderr}`);
      assert.match(result.stderr, message);
      assert.doesNotMatch(result.stderr, /hush/);
      assert.equal(result.stdout, '');
    }
  });
});
