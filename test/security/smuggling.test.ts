import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { bearer, tokenOf, withKeys } from '../support/auth.js';
import { exchange, type RawAnswer } from '../support/hostile-wire.js';
import { postJson, request } from '../support/http.js';
import { type StartedServer, startServer } from '../support/start-server.js';

/**
 * What a proxy before the server and the server itself could read as a different number of requests. Each case hides a publish in what
 * one of them takes for a body. The server reads one request, or none: what is not exactly HTTP is refused and the connection ends.
 */
describe('smuggled requests', () => {
  let server: StartedServer;
  let token: string;
  let hidden: string;

  before(async () => {
    server = await startServer(withKeys());
    token = await tokenOf(server.url, { type: 'datasource' });
    const body = '{"entries":[{"url":"","topics":["t"],"dst_path":"/smuggled","data":{}}]}';
    hidden = `POST /data/config HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${token}\r\nConnection: close\r\nContent-Length: ${body.length}\r\n\r\n${body}`;
  });
  after(() => server?.[Symbol.asyncDispose]());

  const send = (text: string): Promise<RawAnswer> => exchange(server.port, Buffer.from(text, 'latin1'));
  /** A request with these header lines, and what follows them. */
  const post = (lines: readonly string[], rest: string): string =>
    ['POST /data/callback_report HTTP/1.1', 'Host: localhost', ...lines, '', rest].join('\r\n');

  const answers = ({ text }: RawAnswer): number[] =>
    [...text.matchAll(/^HTTP\/1\.1 (\d{3})/gm)].map(([, status]) => Number(status));

  async function assertNothingPublished(what: string): Promise<void> {
    const { text } = await request(`${server.url}/data/config`, { headers: bearer(token) });
    assert(!text.includes('/smuggled'), what);
  }

  it('the hidden request is one that would be carried out', async () => {
    const text = hidden.replaceAll('smuggled', 'plain.ed');
    assert.deepEqual(answers(await send(text)), [200]);
  });

  it('a length together with chunks, and lengths that differ, are refused', async () => {
    const cases: Record<string, string> = {
      'CL.TE': post(['Content-Length: 6', 'Transfer-Encoding: chunked'], `0\r\n\r\n${hidden}`),
      'TE.CL': post(['Transfer-Encoding: chunked', 'Content-Length: 3'], `8\r\n{}      \r\n0\r\n\r\n${hidden}`),
      'CL.CL': post(['Content-Length: 2', `Content-Length: ${hidden.length + 2}`], `{}${hidden}`),
      'two equal lengths': post(['Content-Length: 2', 'Content-Length: 2'], `{}${hidden}`),
      'a list of lengths': post([`Content-Length: 2, ${hidden.length + 2}`], `{}${hidden}`),
      'a length with a sign': post(['Content-Length: +2'], `{}${hidden}`),
      'a negative length': post(['Content-Length: -2'], `{}${hidden}`),
      'a length in hex': post(['Content-Length: 0x2'], `{}${hidden}`),
      'a length with blanks inside': post(['Content-Length: 1 0'], `{}${hidden}`),
      'a length beyond all numbers': post(['Content-Length: 99999999999999999999999'], `{}${hidden}`),
      'an empty length': post(['Content-Length: '], hidden),
      'a folded length': post(['Content-Length:', ' 2'], `{}${hidden}`),
      'a blank before the colon': post(['Content-Length : 2'], `{}${hidden}`),
      'a NUL in the length': post(['Content-Length: 2\0'], `{}${hidden}`),
    };
    await refused(cases);
  });

  it('codings that only some read as chunked are refused', async () => {
    const chunked = `0\r\n\r\n${hidden}`;
    const codings = [
      'xchunked',
      'chunked, identity',
      'identity, chunked, identity',
      'chunked;q=1',
      'chunked chunked',
      '"chunked"',
      'gzip',
      '\x0bchunked',
      'chunked\0',
      'cow\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: cow',
    ];
    await refused(
      Object.fromEntries(
        codings.map((coding) => [
          `coding ${JSON.stringify(coding)}`,
          post([`Transfer-Encoding: ${coding}`, 'Content-Length: 5'], chunked),
        ]),
      ),
    );
    await refused({
      'a blank before the colon': post(['Transfer-Encoding : chunked', 'Content-Length: 5'], chunked),
      'a folded line': post(['X: y', ' Transfer-Encoding: chunked', 'Content-Length: 5'], chunked),
      'a line that ends with LF alone': post(['X: y\nTransfer-Encoding: chunked', 'Content-Length: 5'], chunked),
      'HTTP/1.0 with chunks': post(['Transfer-Encoding: chunked'], chunked).replace('HTTP/1.1', 'HTTP/1.0'),
    });
  });

  it('chunks that are not exactly chunks are refused', async () => {
    const rest = `\r\n0\r\n\r\n${hidden}`;
    const chunks: Record<string, string> = {
      'a size with a sign': `+2\r\n{}${rest}`,
      'a negative size': `-2\r\n{}${rest}`,
      'a size with 0x': `0x2\r\n{}${rest}`,
      'a size that overflows': `ffffffffffffffff2\r\n{}${rest}`,
      'a size that is no number': `zz\r\n{}${rest}`,
      'a blank before the size': ` 2\r\n{}${rest}`,
      'an empty size': `\r\n{}${rest}`,
      'a size that ends with LF alone': `2\n{}${rest}`,
      'no line end after a chunk': `2\r\n{}0\r\n\r\n${hidden}`,
      'more than the size says': `2\r\n{} ${rest}`,
      'an extension of 20 KB': `2;${'x'.repeat(20_000)}\r\n{}${rest}`,
      'an extension that ends with LF alone': `2;a\n${hidden}${rest}`,
      'a NUL in the size': `2\0\r\n{}${rest}`,
    };
    await refused(
      Object.fromEntries(
        Object.entries(chunks).map(([name, body]) => [name, post(['Transfer-Encoding: chunked'], body)]),
      ),
    );
  });

  it('request lines and header lines that are not exactly that are refused', async () => {
    const cases: Record<string, string> = {
      'a carriage return within a header': post(['X: y\rContent-Length: 0'], hidden),
      'a header name with a blank': post(['Content Length: 2'], `{}${hidden}`),
      'a header name with a NUL': post(['Content-Length\0: 2'], `{}${hidden}`),
      'a line without a colon': post(['Content-Length'], hidden),
      'another version': `POST /data/callback_report HTTP/1.9\r\nHost: localhost\r\n\r\n${hidden}`,
      'no version': `GET /data/config\r\n\r\n${hidden}`,
      'a blank line feed in the target': `GET /x\nHost: localhost\r\n\r\n${hidden}`,
      'a preface of HTTP/2': `PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n${hidden}`,
      'blanks before the method': ` POST /data/config HTTP/1.1\r\nHost: localhost\r\n\r\n${hidden}`,
    };
    await refused(cases);
  });

  it('a header that a request asks for is in no answer', async () => {
    for (const target of [
      '/%0d%0ax-injected:%201',
      '/data/config?topics=%0d%0ax-injected:1',
      '/policy?path=a%0d%0ax-injected:1&base_hash=%0d%0ax-injected:1',
    ]) {
      const answer = await send(
        `GET ${target} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${token}\r\nConnection: close\r\n\r\n`,
      );
      assert.doesNotMatch(answer.text, /^x-injected/im, target);
    }
    const key = await postJson(
      `${server.url}/data/config`,
      { entries: [{ url: '', topics: ['t'], dst_path: '/k', data: {} }], id: 'a\r\nx-injected: 1' },
      { ...bearer(token), 'idempotency-key': 'k' },
    );
    assert.equal(key.headers.get('x-injected'), null);
  });

  /** One refusal and the end of the connection, and nothing was published. */
  async function refused(cases: Readonly<Record<string, string>>): Promise<void> {
    for (const [name, text] of Object.entries(cases)) {
      const answer = await send(text);
      const statuses = answers(answer);
      assert(statuses.length <= 1, `${name}: ${statuses.join(', ')}`);
      assert(
        statuses.every((status) => status >= 400 && status < 500),
        `${name}: ${statuses.join(', ')}`,
      );
      await assertNothingPublished(name);
    }
  }
});
