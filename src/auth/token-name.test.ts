import assert from 'node:assert/strict';
import { test } from 'node:test';
import { holderOf, isTokenName, isUuid, MAX_TOKEN_NAME, subjectOfName } from './token-name.js';

const OTHER = '5a8e53a5-4210-4217-8180-d29a6851552b';

test('a name is a short text on one line, without control characters, that is no UUID', () => {
  const good = ['billing', 'Billing (EU), team 7', 'a', 'ä/ö', '請求', '"x" <y>', '-', 'n'.repeat(MAX_TOKEN_NAME)];
  const bad = [
    ...['', ' ', ' billing', 'billing\n', 'a\u0000b', 'a\u001b[2J', 'a\u202eb', 'a\u2028b', 'a\u200bb', '\ud800'],
    ...[OTHER, OTHER.replaceAll('-', '').toUpperCase(), 'n'.repeat(MAX_TOKEN_NAME + 1)],
  ];
  assert.deepEqual([...good, ...bad].filter(isTokenName), good);
});

test('the subject of a name is a UUID of its own, and always the same', () => {
  const subject = subjectOfName('billing');
  assert(isUuid(subject));
  assert.match(subject, /^.{12}8.{3}[89ab]/);
  assert.equal(subject, '320886533cdb85fa85800d78b7c97c09');
  assert.notEqual(subjectOfName('Billing'), subject);
});

test('a name counts only where the subject is made of it', () => {
  const subject = subjectOfName('billing');
  assert.equal(holderOf(subject, 'billing'), 'billing');
  assert.equal(holderOf(subject.toUpperCase(), 'billing'), 'billing');
  for (const name of ['Billing', 'other', OTHER, undefined, null, 7, ['billing']]) {
    assert.equal(holderOf(subject, name), subject);
    assert.equal(holderOf(OTHER, name), OTHER);
  }
  assert.equal(holderOf(subjectOfName('a\nb'), 'a\nb'), subjectOfName('a\nb'));
});
