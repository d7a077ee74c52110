import type { Headers } from './hostile-wire.js';

/** Texts that mean something to a shell, to git, to a path, a regular expression or a parser. */
export const HOSTILE_TEXTS = [
  '--upload-pack=touch /tmp/policysync-was-here',
  '--output=/tmp/policysync-was-here',
  'HEAD~1',
  'HEAD',
  'refs/heads/master',
  '@{-1}',
  '0'.repeat(40),
  'f'.repeat(64),
  '../../../../etc/passwd',
  '/etc/passwd',
  '.git/config',
  '$(id)',
  '`id`',
  '%00',
  '\u0000',
  'a\r\nx-injected: 1',
  `${'a'.repeat(64)}!`.repeat(60),
  '__proto__',
  'constructor',
  '[object Object]',
  '\ud83d\ude00'.repeat(100),
  '-1',
  '1e999',
] as const;

/** Ways to write a path that a router, and the check of who may call, could read differently. */
export const PATH_TRICKS: readonly ((path: string) => string)[] = [
  (path) => `/${path}`,
  (path) => `/.${path}`,
  (path) => `/x/..${path}`,
  (path) => `/%2e%2e${path}`,
  (path) => `${path}%00`,
  (path) => `${path}%2f`,
  (path) => `${path};x=1`,
  (path) => `${path}/..;/`,
  (path) => path.replaceAll('/', '%2f'),
  (path) => path.replaceAll('/', '\\'),
  (path) => path.toUpperCase(),
  (path) => `${path}//`,
  (path) => `${path}/${'a/'.repeat(2000)}`,
  (path) => `${path}%`,
  (path) => `${path}%zz`,
  (path) => `${path}%ff%fe`,
  (path) => `${path}#fragment`,
  (path) => `http://user:password-in-target@localhost${path}`,
  (path) => `http://[${path}`,
  () => '*',
  () => '//',
];

/** Methods of which a route has one or two. */
export const ODD_METHODS = [
  'PUT',
  'PATCH',
  'DELETE',
  'POST',
  'GET',
  'OPTIONS',
  'TRACE',
  'PROPFIND',
  'SEARCH',
  'CONNECT',
  'NONSENSE',
];

/** Header sets that HTTP does not allow, or that are beyond what a server takes. */
export const REFUSED_HEADERS: Readonly<Record<string, Headers>> = {
  'a header of 20 KB': [['X-Long', 'x'.repeat(20_000)]],
  '1,000 headers': Array.from({ length: 1000 }, (_, index) => [`X-${index}`, 'x'.repeat(20)] as const),
  'a header name with a space': [['Bad Name', 'x']],
  'a NUL in a header': [['X-Nul', 'a\0b']],
  'a negative length': [['Content-Length', '-1']],
  'a length in exponents': [['Content-Length', '1e3']],
  'two lengths': [
    ['Content-Length', '1'],
    ['Content-Length', '2'],
  ],
  'a length and chunks': [
    ['Content-Length', '5'],
    ['Transfer-Encoding', 'chunked'],
  ],
  'an unknown transfer coding': [['Transfer-Encoding', 'identity, nonsense']],
  'an expectation that nobody meets': [['Expect', 'miracles']],
};

/** Headers that mean nothing here, or that are read and must be read with care. */
export const ODD_HEADERS: Readonly<Record<string, Headers>> = {
  'a method override': [['X-HTTP-Method-Override', 'DELETE']],
  'a protocol version of -1': [['X-Sync-Protocol', '-1']],
  'a protocol version of 1e999': [['X-Sync-Protocol', '1e999']],
  'a nonsense encoding': [['Accept-Encoding', 'gzip;q=NaN, *;q=-1, \xff']],
  'a thousand entity tags': [['If-None-Match', '"x", '.repeat(1000)]],
  'an offer of HTTP/2': [
    ['Connection', 'close, Upgrade, HTTP2-Settings'],
    ['Upgrade', 'h2c'],
    ['HTTP2-Settings', 'AAEAAEAA'],
  ],
  'a range': [['Range', 'bytes=-1-,5-2']],
  'a forwarded address': [['X-Forwarded-For', '127.0.0.1, () { :; }; id']],
  'a foreign origin': [['Origin', 'http://evil.example']],
  'a cookie': [['Cookie', '__proto__=1; '.repeat(200)]],
};

/** An object of 10,000 levels. */
export const DEEP_OBJECT = Buffer.from(`${'{"a":'.repeat(10_000)}1${'}'.repeat(10_000)}`);

/** Bodies that are no JSON object. */
export const NOT_JSON: Readonly<Record<string, Buffer>> = {
  nothing: Buffer.alloc(0),
  blanks: Buffer.from(' \n '),
  'half an object': Buffer.from('{"entries":['),
  'an object and a half': Buffer.from('{} {'),
  'single quotes': Buffer.from("{'a':1}"),
  NaN: Buffer.from('{"a":NaN}'),
  'a comment': Buffer.from('/* {} */'),
  'a trailing comma': Buffer.from('{"a":1,}'),
  'a byte that is not UTF-8': Buffer.from([0x7b, 0x22, 0xff, 0x22, 0x3a, 0x31, 0x7d]),
  'half a UTF-8 character': Buffer.from([0x22, 0xe2, 0x82]),
  'UTF-16': Buffer.from('{"entries":[]}', 'utf16le'),
  NULs: Buffer.alloc(64),
  '10,000 levels of arrays': Buffer.from(`${'['.repeat(10_000)}${']'.repeat(10_000)}`),
  '100,000 open brackets': Buffer.from('['.repeat(100_000)),
  'a number of 10,000 digits': Buffer.from('9'.repeat(10_000)),
  'a broken escape': Buffer.from('{"a":"\\u00zz"}'),
};

/** Content types that are not JSON. */
export const WRONG_TYPES = [
  'text/plain',
  'application/x-www-form-urlencoded',
  'multipart/form-data; boundary=x',
  'nonsense',
  ';',
  'application/jsonx',
  'text/json\xff',
];
