import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { statusFailure } from './http-failure.js';
import { firstHop, isRetryableStatus, nextHop, shownUrl, validatorsOf } from './http-rules.js';

const url = 'https://source.example/users?team=a';

describe('first request of a read', () => {
  it('is a GET that accepts JSON and asks caches for the newest', () => {
    const hop = firstHop({ url });
    assert.deepEqual(hop, {
      url: new URL(url),
      method: 'GET',
      headers: {
        accept: 'application/json, */*;q=0.5',
        'accept-encoding': 'gzip, br',
        'cache-control': 'no-cache',
        'user-agent': 'policysync',
      },
      conditional: false,
    });
  });

  it("puts the entry's headers first, in any case", () => {
    const { headers } = firstHop({
      url,
      config: { headers: { Accept: 'text/json', Authorization: 'Bearer t', 'Content-Length': '7' } },
    });
    assert.equal(headers.accept, 'text/json');
    assert.equal(headers.authorization, 'Bearer t');
    assert.equal(headers['content-length'], undefined);
  });

  it('sends a string as text, anything else as JSON, unless a header says otherwise', () => {
    const text = firstHop({ url, config: { method: 'post', data: 'a=1' } });
    assert.deepEqual(
      [text.method, text.body, text.headers['content-type']],
      ['POST', 'a=1', 'text/plain; charset=utf-8'],
    );
    const json = firstHop({ url, config: { method: 'put', data: { a: [1] } } });
    assert.deepEqual([json.body, json.headers['content-type']], ['{"a":[1]}', 'application/json']);
    const form = firstHop({
      url,
      config: { data: 'a=1', headers: { 'Content-Type': 'application/x-www-form-urlencoded' } },
    });
    assert.equal(form.headers['content-type'], 'application/x-www-form-urlencoded');
    assert.equal('body' in firstHop({ url, config: { data: null } }), false);
  });

  it('sends an object as a form where the header says so', () => {
    const headers = { 'content-type': 'application/x-www-form-urlencoded' };
    const data = { grant_type: 'client_credentials', scope: ['a b', 'c'], n: 1, deep: { x: [1] } };
    const { body } = firstHop({ url, config: { method: 'post', headers, data } });
    assert.equal(body, 'grant_type=client_credentials&scope=a+b&scope=c&n=1&deep=%7B%22x%22%3A%5B1%5D%7D');
    assert.equal(firstHop({ url, config: { method: 'post', headers, data: [1] } }).body, '[1]');
  });

  it('sends validators with GET only', () => {
    const previous = { etag: '"1"', lastModified: 'Sat, 21 Nov 2026 10:00:00 GMT' };
    const hop = firstHop({ url, previous });
    assert.deepEqual(
      [hop.headers['if-none-match'], hop.headers['if-modified-since'], hop.conditional],
      [previous.etag, previous.lastModified, true],
    );
    const post = firstHop({ url, config: { method: 'post' }, previous });
    assert.equal(post.headers['if-none-match'], undefined);
    assert.equal(post.conditional, false);
    assert.equal(firstHop({ url, previous: {} }).conditional, false);
  });

  it('moves user name and password from the URL to the header, unless there is one', () => {
    const hop = firstHop({ url: 'http://jo%40x:p%3Aw%@host/' });
    assert.equal(hop.url.href, 'http://host/');
    assert.equal(hop.headers.authorization, `Basic ${Buffer.from('jo@x:p%3Aw%').toString('base64')}`);
    const own = firstHop({ url: 'http://a:b@host/', config: { headers: { Authorization: 'Bearer t' } } });
    assert.equal(own.headers.authorization, 'Bearer t');
  });

  it('refuses what cannot be read, without showing credentials or query', () => {
    const cases: [string, RegExp][] = [
      ['', /^there is no URL$/],
      ['file:///etc/passwd', /^file:\/\/\/etc\/passwd: only http and https are read, not file$/],
      ['postgresql://u:secret@db/x?password=secret', /^postgresql:\/\/\*\*\*@db\/x\?\*\*\*: only http and https/],
      ['not a url?token=secret', /^"not a url": this is not a URL$/],
      ['http://u:secret@host:99999/x?token=secret', /^"http:\/\/\*\*\*@host:99999\/x": this is not a URL$/],
      ['/relative', /this is not a URL$/],
    ];
    for (const [bad, message] of cases) {
      assert.throws(() => firstHop({ url: bad }), { code: 'fetch_failed', retryable: false, message });
      assert.ok(!shownUrl(bad).includes('secret'));
    }
    assert.throws(() => firstHop({ url, config: { headers: { a: 1 } } }), {
      code: 'fetch_config_invalid',
      message: /^https:\/\/source\.example\/users\?\*\*\*: config\.headers\.a: /,
    });
  });
});

