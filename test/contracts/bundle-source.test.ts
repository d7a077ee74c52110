import assert from 'node:assert/strict';
import { readdir, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { after, before, describe, test } from 'node:test';
import type { SyncError } from '../../src/lib/errors.js';
import { silentLogger } from '../../src/lib/observe/log.js';
import { readSettings } from '../../src/lib/settings/options.js';
import { SERVER_SETTINGS } from '../../src/server/options.js';
import { type ImportFile, importCommit } from '../../src/server/policy/source/archive.js';
import { bundleLocation } from '../../src/server/policy/source/bundle-api-config.js';
import { type BundleSourceOptions, createBundleSource } from '../../src/server/policy/source/bundle-api-source.js';
import { createGitCommand } from '../../src/server/policy/source/git-command.js';
import { BAD_ARCHIVES, bundleOf, TEST_LIMITS, tarGz } from '../support/archive.js';
import { type BundleHttpServer, bundleHttpServer } from '../support/bundle-http-server.js';
import { PROXY_PASSWORD, startProxy } from '../support/connect-proxy.js';
import { runGit } from '../support/git-repo.js';
import { listening } from '../support/http-server.js';
import { followSource, type PolicyPart, type PolicyPartOptions } from '../support/policy-part.js';
import { S3_KEYS, s3Server } from '../support/s3.js';
import { type TempDir, tempDir } from '../support/temp-dir.js';
import { until } from '../support/until.js';

/** A bundle server of any kind, and the settings that reach it. */
interface Remote extends AsyncDisposable {
  readonly env: Record<string, string>;
  put(archive: Buffer): Promise<void>;
}

function httpRemote(options: Parameters<typeof bundleHttpServer>[0], env = {}): () => Promise<Remote> {
  return async () => {
    const server = await bundleHttpServer(options);
    return { ...server, env: { SYNC_POLICY_BUNDLE_URL: server.url, ...env } };
  };
}

const REMOTES: Record<string, () => Promise<Remote>> = {
  'an HTTP server': httpRemote({ etags: 'sent' }),
  'an HTTP server without ETag': httpRemote({ etags: 'none' }),
  'an HTTP server that ignores If-None-Match': httpRemote({ etags: 'ignored' }),
  'an HTTP server with a bearer token': httpRemote({ token: 'tok-1' }, { POLICY_BUNDLE_SERVER_TOKEN: 'tok-1' }),
  'an S3 server': async () => {
    const server = await s3Server();
    return { ...server, env: s3Env(server.url, server.region) };
  },
};

function s3Env(url: string, region: string): Record<string, string> {
  return {
    SYNC_POLICY_BUNDLE_URL: url,
    SYNC_POLICY_BUNDLE_SERVER_TYPE: 'AWS-S3',
    SYNC_POLICY_BUNDLE_SERVER_TOKEN_ID: S3_KEYS.accessKeyId,
    SYNC_POLICY_BUNDLE_SERVER_TOKEN: S3_KEYS.secretAccessKey,
    SYNC_POLICY_BUNDLE_SERVER_AWS_REGION: region,
  };
}

function follow(
  env: Record<string, string>,
  repoPath: string,
  options: Partial<BundleSourceOptions> & PolicyPartOptions = {},
): PolicyPart {
  const location = bundleLocation(readSettings(SERVER_SETTINGS, { env }).values);
  const source = { location, repoPath, limitBytes: 1024 * 1024, ...TEST_LIMITS, fetchTimeoutMs: 5_000, env: {} };
  const path = process.env.PATH ?? '';
  return followSource(
    createBundleSource({ ...source, env: { PATH: path }, ...options }, { log: silentLogger() }),
    options,
  );
}

/** Waits until the part's status says this. */
function says(part: PolicyPart, what: RegExp): Promise<unknown> {
  return until(() => what.test(part.tracker.status().error ?? ''), {
    withinMs: 20_000,
    what: `${what}; status ${JSON.stringify(part.tracker.status())}`,
  });
}

for (const [how, startRemote] of Object.entries(REMOTES)) {
  describe(`bundles of ${how}`, () => {
    let dir: TempDir;
    let remote: Remote;
    let part: PolicyPart;
    before(async () => {
      dir = await tempDir();
      remote = await startRemote();
      await remote.put(await bundleOf({ 'a/m.rego': 'package a', 'b/m.rego': 'package b', 'b/data.json': '{"x":1}' }));
      part = follow(remote.env, join(dir.path, 'repo'));
      await part.serves();
    });
    after(async () => {
      for (const each of [part, remote, dir]) await each[Symbol.asyncDispose]();
    });

    test(`${how}: the first bundle, then each new one as a delta; removed files disappear`, async () => {
      const first = part.tracker.head() ?? '';
      assert.deepEqual(part.changes, [{ oldHash: first, hash: first, changedDirectories: ['.', 'a', 'b'] }]);
      assert.deepEqual((await part.bundle()).manifest, ['a/m.rego', 'b/data.json', 'b/m.rego']);

      await part.tracker.refresh();
      assert.deepEqual([part.tracker.head(), part.changes.length], [first, 1], 'the same bundle is no change');

      await remote.put(await bundleOf({ 'a/m.rego': 'package a', 'b/m.rego': 'package b2' }));
      await part.tracker.refresh();
      const second = part.tracker.head() ?? '';
      assert.deepEqual(part.changes[1], { oldHash: first, hash: second, changedDirectories: ['.', 'b'] });
      const delta = await part.bundle([], first);
      assert.deepEqual([delta.old_hash, delta.hash, delta.manifest], [first, second, ['b/m.rego']]);
      assert.deepEqual(delta.deleted_files?.data_modules, ['b']);
      assert.deepEqual((await part.bundle()).manifest, ['a/m.rego', 'b/m.rego']);
    });

    test(`${how}: a broken bundle leaves the last good state and is named; the next good one is taken`, async () => {
      const good = part.tracker.head();
      const { policy_modules: served } = await part.bundle();
      await remote.put(await tarGz([{ name: '../evil.rego', content: 'package evil' }]));
      await part.tracker.refresh();
      const { state, head, error } = part.tracker.status();
      assert.deepEqual([state, head], ['failing', good]);
      assert.match(error ?? '', /"\.\.\/evil\.rego" leads out/);
      assert.equal(served[0]?.rego, 'package a');
      assert.deepEqual((await part.bundle()).policy_modules, served);
      await remote.put(await bundleOf({ 'm.rego': 'package b' }));
      await until(() => part.tracker.status().state === 'following', { withinMs: 20_000, what: 'the good bundle' });
      assert.notEqual(part.tracker.head(), good);
    });
  });
}

test('an HTTP server: polls without being asked', async () => {
  await using dir = await tempDir();
  await using server = await bundleHttpServer();
  await server.put(await bundleOf({ 'm.rego': 'package a' }));
  await using part = follow({ SYNC_POLICY_BUNDLE_URL: server.url }, join(dir.path, 'repo'), { pollingIntervalMs: 20 });
  await part.serves();
  const first = part.tracker.head();
  await server.put(await bundleOf({ 'm.rego': 'package b' }));
  await until(() => part.tracker.head() !== first, { withinMs: 20_000, what: 'the new bundle' });
});

test('a restart serves the last bundle before the server is asked, and does not download it again', async () => {
  await using dir = await tempDir();
  await using server = await bundleHttpServer();
  const env = { SYNC_POLICY_BUNDLE_URL: server.url };
  await server.put(await bundleOf({ 'm.rego': 'package a' }));
  let head: string | undefined;
  {
    await using part = follow(env, join(dir.path, 'repo'));
    await part.serves();
    head = part.tracker.head();
  }
  server.misbehave('silent');
  {
    await using part = follow(env, join(dir.path, 'repo'));
    await part.serves(head);
    assert.equal((await part.bundle()).hash, head);
  }
  server.misbehave(undefined);
  await using part = follow(env, join(dir.path, 'repo'));
  await part.serves(head);
  await part.tracker.refresh();
  assert.deepEqual([server.answered(200), part.tracker.status().state], [2, 'following']);
  assert(server.answered(304) >= 1);
});

describe('an archive that is refused', () => {
  let dir: TempDir;
  let server: BundleHttpServer;
  let part: PolicyPart;
  before(async () => {
    dir = await tempDir();
    server = await bundleHttpServer();
    await server.put(await bundleOf({ 'm.rego': 'package a' }));
    part = follow({ SYNC_POLICY_BUNDLE_URL: server.url }, join(dir.path, 'repo'));
    await part.serves();
  });
  after(async () => {
    for (const each of [part, server, dir]) await each[Symbol.asyncDispose]();
  });

  for (const [which, { bytes, says: message }] of Object.entries(BAD_ARCHIVES)) {
    test(`a bundle ${which} changes nothing`, async () => {
      const { hash } = await part.bundle();
      await server.put(await bytes());
      await part.tracker.refresh();
      assert.match(part.tracker.status().error ?? '', message);
      assert.deepEqual([part.tracker.head(), part.changes.length], [hash, 1]);
      assert.deepEqual(await readdir(dir.path), ['repo'], 'nothing is written beside the repository');
      assert(!(await readdir(join(dir.path, 'repo'))).some((name) => name.startsWith('tmp_')));
    });
  }

  test('the former one put back ends the failure', async () => {
    const { hash } = await part.bundle();
    await server.put(await bundleOf({ 'm.rego': 'package a' }));
    await part.tracker.refresh();
    const { state, error } = part.tracker.status();
    assert.deepEqual([state, error, part.tracker.head(), part.changes.length], ['following', undefined, hash, 1]);
  });
});

test('a broken bundle is not downloaded again while its ETag stays', async () => {
  await using dir = await tempDir();
  await using server = await bundleHttpServer();
  await server.put(await bundleOf({ 'm.rego': 'package a' }));
  await using part = follow({ SYNC_POLICY_BUNDLE_URL: server.url }, join(dir.path, 'repo'));
  await part.serves();
  await server.put(Buffer.from('not gzip'));
  await part.tracker.refresh();
  const looks = server.requests.length;
  for (let look = 0; look < 3; look++) await part.tracker.refresh();
  assert.match(part.tracker.status().error ?? '', /incorrect header check/);
  assert(server.requests.length > looks);
  assert.equal(server.answered(200), 2);
});

for (const [what, first] of [
  ['half written', async () => Buffer.from('half')],
  ['good', () => bundleOf({ 'm.rego': 'package a' })],
] as const) {
  test(`another archive under the ETag of a ${what} one is seen all the same: each tag is confirmed once`, async () => {
    await using dir = await tempDir();
    await using server = await bundleHttpServer({ fixedEtag: '"same"' });
    await server.put(await first());
    const next = await bundleOf({ 'm.rego': 'package b' });
    let nowMs = 1_700_000_000_000;
    const options = { now: () => nowMs, pollingIntervalMs: 20 };
    await using part = follow({ SYNC_POLICY_BUNDLE_URL: server.url }, join(dir.path, 'repo'), options);
    await until(() => server.answered(304) > 0, { withinMs: 20_000, what: 'the tag is relied on' });
    assert.equal(server.answered(200), 1);
    await server.put(next);
    const known = server.answered(304);
    nowMs += 59_000;
    await until(() => server.answered(304) > known + 2, { withinMs: 20_000, what: 'the tag is relied on, still' });
    assert.equal(server.answered(200), 1);
    nowMs += 1_000;
    await until(() => server.answered(200) === 2, { withinMs: 20_000, what: 'the new bundle' });
    await until(async () => (await part.bundle()).policy_modules[0]?.rego === 'package b', {
      withinMs: 20_000,
      what: 'it is served',
    });
    nowMs += 60_000;
    await until(() => server.answered(200) === 3, { withinMs: 20_000, what: 'its confirmation' });
    nowMs += 60_000;
    const looks = server.requests.length;
    await until(() => server.requests.length > looks + 20, { withinMs: 20_000, what: 'looks after the confirmation' });
    assert.equal(server.answered(200), 3);
  });
}

test('a commit that the review refuses is refused again from memory, not downloaded again', async () => {
  await using dir = await tempDir();
  await using server = await bundleHttpServer();
  await server.put(await bundleOf({ 'm.rego': 'package a' }));
  await using part = follow({ SYNC_POLICY_BUNDLE_URL: server.url }, join(dir.path, 'repo'));
  await part.serves();
  const good = part.tracker.head();
  await server.put(await bundleOf({ 'm.rego': 'package a', 'users/data.json': '{"a":' }));
  for (let look = 0; look < 3; look++) await part.tracker.refresh();
  assert.match(part.tracker.status().error ?? '', /users\/data\.json:1 is not valid JSON/);
  assert.deepEqual([part.tracker.head(), server.answered(200)], [good, 2]);
  await server.put(await bundleOf({ 'm.rego': 'package a' }));
  await part.tracker.refresh();
  const { state, error } = part.tracker.status();
  assert.deepEqual([part.tracker.head(), state, error], [good, 'following', undefined]);
});

test('a bundle over the limit as it is sent is not read to its end', async () => {
  for (const etags of ['sent', 'none'] as const) {
    await using dir = await tempDir();
    await using server = await bundleHttpServer({ etags });
    await server.put(await bundleOf({ 'm.rego': 'package a' }));
    await using part = follow({ SYNC_POLICY_BUNDLE_URL: server.url }, join(dir.path, 'repo'), { limitBytes: 50_000 });
    await part.serves();
    await server.put(Buffer.alloc(200_000, 'x'));
    await part.tracker.refresh();
    assert.match(part.tracker.status().error ?? '', /more than the 50000 bytes of SYNC_POLICY_BUNDLE_LIMIT_BYTES/);
    await part.tracker.refresh();
    if (etags === 'sent') assert.equal(server.answered(200), 2);
    await server.put(await bundleOf({ 'm.rego': 'package b' }));
    await until(() => part.tracker.status().state === 'following', { withinMs: 20_000, what: 'the good bundle' });
  }
});

/** What a server may answer instead of a bundle, and what the status says. */
const FAILURES: [string, Parameters<BundleHttpServer['misbehave']>[0], RegExp][] = [
  ['404', { status: 404 }, /answered 404: there is no bundle/],
  ['500', { status: 500 }, /answered 500/],
  ['an answer that breaks off', 'cut', /127\.0\.0\.1/],
  ['silence', 'silent', /not read within 0\.3 s/],
  ['304 without being asked', { status: 304 }, /answered 304/],
  [
    'a redirect to another origin',
    { status: 302, headers: { location: 'http://localhost:1/x' } },
    /answered 302 to http:\/\/localhost:1; only redirects within/,
  ],
  ['a redirect to nowhere', { status: 307 }, /307 without saying where/],
  ['a circle of redirects', { status: 302, headers: { location: '/base/bundle.tar.gz' } }, /more than 5 redirects/],
  [
    'a redirect of S3',
    { status: 301, headers: { 'x-amz-bucket-region': 'eu-west-1' } },
    /the bucket is in region "eu-west-1"/,
  ],
];

for (const [what, how, message] of FAILURES) {
  test(`${what}: is said, is tried again by itself, and keeps nothing from being served`, async () => {
    await using dir = await tempDir();
    await using server = await bundleHttpServer();
    server.misbehave(how);
    await server.put(await bundleOf({ 'm.rego': 'package a' }));
    const env = { SYNC_POLICY_BUNDLE_URL: `${server.url}?sig=s3cret` };
    await using part = follow({ SYNC_POLICY_BUNDLE_URL: server.url }, join(dir.path, 'repo'), { fetchTimeoutMs: 300 });
    await says(part, message);
    assert.match(part.tracker.status().error ?? '', /^http:\/\/127\.0\.0\.1:\d+\/base\/bundle\.tar\.gz: /);
    const looks = server.requests.length;
    await until(() => server.requests.length > looks, { withinMs: 20_000, what: 'another try' });
    server.misbehave(undefined);
    await part.serves();
    const head = part.tracker.head();
    server.misbehave(how);
    if (typeof how !== 'object' || how.status !== 304) {
      await part.tracker.refresh();
      assert.deepEqual([part.tracker.status().state, (await part.bundle()).hash], ['failing', head]);
    }
    await using other = follow(env, join(dir.path, 'other'), { fetchTimeoutMs: 300 });
    await until(() => other.tracker.status().error !== undefined || other.tracker.head(), {
      withinMs: 20_000,
      what: 'a look with a secret in the query',
    });
    assert.doesNotMatch(JSON.stringify(other.tracker.status()), /s3cret/);
  });
}

test('a redirect within the origin is followed, with the token on each hop', async () => {
  await using dir = await tempDir();
  await using server = await bundleHttpServer({ token: 'tok-1' });
  await server.put(await bundleOf({ 'm.rego': 'package a' }));
  const env = { SYNC_POLICY_BUNDLE_URL: server.url.replace('/base', '/moved'), POLICY_BUNDLE_SERVER_TOKEN: 'tok-1' };
  await using part = follow(env, join(dir.path, 'repo'));
  await part.serves();
  await part.tracker.refresh();
  assert.deepEqual(
    server.requests.slice(0, 4).map(({ status }) => status),
    [302, 200, 302, 304],
  );
});

test('a wrong token is said, and not repeated', async () => {
  await using dir = await tempDir();
  await using server = await bundleHttpServer({ token: 'tok-1' });
  const env = { SYNC_POLICY_BUNDLE_URL: server.url, POLICY_BUNDLE_SERVER_TOKEN: 'tok-wrong' };
  await using part = follow(env, dir.path);
  await says(part, /answered 401$/);
  assert.doesNotMatch(JSON.stringify(part.tracker.status()), /tok-/);
});

test('an import that breaks off makes no commit, and what broke it is thrown on', async () => {
  await using dir = await tempDir();
  await runGit(['init', '--quiet', '--bare', dir.path]);
  const git = createGitCommand({ gitDir: dir.path, env: { PATH: process.env.PATH ?? '' } });
  const broken = new Error('the source broke');
  const files = async function* (): AsyncGenerator<ImportFile> {
    yield { path: 'a', sizeBytes: 1, content: Readable.from([Buffer.from('x')]) };
    throw broken;
  };
  await assert.rejects(importCommit(git, 'refs/x', files(), new AbortController().signal), broken);
  assert.equal(await runGit(['-C', dir.path, 'for-each-ref']), '');
});

test('a proxy forwards plain HTTP and tunnels HTTPS; what NO_PROXY lists is asked directly', async () => {
  await using dir = await tempDir();
  await using server = await bundleHttpServer({ token: 'tok-1' });
  await server.put(await bundleOf({ 'm.rego': 'package a' }));
  await using proxy = await startProxy();
  const PATH = process.env.PATH ?? '';
  const { port } = new URL(server.url);
  const settings = (url: string) => ({ SYNC_POLICY_BUNDLE_URL: url, POLICY_BUNDLE_SERVER_TOKEN: 'tok-1' });
  const place = `http://bundles.example:${port}/base`;
  {
    const env = { PATH, HTTP_PROXY: proxy.url };
    await using part = follow(settings(place), join(dir.path, 'forwarded'), { env });
    await part.serves();
    assert.deepEqual(proxy.requests, [`GET ${place}/bundle.tar.gz`], 'in its absolute form, and no CONNECT');
  }
  {
    // The bundle server speaks no TLS: that the tunnel is asked for is what counts.
    const env = { PATH, HTTPS_PROXY: proxy.url };
    await using part = follow(settings(`https://bundles.example:${port}/base`), join(dir.path, 'tunnelled'), { env });
    await until(() => part.tracker.status().error !== undefined, { withinMs: 20_000, what: 'the attempt' });
    assert.equal(proxy.requests[1], `CONNECT bundles.example:${port}`);
    assert.doesNotMatch(JSON.stringify(part.tracker.status()), new RegExp(PROXY_PASSWORD));
  }
  const before = proxy.requests.length;
  const env = { PATH, HTTP_PROXY: proxy.url, NO_PROXY: '.example' };
  await using part = follow(settings(place), join(dir.path, 'direct'), { env });
  await until(() => part.tracker.status().error !== undefined, { withinMs: 20_000, what: 'the attempt' });
  assert.equal(proxy.requests.length, before);
});

test('a failure of the proxy is said without its credentials', async () => {
  await using dir = await tempDir();
  const asked: string[] = [];
  const server = createServer(({ url }, response) => {
    asked.push(url ?? '');
    response.writeHead(502).end();
  }).on('connect', ({ url }, socket) => {
    asked.push(url ?? '');
    socket.end('HTTP/1.1 502 Bad Gateway\r\n\r\n', () => socket.destroy());
  });
  await using proxy = await listening(server);
  const address = `http://u:s3cret@127.0.0.1:${proxy.port}`;
  const env = { PATH: process.env.PATH ?? '', HTTP_PROXY: address, HTTPS_PROXY: address };
  for (const [scheme, says502, first] of [
    ['https', /proxy .*answered 502/, 'bundles.example:443'],
    ['http', /answered 502/, 'http://bundles.example/b/bundle.tar.gz'],
  ] as const) {
    asked.length = 0;
    const url = `${scheme}://bundles.example/b`;
    await using part = follow({ SYNC_POLICY_BUNDLE_URL: url }, join(dir.path, scheme), { env });
    await says(part, says502);
    assert.doesNotMatch(JSON.stringify(part.tracker.status()), /s3cret/);
    assert.equal(asked[0], first);
  }
});

test('S3: wrong keys and a wrong region are refused and said with the code of S3; the keys are not', async () => {
  await using dir = await tempDir();
  await using server = await s3Server();
  await server.put(await bundleOf({ 'm.rego': 'package a' }));
  const right = s3Env(server.url, server.region);
  for (const [name, change, code] of [
    ['id', { SYNC_POLICY_BUNDLE_SERVER_TOKEN_ID: 'NOBODY' }, 'InvalidAccessKeyId'],
    ['key', { SYNC_POLICY_BUNDLE_SERVER_TOKEN: 'wrong-key' }, 'SignatureDoesNotMatch'],
    ['region', { SYNC_POLICY_BUNDLE_SERVER_AWS_REGION: 'us-east-1' }, 'AuthorizationHeaderMalformed'],
    ['bearer', { SYNC_POLICY_BUNDLE_SERVER_TYPE: 'HTTP' }, undefined],
  ] as const) {
    await using part = follow({ ...right, ...change }, join(dir.path, name));
    await says(part, code === undefined ? /answered 403$/ : new RegExp(`answered 403 \\(${code}\\)$`));
    assert.doesNotMatch(JSON.stringify(part.tracker.status()), /NOBODY|wrong-key/);
  }
});

test('S3: special characters in the key are signed as they are sent', async () => {
  for (const folder of ["a+b%20c!'()*", '%E6%97%A5%25/%26=@:,;~$', 'a%2Bb']) {
    await using dir = await tempDir();
    await using server = await s3Server(folder);
    await server.put(await bundleOf({ 'm.rego': 'package a' }));
    await using part = follow(s3Env(server.url, server.region), join(dir.path, 'repo'));
    await part.serves();
  }
});

test('S3: an unchanged bundle is answered 304', async () => {
  await using dir = await tempDir();
  await using server = await s3Server();
  await server.put(await bundleOf({ 'm.rego': 'package a' }));
  await using part = follow(s3Env(server.url, server.region), join(dir.path, 'repo'));
  await part.serves();
  await part.tracker.refresh();
  assert.deepEqual([part.tracker.status().state, server.statuses.slice(0, 2)], ['following', [200, 304]]);
});

test('the same content is the same commit: in another archive, in another repository, and when it comes back', async () => {
  await using dir = await tempDir();
  await using server = await bundleHttpServer();
  const env = { SYNC_POLICY_BUNDLE_URL: server.url };
  const files = { 'a/m.rego': 'package a', 'x "y"/ünï.rego': 'package u', 'data.json': '{}' };
  await server.put(await bundleOf(files));
  await using one = follow(env, join(dir.path, 'one'));
  await one.serves();
  const head = one.tracker.head();
  const otherwise = Object.entries(files).map(([name, content]) => ({ name: `./${name}`, content, mode: 0o755 }));
  await server.put(await tarGz([{ name: './', type: 'directory' }, ...otherwise.reverse()]));
  await one.tracker.refresh();
  assert.deepEqual([one.tracker.head(), one.changes.length, server.answered(200)], [head, 1, 2]);
  await one.tracker.refresh();
  assert.equal(server.answered(200), 2, 'the new tag is remembered');
  await using two = follow(env, join(dir.path, 'two'));
  await two.serves(head);

  await server.put(await bundleOf({ 'a/m.rego': 'package other' }));
  await one.tracker.refresh();
  assert.notEqual(one.tracker.head(), head);
  await server.put(await bundleOf(files));
  await one.tracker.refresh();
  assert.equal(one.tracker.head(), head);
  assert.deepEqual((await one.bundle()).manifest, ['data.json', 'a/m.rego', 'x "y"/ünï.rego']);
});

test('the root .manifest orders the modules, and a change of it alone is a change', async () => {
  await using dir = await tempDir();
  await using server = await bundleHttpServer();
  const files = { 'a.rego': 'package a', 'b.rego': 'package b', 'c.rego': 'package c' };
  await server.put(await bundleOf({ '.manifest': 'c.rego\na.rego\n', ...files }));
  await using part = follow({ SYNC_POLICY_BUNDLE_URL: server.url }, join(dir.path, 'repo'));
  await part.serves();
  assert.deepEqual((await part.bundle()).manifest, ['c.rego', 'a.rego', 'b.rego']);
  await server.put(await bundleOf({ '.manifest': 'b.rego\n', ...files }));
  await part.tracker.refresh();
  assert.equal(part.changes.length, 2);
  assert.deepEqual((await part.bundle()).manifest, ['b.rego', 'a.rego', 'c.rego']);
});

test('a damaged repository is made anew from the server, and the broken bundle of that moment does not cost the old one', async () => {
  await using dir = await tempDir();
  await using server = await bundleHttpServer();
  const env = { SYNC_POLICY_BUNDLE_URL: server.url };
  const path = join(dir.path, 'repo');
  await server.put(await bundleOf({ 'm.rego': 'package a' }));
  let head: string | undefined;
  {
    await using part = follow(env, path);
    await part.serves();
    head = part.tracker.head();
  }
  const blob = await runGit(['-C', path, 'rev-parse', `${head}:m.rego`]);
  await runGit(['-C', path, 'config', 'x.y', 'z']);
  await rm(join(path, 'objects', blob.slice(0, 2), blob.slice(2)));
  await server.put(Buffer.from('broken'));
  await using part = follow(env, path);
  await says(part, /incorrect header check/);
  assert.equal(await runGit(['-C', path, 'config', 'x.y']), 'z', 'the old copy stays until there is a new one');
  await server.put(await bundleOf({ 'm.rego': 'package a' }));
  await part.serves(head);
  assert.equal((await part.bundle()).policy_modules[0]?.rego, 'package a');
  assert.equal(await runGit(['-C', path, 'rev-parse', 'refs/policysync/served/bundle']), head);
});

test('a repository that a kill left half made is made anew at the start', async () => {
  await using dir = await tempDir();
  await using server = await bundleHttpServer();
  const env = { SYNC_POLICY_BUNDLE_URL: server.url };
  await server.put(await bundleOf({ 'm.rego': 'package a' }));
  const path = join(dir.path, 'repo');
  let head: string | undefined;
  {
    await using part = follow(env, path);
    await part.serves();
    head = part.tracker.head();
  }
  await rm(join(path, 'objects'), { recursive: true }); // git init makes it last, after HEAD
  await using part = follow(env, path);
  await part.serves(head);
  assert.equal((await part.bundle()).policy_modules[0]?.rego, 'package a');
});

test('a state file that cannot be read costs a download, nothing else', async () => {
  await using dir = await tempDir();
  await using server = await bundleHttpServer();
  const env = { SYNC_POLICY_BUNDLE_URL: server.url };
  await server.put(await bundleOf({ 'm.rego': 'package a' }));
  const path = join(dir.path, 'repo');
  let head: string | undefined;
  {
    await using part = follow(env, path);
    await part.serves();
    head = part.tracker.head();
  }
  await writeFile(join(path, 'policysync-bundle.json'), '{"version":1,"comm');
  await using part = follow(env, path);
  await part.serves(head);
  await part.tracker.refresh();
  assert.deepEqual([part.tracker.status().state, server.answered(200)], ['following', 2]);
});

test('what came from another server is replaced in a folder of our own, and left alone in one that was named', async () => {
  await using dir = await tempDir();
  const [one, two] = [await bundleHttpServer(), await bundleHttpServer()];
  await using _servers = {
    [Symbol.asyncDispose]: async () => void (await Promise.all([one, two].map((each) => each[Symbol.asyncDispose]()))),
  };
  await one.put(await bundleOf({ 'a.rego': 'package a' }));
  await two.put(await bundleOf({ 'b.rego': 'package b' }));
  {
    await using part = follow({ SYNC_POLICY_BUNDLE_URL: one.url }, dir.path);
    await part.serves();
  }
  {
    await using named = follow({ SYNC_POLICY_BUNDLE_URL: two.url }, dir.path);
    await assert.rejects(named.ended, { code: 'config_invalid', message: /is a mirror of http/ });
  }
  await using part = follow({ SYNC_POLICY_BUNDLE_URL: two.url }, dir.path, { isOwnFolder: true });
  await part.serves();
  assert.deepEqual((await part.bundle()).manifest, ['b.rego']);
});

test('a folder that cannot be made is refused by the name of its setting, with the reason', async () => {
  await using dir = await tempDir();
  await writeFile(join(dir.path, 'file'), '');
  const folders = [
    [join(dir.path, 'file', 'mirror'), /a part of its path is no folder/],
    ...(process.platform === 'linux' ? ([['/proc/mirror', /no folder can be made in \/proc/]] as const) : []),
  ] as const;
  for (const [folder, why] of folders) {
    for (const isOwnFolder of [false, true]) {
      await using part = follow({ SYNC_POLICY_BUNDLE_URL: 'http://127.0.0.1:1/' }, folder, { isOwnFolder });
      await assert.rejects(part.ended, ({ code, message }: SyncError) => {
        assert.match(message, why);
        assert.match(
          message,
          isOwnFolder ? /^the policy folder .* of SYNC_STATE_DIR/ : /^SYNC_POLICY_REPO_CLONE_PATH /,
        );
        return code === 'config_invalid';
      });
    }
  }
});

test('a folder that is something else is refused, and the query of the address is not shown', async () => {
  await using dir = await tempDir();
  await writeFile(join(dir.path, 'mine.txt'), 'x');
  await using part = follow({ SYNC_POLICY_BUNDLE_URL: 'http://127.0.0.1:1/?sig=s3cret' }, dir.path);
  await assert.rejects(part.ended, ({ code, message }: SyncError) => {
    assert.match(message, /is not empty and is no mirror/);
    return code === 'config_invalid' && !message.includes('s3cret');
  });
  assert.deepEqual(await readdir(dir.path), ['mine.txt']);
});
