import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { chmod, mkdir, readdir, readFile, stat, utimes, writeFile } from 'node:fs/promises';
import { createServer, type RequestListener } from 'node:http';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { type AcquireOptions, acquireOpa } from '../../src/client/engine/get-opa/acquire-opa.js';
import type { AcquireProgress } from '../../src/client/engine/get-opa/acquire-progress.js';
import { OPA_VERSION } from '../../src/client/engine/get-opa/opa-version.js';
import { SyncError } from '../../src/lib/errors.js';
import { startProxy } from '../support/connect-proxy.js';
import { type ListeningServer, listening } from '../support/http-server.js';
import { tempDir } from '../support/temp-dir.js';

// The executables of these tests are shell scripts that answer `version` as OPA does.
const posix = { skip: process.platform === 'win32' ? 'needs a POSIX shell' : false };
const ASSET = 'opa_linux_amd64_static';
const PLATFORM = { os: 'linux', arch: 'x64' };

const fakeOpa = (version: string): string => `#!/bin/sh\necho "Version: ${version}"\n`;
const sha256 = (text: string): string => createHash('sha256').update(text).digest('hex');

async function executable(file: string, text: string): Promise<string> {
  await mkdir(dirname(file), { recursive: true });
  await writeFile(file, text);
  await chmod(file, 0o755);
  return file;
}

/** A folder for the cache and one for PATH, and options that reach nothing else. */
async function place() {
  const dir = await tempDir();
  const cacheDir = join(dir.path, 'cache');
  const bin = join(dir.path, 'bin');
  const events: AcquireProgress[] = [];
  const options: AcquireOptions = {
    env: { PATH: bin },
    allowDownload: true,
    downloadBaseUrl: 'http://127.0.0.1:1',
    checksums: { [ASSET]: sha256(fakeOpa(OPA_VERSION)) },
    cacheDir,
    platform: PLATFORM,
    onProgress: (event) => events.push(event),
  };
  return {
    bin,
    events,
    options,
    folder: join(cacheDir, 'opa', OPA_VERSION),
    cached: join(cacheDir, 'opa', OPA_VERSION, 'opa'),
    [Symbol.asyncDispose]: () => dir[Symbol.asyncDispose](),
  };
}

/** A release server. */
function releaseServer(listener: RequestListener): Promise<ListeningServer> {
  return listening(createServer(listener));
}

/** The error that says all ways failed. */
async function refusal(options: AcquireOptions): Promise<SyncError> {
  try {
    const found = await acquireOpa(options);
    assert.fail(`found ${found.path}`);
  } catch (error) {
    assert.ok(error instanceof SyncError, String(error));
    assert.equal(error.code, options.execPath === undefined ? 'engine_not_found' : 'config_invalid');
    return error;
  }
}

/** No temporary folder is left in the cache. */
async function assertNoLeftovers(folder: string): Promise<void> {
  const names = await readdir(folder).catch(() => []);
  assert.deepEqual(
    names.filter((name) => name !== 'opa'),
    [],
  );
}

test('a configured path is used, whatever else there is', posix, async () => {
  await using at = await place();
  await executable(join(at.bin, 'opa'), fakeOpa('1.5.0'));
  const execPath = await executable(join(at.bin, 'mine'), fakeOpa('1.2.3'));
  assert.deepEqual(await acquireOpa({ ...at.options, execPath }), {
    path: execPath,
    version: '1.2.3',
    origin: 'configured',
  });
});

test('a configured path that does not work is refused, not replaced by another OPA', posix, async () => {
  await using at = await place();
  await executable(join(at.bin, 'opa'), fakeOpa('1.5.0'));
  const missing = await refusal({ ...at.options, execPath: join(at.bin, 'nothing') });
  assert.match(missing.message, /SYNC_INLINE_ENGINE_EXEC_PATH: .*nothing does not exist/);
  const notOpa = await executable(join(at.bin, 'other'), '#!/bin/sh\necho hello\n');
  assert.match((await refusal({ ...at.options, execPath: notOpa })).message, /is not OPA/);
  await writeFile(join(at.bin, 'plain'), 'text');
  assert.match((await refusal({ ...at.options, execPath: join(at.bin, 'plain') })).message, /is not executable/);
});