describe('redirect', () => {
  const elsewhere = new URL('/b', url);
  const secrets = {
    Authorization: 'Bearer t',
    Cookie: 'c=1',
    'Proxy-Authorization': 'Basic x',
    Host: 'other',
    'X-Own': 'y',
  };
  const start = firstHop({ url, config: { method: 'post', data: { a: 1 }, headers: secrets } });

  it('keeps configured headers within the origin and drops all of them elsewhere', () => {
    const same = nextHop(start, new URL('/moved', url), 307);
    assert.equal(same.url.href, 'https://source.example/moved');
    assert.equal(same.headers.authorization, 'Bearer t');
    assert.equal(same.headers.cookie, 'c=1');
    for (const location of ['https://other.example/', 'http://source.example/', 'https://source.example:8443/']) {
      const other = nextHop(start, new URL(location), 307);
      assert.deepEqual(
        ['authorization', 'cookie', 'proxy-authorization', 'host', 'x-own'].map((name) => other.headers[name]),
        [undefined, undefined, undefined, undefined, undefined],
      );
      assert.deepEqual([other.headers['content-type'], other.body], ['application/json', '{"a":1}']);
      assert.equal(other.headers.accept, 'application/json, */*;q=0.5');
    }
  });

  it('keeps method and body, or turns into GET, by status', () => {
    for (const status of [307, 308]) {
      const next = nextHop(start, elsewhere, status);
      assert.deepEqual([next.method, next.body], ['POST', '{"a":1}']);
    }
    for (const status of [301, 302, 303]) {
      const next = nextHop(start, elsewhere, status);
      assert.deepEqual([next.method, next.body, next.headers['content-type']], ['GET', undefined, undefined]);
    }
    const put = firstHop({ url, config: { method: 'put', data: 'x' } });
    assert.equal(nextHop(put, elsewhere, 302).method, 'PUT');
    assert.equal(nextHop(put, elsewhere, 303).method, 'GET');
    assert.equal(nextHop(firstHop({ url, config: { method: 'head' } }), elsewhere, 303).method, 'HEAD');
  });

  it('asks the new place for its document, not for a change of the other one', () => {
    const next = nextHop(firstHop({ url, previous: { etag: '"1"', lastModified: 'x' } }), elsewhere, 302);
    assert.equal(next.headers['if-none-match'], undefined);
    assert.equal(next.headers['if-modified-since'], undefined);
    assert.equal(next.conditional, false);
  });
});

describe('validators of an answer', () => {
  const date = 'Sat, 21 Nov 2026 10:01:00 GMT';
  it('are kept where a later change would be seen', () => {
    assert.deepEqual(validatorsOf({ etag: '"1"' }), { etag: '"1"' });
    const lastModified = 'Sat, 21 Nov 2026 10:00:00 GMT';
    assert.deepEqual(validatorsOf({ 'last-modified': lastModified, date }), { lastModified });
    assert.deepEqual(validatorsOf({ etag: '"1"', 'last-modified': lastModified, date }), { etag: '"1"', lastModified });
    assert.deepEqual(validatorsOf({}), {});
  });

  it('are dropped where the document had just changed, or nobody knows when it was sent', () => {
    const lastModified = 'Sat, 21 Nov 2026 10:00:01 GMT';
    assert.deepEqual(validatorsOf({ etag: '"1"', 'last-modified': lastModified, date }), {});
    assert.deepEqual(validatorsOf({ 'last-modified': lastModified }), {});
    assert.deepEqual(validatorsOf({ 'last-modified': 'yesterday', date }), {});
  });
});

describe('failed answer', () => {
  it('says by its status whether trying again may help', () => {
    for (const status of [408, 425, 429, 500, 502, 503, 504]) assert.ok(isRetryableStatus(status));
    for (const status of [300, 304, 400, 401, 403, 404, 410, 422]) assert.ok(!isRetryableStatus(status));
  });

  it('is told in one short line without what the request kept secret', () => {
    const hop = firstHop({
      url: 'http://u:hunter22@host/x?token=s3cr3t99',
      config: { headers: { Cookie: 'session=abcdef123', 'X-Api-Key': 'k3yk3yk3y' } },
    });
    const basic = hop.headers.authorization?.slice(6) ?? '';
    const body = `Cannot GET\r\n /x?token=s3cr3t99 \u0000 ${basic} abcdef123 k3yk3yk3y ${'x'.repeat(300)}`;
    const { message } = statusFailure(hop, 404, {}, Buffer.from(body));
    assert.match(
      message,
      /^GET http:\/\/host\/x\?\*\*\* answered 404: Cannot GET \/x\?\*\*\* \*\*\* \*\*\* \*\*\* x+\.\.\.$/,
    );
    assert.ok(message.length < 250);
    assert.equal(statusFailure(hop, 500, {}, Buffer.alloc(0)).message, 'GET http://host/x?*** answered 500');
  });
});
