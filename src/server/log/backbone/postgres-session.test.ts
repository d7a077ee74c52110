import assert from 'node:assert/strict';
import { it } from 'node:test';
import { MailParts, mailParts } from './postgres-session.js';

function reader(): { take: (message: string) => boolean; mails: string[] } {
  const mails: string[] = [];
  const parts = new MailParts((text) => mails.push(text));
  return { take: (message) => parts.take(message), mails };
}

it('mail of any length that is allowed arrives as it was sent, in parts that Postgres takes', () => {
  for (const length of [0, 1, 7000, 7001, 150_000]) {
    const { take, mails } = reader();
    const text = 'x'.repeat(length);
    const parts = mailParts('00ff', text);
    for (const part of parts) {
      assert(part.length < 8000);
      assert.equal(take(part), true);
    }
    assert.deepEqual(mails, [text]);
  }
  assert.throws(() => mailParts('0', 'x'.repeat(1_000_000)), RangeError);
});

it('what is no mail is not taken, and mail with a gap, or of a wrong form, is lost alone', () => {
  const { take, mails } = reader();
  assert.deepEqual([take('42'), take('')], [false, false]);
  const [first = '', second = '', third = ''] = mailParts('aa', 'x'.repeat(20_000));
  for (const part of [first, third, second, second, first, second, 'mail:aa:7', 'mail:zz:0:1:x', third]) take(part);
  assert.deepEqual(mails, []);
  for (const part of [first, ...mailParts('bb', 'other')]) take(part);
  assert.deepEqual(mails, ['other']);
});
