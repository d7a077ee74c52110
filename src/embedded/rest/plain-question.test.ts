import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type PlainQuestion, plainQuestion } from './plain-question.js';
import { restRoute, restTarget } from './rest-target.js';

function ask(method: string, url: string, body?: string | Buffer, headers = {}): PlainQuestion | undefined {
  const target = restTarget(url);
  const route = restRoute(method, target?.path ?? '');
  assert(target !== undefined && route !== undefined, url);
  return plainQuestion(route, target, body === undefined ? undefined : { bytes: Buffer.from(body), headers });
}

const post = (url: string, body: string | Buffer, headers = {}): PlainQuestion | undefined =>
  ask('POST', url, body, headers);
const V1 = '/v1/data/app/allow';

test('a body of input alone: its text as it was sent', () => {
  for (const [body, input] of [
    ['{"input":{"user":"ann"}}', '{"user":"ann"}'],
    [' {\n"input" :\t[1.0, 1e400, -0] } \r\n', '\t[1.0, 1e400, -0] '],
    ['{"input":"}"}', '"}"'],
    ['{"input":{"a":1,"a":2}}', '{"a":1,"a":2}'],
    ['{"input":false}', 'false'],
    ['{"input":"<é\\u00e9>"}', '"<é\\u00e9>"'],
  ] as const)
    assert.deepEqual(post(V1, body), { api: 'v1', path: 'app/allow', input, warns: false }, body);
});

test('no input: undefined, with a warning', () => {
  for (const body of ['', ' \n', '{}', ' { } ', '{"input":null}', '{"input": null }'])
    assert.deepEqual(post(V1, body), { api: 'v1', path: 'app/allow', input: undefined, warns: true }, body);
});

test('whatever is not exactly that is for OPA', () => {
  for (const body of [
    '{"input":1,"more":2}',
    '{"more":2,"input":1}',
    '{"input":1,"input":2}',
    '{"INPUT":1}',
    '{"inp\\u0075t":1}',
    '{"input":1} {}',
    '{"input":1}x',
    '{"input":}',
    '{"input"}',
    '{"input":01}',
    '{"input":NaN}',
    '{"input":{"a":1}',
    '{"input":"\\ud800"}',
    '{"input":"\\uDFFF"}',
    '[]',
    'null',
    '"input"',
    'input: 1',
    '\uFEFF{"input":1}',
  ])
    assert.equal(post(V1, body), undefined, body);
  assert.equal(post(V1, Buffer.from('{"input":"\xff"}', 'latin1')), undefined, 'not UTF-8');
  assert.equal(post(V1, '{"input":1}', { 'content-type': 'application/x-yaml' }), undefined);
  assert.equal(post(V1, '{"input":1}', { 'content-encoding': 'gzip' }), undefined);
  for (const query of ['?pretty', '?metrics=false', '?x', '?input=1'])
    assert.equal(post(V1 + query, '{"input":1}'), undefined, query);
});

test('a plain path only: no index, no escapes, no dots, no empty segment', () => {
  for (const path of [
    'app',
    'app/rbac/allow',
    'a-b/c_d/e.f/~g',
    'a1/b2',
    'a/.hidden',
    'a/...',
    'a/1e5',
    'a/0x1',
    'a/1.5',
    'a/1.0x',
    'v1.0',
  ])
    assert.equal(post(`/v1/data/${path}`, '{"input":1}')?.path, path, path);
  for (const path of [
    '',
    '/',
    '/app/',
    '/app//allow',
    '/7',
    '/app/7/x',
    '/app/-7',
    '/app/+7',
    '/app/1.0',
    '/app/0.0/x',
    '/app/1.',
    '/app/-1.00',
    '/app/.0',
    '/app/%61llow',
    '/app/a b',
  ])
    assert.equal(post(`/v1/data${path}`, '{"input":1}'), undefined, path);
  for (const path of ['/..', '/app/../x', '/.', '/app/./x', "/app/'x", '/app/é', '/app/x;y', '/app/x"y'])
    assert.equal(post(`/v1/data${path}`, '{"input":1}'), undefined, path);
});

test('GET has its input in the query, or none', () => {
  assert.deepEqual(ask('GET', V1), { api: 'v1', path: 'app/allow', input: undefined, warns: false });
  assert.equal(ask('GET', `${V1}?input=%7B%22a%22%3A+1%7D`)?.input, '{"a": 1}');
  assert.equal(ask('GET', `${V1}?input=null`)?.input, 'null');
  for (const query of [
    'input=',
    'input',
    'input=1&input=2',
    'input=1&pretty',
    'input=1;2',
    'input=%',
    'input={',
    'INPUT=1',
    '%69nput=1',
  ])
    assert.equal(ask('GET', `${V1}?${query}`), undefined, query);
});

test('v0 and the root: the body is the input, null without one', () => {
  assert.deepEqual(post('/v0/data/app/allow', '{"user":1}'), {
    ...{ api: 'v0', path: 'app/allow', input: '{"user":1}', warns: false },
  });
  assert.equal(post('/v0/data/app/allow', ' ')?.input, 'null');
  assert.deepEqual(post('/', '1'), { api: 'v0', path: 'system/main', input: '1', warns: false });
  for (const body of ['{', '1 2', '{"a":"\\ud800"}']) assert.equal(post('/', body), undefined, body);
  assert.equal(ask('GET', '/'), undefined);
});

test('nothing else is a plain question', () => {
  for (const path of ['/v1/query', '/v1/compile', '/v1/compile/app/allow'])
    assert.equal(post(path, '{"input":1}'), undefined, path);
});
