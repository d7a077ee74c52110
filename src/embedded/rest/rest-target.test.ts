import assert from 'node:assert/strict';
import { test } from 'node:test';
import { handlerLabel, restRoute, restTarget } from './rest-target.js';

test('a target has a path and a query, also in absolute form', () => {
  assert.deepEqual(restTarget('/v1/data/a?input=%7B%7D?'), { path: '/v1/data/a', query: 'input=%7B%7D?' });
  assert.deepEqual(restTarget('/v1/data#a?b'), { path: '/v1/data#a', query: 'b' });
  assert.deepEqual(restTarget('http://localhost:8181/v1/data?pretty'), { path: '/v1/data', query: 'pretty' });
  assert.deepEqual(restTarget('http://localhost'), { path: '/', query: '' });
  assert.deepEqual(restTarget('http://localhost?a'), { path: '/', query: 'a' });
  for (const other of ['*', 'localhost:80', '', 'ftp://a/b']) assert.equal(restTarget(other), undefined, other);
});

test('every route that is served, by its label', () => {
  const routes: readonly [string, string, string][] = [
    ['POST', '/v1/data', 'v1/data'],
    ['GET', '/v1/data/app/allow', 'v1/data'],
    ['POST', '/v0/data/app/', 'v0/data'],
    ['GET', '/v1/query', 'v1/query'],
    ['POST', '/v1/query/x', 'v1/query'],
    ['POST', '/v1/compile', 'v1/compile'],
    ['GET', '/v1/compile/app/filters', 'v1/compile'],
    ['GET', '/v1/policies', 'v1/policies'],
    ['GET', '/v1/policies/app.rego', 'v1/policies'],
    ['GET', '/health', 'health'],
    ['GET', '/health/live', 'health'],
    ['GET', '/metrics', 'metrics'],
    ['POST', '/', 'index'],
    ['GET', '/', 'index'],
  ];
  for (const [method, path, label] of routes) {
    const route = restRoute(method, path);
    assert.notEqual(route, undefined, `${method} ${path}`);
    assert.equal(handlerLabel(route), label, `${method} ${path}`);
  }
});

test('nothing else is: no method that writes, no other path, no other spelling', () => {
  const methods = ['PUT', 'PATCH', 'DELETE', 'HEAD', 'OPTIONS', 'TRACE', 'get', 'post', 'PURGE', ''];
  for (const method of methods) {
    for (const path of ['/', '/v1/data', '/v1/data/a', '/v1/policies/a', '/v1/query', '/health', '/metrics'])
      assert.equal(restRoute(method, path), undefined, `${method} ${path}`);
  }
  const paths = [
    '/v1/config',
    '/v1/status',
    '/v1',
    '/v2/data',
    '/v1/database',
    '/v1/data%2fa',
    '/v1/%64ata',
    '//v1/data',
  ];
  for (const path of [...paths, '/V1/data', '/v1/policiesx', '/debug/pprof/', '/healthy', '/v1//data', '/./v1/data']) {
    assert.equal(restRoute('GET', path), undefined, path);
    assert.equal(restRoute('POST', path), undefined, path);
  }
  for (const [method, path] of [
    ['GET', '/v0/data'],
    ['POST', '/v1/policies'],
    ['POST', '/health'],
    ['POST', '/metrics'],
  ] as const)
    assert.equal(restRoute(method, path), undefined, path);
});
