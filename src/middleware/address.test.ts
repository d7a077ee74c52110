import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { type RouterWays, readAddress } from './address.js';

const EXPRESS: RouterWays = {
  ignoresCase: 'ascii',
  comparesEncoded: true,
  mergesSlashes: false,
  endsAtSemicolon: false,
};
const SENSITIVE: RouterWays = { ...EXPRESS, ignoresCase: 'no' };
const FASTIFY: RouterWays = { ...SENSITIVE, comparesEncoded: false };
const LAX: RouterWays = { ignoresCase: 'all', comparesEncoded: false, mergesSlashes: true, endsAtSemicolon: true };

/**
 * Ways of the router, mount path, target, route; the segments that are told, or what the refusal
 * says.
 */
type Row = readonly [RouterWays, string, string, string | null, readonly string[] | string];

const ROWS: readonly Row[] = [
  // Plain ones.
  [EXPRESS, '', '/', '/', []],
  [EXPRESS, '', '/documents/7?a=/b', null, ['documents', '7']],
  [EXPRESS, '/acme', '/report/', '/report', ['acme', 'report']],
  [EXPRESS, '/acme', '/?x', '/', ['acme']],
  [FASTIFY, '', '/a%20b/%C3%84', null, ['a b', 'Ä']],
  // Scheme and host.
  [EXPRESS, '', 'http://public/acme/secret', null, ['acme', 'secret']],
  [EXPRESS, '', 'HTTPS://[::1]:80/acme', null, ['acme']],
  [EXPRESS, '/acme', 'http://public?x=/y', null, ['acme']],
  [EXPRESS, '', 'http://', null, 'neither a path'],
  [EXPRESS, '', 'http:///acme', null, 'neither a path'],
  [EXPRESS, '', 'http://a@b/acme', null, 'neither a path'],
  [EXPRESS, '', 'ftp://a/acme', null, 'neither a path'],
  [EXPRESS, '', '*acme', null, 'neither a path'],
  [EXPRESS, '', '', null, 'neither a path'],
  // Characters that end a path for some, or are a slash to some.
  [EXPRESS, '', '/acme#x', null, 'a character'],
  [EXPRESS, '', '/acme\\x', null, 'a character'],
  [EXPRESS, '', '/acme\u00a0', null, 'a character'],
  [EXPRESS, '', '/acme\t', null, 'a character'],
  [EXPRESS, '', '/documents/a%00', '/documents/:id', 'a character'],
  [FASTIFY, '', '/acme;x', null, ['acme;x']],
  [LAX, '', '/acme;x/y', null, ['acme']],
  // Slashes and dots.
  [EXPRESS, '', '//acme', null, 'an empty segment'],
  [EXPRESS, '', '/acme//', null, 'an empty segment'],
  [LAX, '', '//acme//x//', null, ['acme', 'x']],
  [EXPRESS, '', '/a/../b', null, '. or ..'],
  [EXPRESS, '/a/%2e', '/b', '/b', '. or ..'],
  [EXPRESS, '', '/documents/%2E%2e', '/documents/:id', '. or ..'],
  [EXPRESS, '', '/documents/..%2fb', '/documents/:id', '. or ..'],
  [EXPRESS, '', '/documents/a%5C..', '/documents/:id', '. or ..'],
  [EXPRESS, '', '/a%2Fb', null, 'slash or backslash'],
  [FASTIFY, '', '/files/a%2fb', '/files/*', 'slash or backslash'],
  [FASTIFY, '', '/numbers/a%5Cb', '/numbers/:n(^\\d+$)', 'slash or backslash'],
  [FASTIFY, '', '/documents/a%2Fb', '/documents/:id', ['documents', 'a/b']],
  // Encodings.
  [EXPRESS, '', '/%zz', null, 'no text'],
  [EXPRESS, '', '/%c0%ae', null, 'no text'],
  [EXPRESS, '', '/%61dmin', null, 'encodes a letter'],
  [EXPRESS, '/%61dmin', '/x', '/x', 'encodes a letter'],
  [EXPRESS, '', '/documents/%6eew', '/documents/:id', 'encodes a letter'],
  [FASTIFY, '', '/documents/%7Eann', '/documents/:id', ['documents', '~ann']],
  [EXPRESS, '', '/ann%40x/%2561', null, ['ann@x', '%61']],
  [FASTIFY, '', '/%61dmin', null, ['admin']],
  // Case.
  [EXPRESS, '', '/ADMIN', null, 'upper-case'],
  [EXPRESS, '/ADMIN', '/report', '/report', 'upper-case'],
  [SENSITIVE, '/ADMIN', '/Report', null, ['ADMIN', 'Report']],
  [EXPRESS, '', '/%C3%84', null, ['Ä']],
  [LAX, '', '/%C3%84', null, 'upper-case'],
  [LAX, '', '/%E2%84%AAey', '/key', ['key']], // the Kelvin sign is a k in lower case
  [EXPRESS, '', '/DOCUMENTS/Ab', '/Documents/:id', ['Documents', 'Ab']],
  [EXPRESS, '', '/FILES/Ab/C', '/files/*rest', ['files', 'Ab', 'C']],
  [EXPRESS, '', '/Ab', '/{*rest}', ['Ab']],
  [EXPRESS, '', '/Ab', '*', ['Ab']],
  [EXPRESS, '', '/pair/A-b', '/pair/:a-:b', 'upper-case'],
  [EXPRESS, '', '/maybe/A', '/maybe{/:x}', 'upper-case'],
  // What the route does not say.
  [FASTIFY, '', '/documents/', '/documents/:id', 'of the route'],
  [FASTIFY, '', '/files', '/other/files/*', 'of the route'],
  [EXPRESS, '', '/b', '/a', 'of the route'],
];

describe('the reading of an address', () => {
  for (const [ways, mount, target, route, expected] of ROWS) {
    const told = typeof expected === 'string' ? `refused: ${expected}` : JSON.stringify(expected);
    it(`${mount} ${target} at ${route}, ${JSON.stringify(Object.values(ways))}: ${told}`, () => {
      const { ambiguous, ...reading } = readAddress({ mount, target, route }, ways) as Record<string, unknown>;
      if (typeof expected === 'string') assert(String(ambiguous).includes(expected), String(ambiguous));
      else assert.deepEqual([reading, ambiguous], [{ value: expected }, undefined]);
    });
  }
});
