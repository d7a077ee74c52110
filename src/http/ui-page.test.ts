import assert from 'node:assert/strict';
import { after, describe, it } from 'node:test';
import { brotliDecompressSync, gunzipSync } from 'node:zlib';
import { silentLogger } from '../lib/observe/log.js';
import { createHttpApp } from './app.js';
import { addRoute } from './route.js';
import { encodingFor, holdsTag, readUiFiles } from './ui-files.js';
import { openUiOnLoopbackOnly, UI_CSP, uiPageRoutes } from './ui-page.js';

const KB = 1024;
/** What the page may take, compressed: all of its files, and the style sheets among them. */
const LIMITS = { all: 80 * KB, style: 10 * KB };

function appWith({ loopbackOnly = false } = {}) {
  const app = createHttpApp({ bodyLimitBytes: 1024 }, { log: silentLogger() });
  if (loopbackOnly) openUiOnLoopbackOnly(app);
  uiPageRoutes(app);
  addRoute(
    app,
    { method: 'GET', path: '/ui/events', access: 'everyone', strangers: 'all', tag: 'T', summary: 'Look' },
    () => ({}),
  );
  addRoute(
    app,
    { method: 'GET', path: '/clients', access: 'everyone', strangers: 'all', tag: 'T', summary: 'Look' },
    () => ({}),
  );
  return app;
}

describe('the live page', () => {
  const app = appWith();
  after(() => app.close());

  /** Paths that the page names. */
  const namedBy = (page: string): string[] =>
    [...page.matchAll(/(?:src|href)="([^"]+)"/g)].map(([, path]) => path ?? '').filter((path) => path !== 'data:,');

  it('loads with and without the slash, with all that it names, from here', async () => {
    for (const path of ['/ui', '/ui/', '/ui?is=needing']) {
      const page = await app.inject(path);
      assert.equal(page.statusCode, 200, path);
      assert.equal(page.headers['content-type'], 'text/html; charset=utf-8');
      const named = namedBy(page.body);
      assert(named.some((name) => name.endsWith('.js')));
      for (const name of named) {
        assert.match(name, /^\/ui\/assets\/[\w.-]+$/);
        const file = await app.inject(name);
        assert.equal(file.statusCode, 200, name);
        assert.match(String(file.headers['content-type']), /^text\/(?:javascript|css); charset=utf-8$/);
        assert.equal(file.headers['cache-control'], 'public, max-age=31536000, immutable');
      }
    }
  });

  it('has nothing inline, may load from here alone, and is no frame of another', async () => {
    const page = await app.inject('/ui');
    assert.equal(
      page.headers['content-security-policy'],
      "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; " +
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    );
    assert.doesNotMatch(page.body, /<script(?![^>]* src=)|<style|\sstyle=|\son\w+=/);
    const [asset = ''] = namedBy(page.body);
    for (const path of ['/ui', asset]) {
      const { headers } = await app.inject(path);
      assert.equal(headers['content-security-policy'], UI_CSP, path);
      assert.equal(headers['x-content-type-options'], 'nosniff', path);
      assert.equal(headers['referrer-policy'], 'no-referrer', path);
      assert.equal(headers['cross-origin-opener-policy'], 'same-origin', path);
      assert.equal(headers['cross-origin-resource-policy'], 'same-origin', path);
    }
  });

  it('comes compressed as the browser wants it, and is not sent again while it has not changed', async () => {
    const plain = await app.inject('/ui');
    assert.equal(plain.headers['content-encoding'], undefined);
    const opened = { br: brotliDecompressSync, gzip: gunzipSync };
    const tags = new Set([plain.headers.etag]);
    for (const [encoding, open] of Object.entries(opened)) {
      const headers = { 'accept-encoding': encoding };
      const page = await app.inject({ url: '/ui', headers });
      assert.equal(page.headers['content-encoding'], encoding);
      assert.equal(page.headers.vary, 'accept-encoding');
      assert.equal(page.headers['cache-control'], 'no-cache');
      assert.equal(open(page.rawPayload).toString(), plain.body);
      const { etag = '' } = page.headers;
      tags.add(etag);
      const again = await app.inject({ url: '/ui', headers: { ...headers, 'if-none-match': `"other", W/${etag}` } });
      assert.deepEqual([again.statusCode, again.body], [304, '']);
      assert.equal(again.headers['content-security-policy'], UI_CSP);
    }
    assert.equal(tags.size, 3, 'each encoding has a tag of its own');
    const head = await app.inject({ method: 'HEAD', url: '/ui' });
    assert.deepEqual([head.statusCode, head.body], [200, '']);
  });

  it('takes at most 80 KB compressed with all that it ever loads, its style sheets at most 10', async (t) => {
    const files = await readUiFiles();
    assert(files !== undefined);
    const bytes = (encoding: 'br' | 'gzip', wanted: (name: string) => boolean): number =>
      [...files].reduce((sum, [name, file]) => sum + (wanted(name) ? file[encoding].length : 0), 0);
    const atFirst = new Set([
      'index.html',
      ...namedBy((await app.inject('/ui')).body).map((path) => path.slice('/ui/'.length)),
    ]);
    for (const [name, { gzip, br }] of files) t.diagnostic(`${name}: ${br.length} bytes as br, ${gzip.length} as gzip`);
    // Browsers take br at loopback addresses and over TLS. Elsewhere they take gzip, and load the
    // charts when they are shown.
    for (const [what, size, limit] of [
      ['all as br', bytes('br', () => true), LIMITS.all],
      ['at first as gzip', bytes('gzip', (name) => atFirst.has(name)), LIMITS.all],
      ['style sheets as br', bytes('br', (name) => name.endsWith('.css')), LIMITS.style],
      ['style sheets as gzip', bytes('gzip', (name) => name.endsWith('.css')), LIMITS.style],
    ] as const) {
      t.diagnostic(`${what}: ${(size / KB).toFixed(1)} KB`);
      assert(size <= limit, `${what}: ${size} bytes`);
    }
  });

  it('has no files but its own', async () => {
    for (const name of ['..%2Findex.html', '..%2F..%2Fpackage.json', '__proto__', 'constructor', '%00', '.', 'x.js']) {
      const answer = await app.inject(`/ui/assets/${name}`);
      assert.equal(answer.statusCode, 404, name);
    }
  });
});

