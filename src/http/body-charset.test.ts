import assert from 'node:assert/strict';
import { test } from 'node:test';
import { asUtf8 } from './body-charset.js';
import { readJsonBody } from './json-body.js';

const TEXT = '{"name":"Zoë € 😀"}';
const swapped = (bytes: Buffer): Buffer => Buffer.from(bytes).swap16();
const UTF16 = Buffer.from(TEXT, 'utf16le');

test('a body is read in the charset that its content type names', () => {
  for (const [charset, bytes, text] of [
    ['utf-8', Buffer.from(TEXT), TEXT],
    ['"UTF-8"', Buffer.from(TEXT), TEXT],
    ['UTF8', Buffer.from(TEXT), TEXT],
    ['iso-8859-1', Buffer.from('{"name":"Zoë"}', 'latin1'), '{"name":"Zoë"}'],
    ['ISO-8859-15', Buffer.from([0x22, 0xa4, 0x22]), '"€"'],
    ['windows-1252', Buffer.from([0x22, 0x80, 0x22]), '"€"'],
    ['utf-16', UTF16, TEXT],
    ['utf-16', Buffer.concat([Buffer.from([0xff, 0xfe]), UTF16]), TEXT],
    ['utf-16', swapped(Buffer.concat([Buffer.from([0xff, 0xfe]), UTF16])), TEXT],
    ['utf-16be', swapped(UTF16), TEXT],
    ['utf-16le', UTF16, TEXT],
  ] as const) {
    assert.equal(asUtf8(`application/json; charset=${charset}`, bytes).toString(), text, charset);
  }
  assert.equal(asUtf8(undefined, Buffer.from(TEXT)).toString(), TEXT);
});

test('JSON of a request is read so, too', async () => {
  const body = await readJsonBody('application/json;charset=iso-8859-1', Buffer.from('{"name":"Zoë"}', 'latin1'));
  assert.deepEqual(body, { name: 'Zoë' });
});

test('an unknown charset is refused with 415, bytes that are not of it with 422', () => {
  const long = 'x'.repeat(5_000);
  for (const charset of ['klingon', 'utf-7', long]) {
    assert.throws(
      () => asUtf8(`application/json; charset=${charset}`, Buffer.from('{}')),
      ({ status, message }: Error & { status: number }) =>
        status === 415 &&
        message.length < 120 &&
        /^the charset ".+" of the body is not known: send UTF-8$/.test(message),
    );
  }
  assert.throws(() => asUtf8('application/json; charset=utf-16', Buffer.from('{"a":1}')), {
    status: 422,
    message: 'the body is not "utf-16", which its content type names',
  });
});
