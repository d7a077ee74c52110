import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { test } from 'node:test';
import { bodyOfText } from '../desired/text-body.js';
import { OPAL_HASH_LIMIT_BYTES, opalHash, reportHash } from './report-hash.js';

const sha256 = (text: string): string => createHash('sha256').update(text).digest('hex');

/** Of opal-protocol P4.7, as OPAL's own code computes them. */
const OPAL: readonly (readonly [text: string, hash: string])[] = [
  ['{}', '44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a'],
  ['"plain"', 'a116c9ed46d6207734a43317d30fd88f52ac8634c37d904bbf4e41d865f90475'],
  ['[1,2]', '3a316d6d3226f84c1e46e4447fa8d5fd800bff4a1bc6498152523cd4a602b69b'],
  ['{"b":1,"a":[1.0,null,"\u00e9"]}', 'e8b339df544cbffa32539a5cce8f31c777fa11d29497107f133073e9313ebce3'],
];

test("the hash in OPAL's form is the one that OPAL computes", () => {
  for (const [text, hash] of OPAL) {
    assert.equal(opalHash(text), hash, text);
    assert.equal(reportHash('opal', bodyOfText(` ${text}\n`)), hash);
  }
});

test('the hash of bytes is that of the bytes as they were fetched', () => {
  const text = '{"b" : 1.0}\n';
  assert.equal(reportHash('bytes', bodyOfText(text)), sha256(text));
});

test('a document that is too large for the form of OPAL gets no hash, and is not read', () => {
  const text = (): string => assert.fail('it was read');
  const large = { hash: 'x', sizeBytes: OPAL_HASH_LIMIT_BYTES + 1, text };
  assert.equal(reportHash('opal', large), null);
  assert.equal(reportHash('bytes', large), 'x');
});
