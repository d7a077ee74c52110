import assert from 'node:assert/strict';
import { test } from 'node:test';
import { placeRule } from './place-rules.js';

for (const [text, fits, differs] of [
  ['api.example', ['api.example:80'], ['example:80', 'x.api.example:80']],
  ['.example', ['example:80', 'a.b.example:1'], ['myexample:80']],
  ['*.example', ['a.example:80'], ['myexample:80']],
  ['API.example:8080', ['api.example:8080'], ['api.example:80']],
] as const) {
  test(`names of ${text}`, () => {
    const rule = placeRule(text);
    const fitsName = (place: string): boolean => {
      const [host = '', port] = place.split(':');
      return rule.fitsName({ host, port: Number(port) });
    };
    for (const place of fits) assert(fitsName(place), place);
    for (const place of differs) assert(!fitsName(place), place);
    assert(!rule.fitsAddress('127.0.0.1', 80));
  });
}

for (const [text, fits, differs] of [
  ['10.0.0.0/8', [['10.1.2.3', 1]], [['11.0.0.1', 1]]],
  ['10.0.0.0/8:443', [['10.1.2.3', 443]], [['10.1.2.3', 80]]],
  ['10.1.2.3:80', [['10.1.2.3', 80]], [['10.1.2.3', 81]]],
  ['::1', [['::1', 1]], [['::2', 1]]],
  ['[fd00::]/8:443', [['fd12::1', 443]], [['fd12::1', 80]]],
  ['fd00::/8', [['fd12::1', 7]], [['fe80::1', 7]]],
  ['::ffff:10.0.0.0/104', [['10.1.2.3', 1]], [['11.0.0.1', 1]]],
] as const) {
  test(`addresses of ${text}`, () => {
    const rule = placeRule(text);
    for (const [address, port] of fits) assert(rule.fitsAddress(address, port), address);
    for (const [address, port] of differs) assert(!rule.fitsAddress(address, port), address);
    assert(!rule.fitsName({ host: '10.1.2.3', port: 80 }));
  });
}

test('what no place can fit is refused', () => {
  for (const text of [
    ...[
      'http://api.example',
      'a b',
      '10.0.0.0/33',
      '10.0.0/8',
      '127.1',
      '2130706433',
      '0x7f.1',
      'a/8',
      'a:0',
      'a:70000',
    ],
    ...['[::1', '::1/129', '*', '.', 'a..b', 'user@host', '10.0.0.0/8/8', '[api.example]:80'],
  ]) {
    assert.throws(() => placeRule(text), /must be a name, \.suffix, an address or a range/, text);
  }
});
