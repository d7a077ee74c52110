import assert from 'node:assert/strict';
import { test } from 'node:test';
import { secretsOfUrl, serverAddress } from './server-address.js';

test('a path goes below that of the server, before its query', () => {
  const query = new URLSearchParams({ path: '.' });
  assert.equal(serverAddress('http://localhost:7002', '/ws'), 'http://localhost:7002/ws');
  assert.equal(serverAddress('http://localhost:7002', '/policy', query), 'http://localhost:7002/policy?path=.');
  assert.equal(serverAddress('https://h/base/?k=1', '/policy', query), 'https://h/base/policy?k=1&path=.');
  assert.equal(serverAddress('https://u:p@h/?k=1', '/ws'), 'https://u:p@h/ws?k=1');
  assert.equal(serverAddress('https://h/?next=/a?b=1', '/ws'), 'https://h/ws?next=/a?b=1', 'a later ? is of the query');
});

test('what of a URL is secret is listed as it is written and as it is meant', () => {
  const secrets = secretsOfUrl('https://user:p%40ss@h/x?key=s%20ecret&a=b');
  assert.deepEqual(
    secrets.sort(),
    ['key=s ecret&a=b', 'key=s%20ecret&a=b', 'p%40ss', 'p@ss', 's ecret', 'user'].sort(),
  );
  assert.deepEqual(secretsOfUrl('no url'), []);
});
