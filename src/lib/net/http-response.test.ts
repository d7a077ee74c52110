import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  basicAuthorization,
  followRedirects,
  headerText,
  redirectedHeaders,
  retryAfterSeconds,
} from './http-response.js';

test('Retry-After is a number or a date, within the bound', () => {
  const now = Date.parse('2026-11-21T10:00:00Z');
  const seconds = (value: string | undefined, date?: string): number | undefined =>
    retryAfterSeconds({ 'retry-after': value, date }, 3600, now);
  assert.equal(seconds('120'), 120);
  assert.equal(seconds(' 0 '), 0);
  assert.equal(seconds('Sat, 21 Nov 2026 10:00:30 GMT'), 30);
  assert.equal(seconds('Sat, 21 Nov 2026 09:00:00 GMT'), 0);
  assert.equal(seconds('999999999'), 3600);
  for (const bad of [undefined, '', 'soon', '-5x']) assert.equal(seconds(bad), undefined);
  // The clock of the peer is an hour ahead, or behind.
  assert.equal(seconds('Sat, 21 Nov 2026 11:00:30 GMT', 'Sat, 21 Nov 2026 11:00:00 GMT'), 30);
  assert.equal(seconds('Sat, 21 Nov 2026 09:00:30 GMT', 'Sat, 21 Nov 2026 09:00:00 GMT'), 30);
  assert.equal(seconds('Sat, 21 Nov 2026 10:00:30 GMT', 'no date'), 30);
});

test('a header that was sent several times is a list', () => {
  assert.equal(headerText(['a', 'b']), 'a, b');
  assert.equal(headerText(undefined), undefined);
});

test('user name and password of a URL become an authorization header', () => {
  assert.equal(basicAuthorization(new URL('http://host/')), undefined);
  const encoded = Buffer.from('jo@x:p%').toString('base64');
  assert.equal(basicAuthorization(new URL('http://jo%40x:p%@host/')), `Basic ${encoded}`);
});

const first: { url: URL; headers: Readonly<Record<string, string>> } = {
  url: new URL('https://a.example/x?q=1'),
  headers: { authorization: 'Bearer t', 'content-type': 'text/x' },
};

/** Follows the answers, one for each request, and returns the URLs that were asked for. */
async function follow(answers: readonly { status: number; location?: string | string[] }[], max = 3) {
  const asked: string[] = [];
  const end = await followRedirects(first, {
    max,
    send: async ({ url }, redirects) => {
      asked.push(url.href);
      const { status = 200, location } = answers[redirects] ?? {};
      return { status, headers: { location } };
    },
    next: (request, to) => ({ url: to, headers: redirectedHeaders(request, to, { accept: '*/*' }) }),
    fail: ({ url }, why, { status }) => new Error(`${url.pathname} ${status}: ${why}`),
  });
  return { asked, ...end };
}

test('each kind of redirect is followed, relative places too, and another status ends it', async () => {
  for (const status of [301, 302, 303, 307, 308]) {
    const { asked, redirects, response } = await follow([{ status, location: '../y' }, { status: 404 }]);
    assert.deepEqual(asked, ['https://a.example/x?q=1', 'https://a.example/y']);
    assert.deepEqual([redirects, response.status], [1, 404]);
  }
  for (const status of [200, 300, 304, 305, 306])
    assert.equal((await follow([{ status, location: '/y' }])).redirects, 0);
});

test('a redirect that leads nowhere, or one too many, fails', async () => {
  const circle = Array.from({ length: 9 }, () => ({ status: 302, location: '/x' }));
  await assert.rejects(follow(circle), { message: '/x 302: more than 3 redirects' });
  for (const [location, why] of [
    [undefined, /without saying where to go/],
    ['', /without saying where to go/],
    ['http://[', /not a URL/],
    ['file:///etc/passwd', /answered 307 to file: only http and https are read/],
    ['javascript:alert(1)', /only http and https are read/],
  ] as const) {
    await assert.rejects(follow([location === undefined ? { status: 307 } : { status: 307, location }]), {
      message: why,
    });
  }
});

test('another origin gets the own headers and the type of the body alone', async () => {
  const headersAt = async (location: string) => (await follow([{ status: 307, location }])).request.headers;
  assert.equal(await headersAt('/near'), first.headers);
  for (const location of ['https://b.example/', 'http://a.example/x', 'https://a.example:8443/', '//b.example/']) {
    assert.deepEqual(await headersAt(location), { accept: '*/*', 'content-type': 'text/x' });
  }
  const { request } = await follow([
    { status: 307, location: 'https://b.example/' },
    { status: 307, location: 'https://a.example/x' },
  ]);
  assert.equal('authorization' in request.headers, false, 'back at the first origin it stays without');
});
