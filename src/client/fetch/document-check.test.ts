import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { JsonCheck, JsonSyntaxError, MAX_JSON_DEPTH } from '../../lib/json/json-check.js';
import { createDocumentCheck, type DocumentCheck } from './document-check.js';

/** What a check says of bytes in pieces of a size: nothing, or what is wrong. */
function verdict(
  check: Pick<DocumentCheck, 'push'> & { end(): unknown },
  bytes: Uint8Array,
  pieceBytes: number,
): string {
  try {
    for (let at = 0; at < bytes.length; at += pieceBytes) check.push(bytes.subarray(at, at + pieceBytes));
    check.end();
    return '';
  } catch (error) {
    assert.ok(error instanceof JsonSyntaxError);
    return error.message;
  }
}

function assertSame(bytes: Uint8Array, pieceBytes = 7): void {
  assert.equal(verdict(createDocumentCheck(), bytes, pieceBytes), verdict(new JsonCheck(), bytes, pieceBytes));
}

describe('the check of a document says what the check of JSON in pieces says', () => {
  const texts = ['', ' ', '{}', '{"a":1}x', '[1,2', '"\\ud800"', '1e400', '\ufeff{}', '{"a":1,"a":2}', 'nul'];
  for (const text of texts) {
    it(`of ${JSON.stringify(text)}`, () => assertSame(Buffer.from(text)));
  }

  it('of bytes that are no UTF-8', () => {
    assertSame(Buffer.from([0x22, 0xff, 0x22]));
    assertSame(Buffer.from([0x22, 0xed, 0xa0, 0x80, 0x22]));
  });

  it('of documents about as long as what goes through the other parser, and of deep ones', () => {
    for (const length of [MAX_JSON_DEPTH - 1, MAX_JSON_DEPTH, MAX_JSON_DEPTH + 1]) {
      assertSame(Buffer.from(`"${'x'.repeat(length - 2)}"`), 1000);
      assertSame(Buffer.from(`"${'x'.repeat(length - 1)}`), 1000);
      assertSame(Buffer.from('['.repeat(length)), 1000);
      assertSame(Buffer.from(`${'['.repeat(length)}${']'.repeat(length)}`), 1000);
    }
  });

  it('of documents below a path, whose segments are levels, too', () => {
    for (const segments of [1, 3, 9_000, 9_999, 10_000, 20_000]) {
      const most = Math.max(0, MAX_JSON_DEPTH - segments);
      for (const levels of [most - 1, most, most + 1].filter((each) => each >= 0)) {
        const bytes = Buffer.from(levels === 0 ? '1' : '['.repeat(levels) + ']'.repeat(levels));
        const said = verdict(createDocumentCheck(segments), bytes, 1000);
        assert.equal(said, verdict(new JsonCheck({ maxDepth: most }), bytes, 1000));
        assert.equal(said === '', levels <= most);
      }
    }
  });

  it('of any', () => {
    fc.assert(fc.property(fc.json(), (text) => assertSame(Buffer.from(text))));
    fc.assert(fc.property(fc.json(), fc.nat(40), (text, cut) => assertSame(Buffer.from(text.slice(0, cut)))));
    fc.assert(fc.property(fc.uint8Array(), (bytes) => assertSame(bytes)));
  });
});
