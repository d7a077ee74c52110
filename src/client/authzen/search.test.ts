import assert from 'node:assert/strict';
import { test } from 'node:test';
import { JsonText } from '../../lib/json/json-text.js';
import { readSearch } from './request.js';
import { pageOf, partOf } from './search.js';

const ALL = ['a', 'b', 'c', 'd', 'e'].map((name) => JsonText.of({ name }));

function request(page?: object, more: object = {}, spaces?: number) {
  const body = {
    subject: { type: 'user', id: 'ann', properties: { x: 1, y: [{ a: 1, b: 2 }] } },
    resource: { type: 'todo', id: '1' },
    ...(page !== undefined && { page }),
    ...more,
  };
  return readSearch(Buffer.from(JSON.stringify(body, null, spaces)), 'action');
}

function ask(asked: ReturnType<typeof request>, { maxResults = 100, all = ALL } = {}) {
  const part = partOf('action', asked);
  const { page, results } = pageOf({ kind: 'action', part, maxResults }, asked, { results: all, context: undefined });
  return { page, names: results.map((one) => (one.value() as { name: string }).name).join('') };
}

test('without a page everything is answered, and no page', () => {
  assert.deepEqual(ask(request()), { page: undefined, names: 'abcde' });
});

test('what does not fit is on further pages, until the token is empty', () => {
  const seen: string[] = [];
  let token = '';
  do {
    const { page, names } = ask(request({ limit: 2, ...(token !== '' && { token }) }));
    assert(page !== undefined);
    assert.deepEqual([page.count, page.total], [names.length, 5]);
    seen.push(names);
    token = page.next_token;
  } while (token !== '');
  assert.deepEqual(seen, ['ab', 'cd', 'e']);
});

test('a request without a page gets one where not everything fits, and goes on by its token alone', () => {
  const first = ask(request(), { maxResults: 3 });
  assert.equal(first.names, 'abc');
  const second = ask(request({ token: first.page?.next_token }), { maxResults: 3 });
  assert.deepEqual(second, { page: { next_token: '', count: 2, total: 5 }, names: 'de' });
});

test('a limit bounds, and one of 0 counts only', () => {
  assert.deepEqual(ask(request({ limit: 5 })), { page: { next_token: '', count: 5, total: 5 }, names: 'abcde' });
  assert.equal(ask(request({ limit: 1000 }), { maxResults: 2 }).names, 'ab');
  const { page, names } = ask(request({ limit: 0 }));
  assert.deepEqual([names, page?.count, page?.total, page?.next_token === ''], ['', 0, 5, false]);
});

test('what was removed meanwhile ends the pages', () => {
  const { page } = ask(request({ limit: 4 }));
  const rest = ask(request({ limit: 4, token: page?.next_token }), { all: ALL.slice(0, 2) });
  assert.deepEqual(rest, { page: { next_token: '', count: 0, total: 2 }, names: '' });
});

test('a token goes with its own request, however that is written', () => {
  const token = ask(request({ limit: 2 })).page?.next_token;
  const same = { limit: 2, token };
  assert.equal(ask(request(same, {}, 2)).names, 'cd');
  assert.equal(
    ask(request(same, { subject: { properties: { y: [{ b: 2, a: 1 }], x: 1 }, id: 'ann', type: 'user' } })).names,
    'cd',
  );
  const { page: second, names } = ask(request({ token }));
  assert.deepEqual(
    [names, ask(request({ token: second?.next_token })).names],
    ['cd', 'e'],
    'the limit goes with the token',
  );
  for (const [page, more] of [
    [{ ...same, limit: 3 }, {}],
    [same, { resource: { type: 'todo', id: '2' } }],
    [same, { context: {} }],
  ] as const) {
    assert.throws(() => ask(request(page, more)), { status: 400, message: /belongs to another request/ });
  }
});

test('a token that is made up is a 400', () => {
  for (const token of ['x', 'MA', 'LTEuMDA', Buffer.from('1e9.0').toString('base64url'), 'x'.repeat(10_000), '\0']) {
    assert.throws(() => ask(request({ token })), { status: 400, message: /page\.token/ }, token);
  }
  assert.equal(ask(request({ token: '' })).names, 'abcde');
});