test('the first acceptable opa on PATH is used and an old one before it is passed over', posix, async () => {
  await using at = await place();
  await executable(join(at.bin, 'opa'), fakeOpa('0.70.0'));
  const good = await executable(join(at.bin, 'two', 'opa'), fakeOpa('1.0.0'));
  const env = { PATH: `relative:${at.bin}:${join(at.bin, 'two')}` };
  assert.deepEqual(await acquireOpa({ ...at.options, env }), { path: good, version: '1.0.0', origin: 'path' });
});

test('an old opa on PATH is named with its version and the search goes on', posix, async () => {
  await using at = await place();
  await executable(join(at.bin, 'opa'), fakeOpa('0.70.0'));
  const error = await refusal({ ...at.options, allowDownload: false });
  assert.match(error.message, /opa on PATH: .*bin\/opa is OPA 0\.70\.0, which is older than 1\.0\.0\. Install OPA/);
  assert.match(error.message, /the cache folder: .* does not exist yet\. Fill it with "policysync opa get"/);
  assert.doesNotMatch(error.message, /download of OPA/);
  assert.deepEqual(
    at.events.map((event) => (event.phase === 'failed' ? `${event.way} -> ${event.next}` : event.phase)),
    ['path -> the cache folder', 'cache -> undefined'],
  );
});

test('a good download is verified, put into the cache and found there the next time', posix, async () => {
  await using at = await place();
  let requests = 0;
  await using server = await releaseServer((request, response) => {
    requests += 1;
    assert.equal(request.url, `/v${OPA_VERSION}/${ASSET}`);
    response.end(fakeOpa(OPA_VERSION));
  });
  const options = { ...at.options, downloadBaseUrl: server.url };
  assert.deepEqual(await acquireOpa(options), { path: at.cached, version: OPA_VERSION, origin: 'download' });
  assert.equal((await stat(at.cached)).mode & 0o777, 0o755);
  const last = at.events.filter((event) => event.phase === 'download').at(-1);
  assert.equal(last?.receivedBytes, fakeOpa(OPA_VERSION).length);
  assert.equal((await acquireOpa(options)).origin, 'cache');
  assert.equal(requests, 1);
  await assertNoLeftovers(at.folder);
});

test('a download follows redirects, also to another host', posix, async () => {
  await using at = await place();
  await using storage = await releaseServer((request, response) => {
    response.writeHead(request.url === '/files/opa' ? 200 : 404).end(fakeOpa(OPA_VERSION));
  });
  await using server = await releaseServer((request, response) => {
    const location = request.url === '/next' ? `${storage.url}/files/opa` : '/next';
    response.writeHead(302, { location }).end('moved');
  });
  assert.equal((await acquireOpa({ ...at.options, downloadBaseUrl: server.url })).origin, 'download');
});

const badDownloads: Record<string, { listener: RequestListener; says: RegExp }> = {
  'with a wrong checksum': {
    listener: (_request, response) => void response.end(fakeOpa('6.6.6')),
    says: /has SHA-256 [0-9a-f]{64}, expected is [0-9a-f]{64}/,
  },
  'that is cut off': {
    listener: (_request, response) => {
      response.writeHead(200, { 'content-length': '1000' });
      response.write('#!/bin/sh', () => response.destroy());
    },
    says: /download of .* failed: /,
  },
  'that is not there': {
    listener: (_request, response) => void response.writeHead(404).end('gone'),
    says: /the server answers 404/,
  },
  'that redirects for ever': {
    listener: (_request, response) => void response.writeHead(302, { location: '/again' }).end(),
    says: /redirect/i,
  },
  'that stops in the middle': {
    listener: (_request, response) => {
      response.writeHead(200, { 'content-length': '1000' });
      response.write('#!/bin/sh');
    },
    says: /Body Timeout/i,
  },
  'that never answers': { listener: () => undefined, says: /Headers Timeout/i },
};