describe('the live page without authentication', () => {
  const app = appWith({ loopbackOnly: true });
  after(() => app.close());
  const ask = (url: string, host: string) => app.inject({ url, headers: { host } });

  it('is open under loopback names', async () => {
    for (const host of [
      'localhost',
      'LOCALHOST:7002',
      'a.localhost:7002',
      '127.0.0.1:7002',
      '127.1.2.3',
      '[::1]:7002',
    ]) {
      for (const path of ['/ui', '/ui/', '/ui/events'])
        assert.equal((await ask(path, host)).statusCode, 200, `${host}${path}`);
    }
  });

  it('says under another name what to do; its stream refuses', async () => {
    for (const host of ['fleet.example.com', '10.0.0.1:7002', 'localhost.example.com', '127.0.0.1.example.com']) {
      const page = await ask('/ui', host);
      assert.equal(page.statusCode, 403, host);
      assert.equal(page.headers['content-security-policy'], UI_CSP);
      assert.match(page.body, /SYNC_AUTH_PUBLIC_KEY/);
      assert.match(page.body, /ssh -L/);
      const stream = await ask('/ui/events', host);
      assert.equal(stream.statusCode, 403, host);
      assert.equal(stream.headers['x-sync-error'], 'page_not_open');
      assert.equal((await ask('/clients', host)).statusCode, 200, 'other routes are as they were');
    }
  });

  it('shows a name that was sent as text', async () => {
    const page = await ask('/ui', '<script>alert(1)</script>');
    assert.equal(page.statusCode, 403);
    assert.doesNotMatch(page.body, /<script/);
  });
});

it('takes the better of the encodings that a header names', () => {
  assert.equal(encodingFor(undefined), 'identity');
  assert.equal(encodingFor('gzip, deflate'), 'gzip');
  assert.equal(encodingFor('gzip, deflate, BR, zstd'), 'br');
  assert.equal(encodingFor('br;q=0, gzip;q=0.5'), 'gzip');
  assert.equal(encodingFor('br; q=0.000, gzip;q=0'), 'identity');
});

it('finds a tag among those that the reader holds', () => {
  assert(holdsTag('"a", W/"b"', '"b"'));
  assert(holdsTag('*', '"b"'));
  assert(!holdsTag('"ab"', '"b"'));
  assert(!holdsTag(undefined, '"b"'));
});

it('says what to do where no page was built', async () => {
  const app = createHttpApp({ bodyLimitBytes: 1024 }, { log: silentLogger() });
  uiPageRoutes(app, () => readUiFiles(new URL('./no-such-folder/', import.meta.url)));
  const page = await app.inject('/ui');
  assert.equal(page.statusCode, 503);
  assert.equal(page.headers['cache-control'], 'no-store');
  assert.match(page.body, /<code>npm run build<\/code>/);
  assert.equal((await app.inject('/ui/assets/index.js')).statusCode, 404);
  await app.close();
});
