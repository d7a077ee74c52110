import assert from 'node:assert/strict';
import { test } from 'node:test';
import { basicAuthorization, headerText, retryAfterSeconds } from './http-headers.js';

test('Retry-After is a number or a date, within the bound', () => {
  const now = Date.parse('2026-11-21T10:00:00Z');
  assert.equal(retryAfterSeconds('120', 3600, now), 120);
  assert.equal(retryAfterSeconds(' 0 ', 3600, now), 0);
  assert.equal(retryAfterSeconds('Sat, 21 Nov 2026 10:00:30 GMT', 3600, now), 30);
  assert.equal(retryAfterSeconds('Sat, 21 Nov 2026 09:00:00 GMT', 3600, now), 0);
  assert.equal(retryAfterSeconds('999999999', 3600, now), 3600);
  for (const bad of [undefined, '', 'soon', '-5x']) assert.equal(retryAfterSeconds(bad, 3600, now), undefined);
});

test('a header that was sent several times is a list', () => {
  assert.equal(headerText(['a', 'b']), 'a, b');
  assert.equal(headerText(undefined), undefined);
});

test('user name and password of a URL become an authorization header', () => {
  assert.equal(basicAuthorization(new URL('http://host/')), undefined);
  const encoded = Buffer.from('jo@x:p%').toString('base64');
  assert.equal(basicAuthorization(new URL('http://jo%40x:p%@host/')), `Basic ${encoded}`);
});