for (const [name, { listener, says }] of Object.entries(badDownloads)) {
  test(`a download ${name} is refused, and leaves nothing in the cache`, posix, async () => {
    await using at = await place();
    await using server = await releaseServer(listener);
    const options = { ...at.options, downloadBaseUrl: server.url, timeouts: { silenceMs: 200 } };
    const error = await refusal(options);
    assert.match(error.message, says);
    await assert.rejects(stat(at.cached), { code: 'ENOENT' });
    await assertNoLeftovers(at.folder);
  });
}

test('a download goes through the proxy by the rules of all connections', posix, async () => {
  await using server = await releaseServer((_request, response) => response.end(fakeOpa(OPA_VERSION)));
  await using proxy = await startProxy();
  const rules = { HTTP_PROXY: proxy.url, NO_PROXY: 'direct.invalid:80' };
  const from = async (downloadBaseUrl: string): Promise<string> => {
    await using at = await place();
    return (await acquireOpa({ ...at.options, env: { ...at.options.env, ...rules }, downloadBaseUrl })).origin;
  };
  assert.equal(await from(`http://release.test:${server.port}`), 'download');
  assert.deepEqual(proxy.requests, [`GET http://release.test:${server.port}/v${OPA_VERSION}/${ASSET}`]);
  // This machine is never behind a proxy, whatever NO_PROXY says.
  assert.equal(await from(server.url), 'download');
  assert.equal(proxy.requests.length, 1);
});

test('without a pinned checksum nothing is asked for', posix, async () => {
  await using at = await place();
  let requests = 0;
  await using server = await releaseServer((_request, response) => {
    requests += 1;
    response.end(fakeOpa(OPA_VERSION));
  });
  const error = await refusal({ ...at.options, downloadBaseUrl: server.url, checksums: {} });
  assert.match(error.message, /no checksum of .* is pinned/);
  assert.equal(requests, 0);
});

test('two processes at once both end with the same good file', posix, async () => {
  await using at = await place();
  let waiting: (() => void)[] = [];
  await using server = await releaseServer((_request, response) => {
    waiting.push(() => response.end(fakeOpa(OPA_VERSION)));
    if (waiting.length < 2) return;
    for (const answer of waiting) answer();
    waiting = [];
  });
  const options = { ...at.options, downloadBaseUrl: server.url };
  const both = await Promise.all([acquireOpa(options), acquireOpa(options)]);
  assert.deepEqual(
    both.map((found) => found.path),
    [at.cached, at.cached],
  );
  assert.equal(await readFile(at.cached, 'utf8'), fakeOpa(OPA_VERSION));
  await assertNoLeftovers(at.folder);
});

test('a broken file in the cache is replaced, and old leftovers are removed', posix, async () => {
  await using at = await place();
  await executable(at.cached, 'half a fi');
  const old = join(at.folder, 'tmp-old');
  await mkdir(old);
  await utimes(old, 1, 1);
  await using server = await releaseServer((_request, response) => void response.end(fakeOpa(OPA_VERSION)));
  assert.equal((await acquireOpa({ ...at.options, downloadBaseUrl: server.url })).origin, 'download');
  assert.equal(await readFile(at.cached, 'utf8'), fakeOpa(OPA_VERSION));
  await assertNoLeftovers(at.folder);
});

test('an abort ends a hanging download with the reason and leaves nothing', posix, async () => {
  await using at = await place();
  const controller = new AbortController();
  await using server = await releaseServer(() => controller.abort(new Error('asked to stop')));
  const options = { ...at.options, downloadBaseUrl: server.url, signal: controller.signal };
  await assert.rejects(acquireOpa(options), /asked to stop/);
  await assertNoLeftovers(at.folder);
});

test('where no folder for the cache is known, it is said', posix, async () => {
  await using at = await place();
  const { cacheDir: _none, ...options } = at.options;
  assert.match((await refusal(options)).message, /the cache folder: neither XDG_CACHE_HOME nor HOME is set/);
});
