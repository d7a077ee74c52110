import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createRouter, linkTo, routeOf } from '../../ui/src/router.js';

const ADDRESSES: readonly [hash: string, page: string | undefined, id: string | undefined][] = [
  ['', 'fleet', undefined],
  ['#', 'fleet', undefined],
  ['#/fleet?q=app:billing', 'fleet', undefined],
  ['#/fleet/', 'fleet', undefined],
  ['#/clients/a%2Fb', 'client', 'a/b'],
  ['#/clients/10.0.0.7:50122', 'client', '10.0.0.7:50122'],
  ['#/clients', undefined, undefined],
  ['#/changes', 'changes', undefined],
  ['#/changes/5b1f0c2', 'change', '5b1f0c2'],
  ['#/changes/%', 'change', '%'],
  ['#/policy?tab=files', 'policy', undefined],
  ['#/nowhere', undefined, undefined],
  ['#/constructor', undefined, undefined],
  ['#main', undefined, undefined],
];
for (const [hash, page, id] of ADDRESSES) {
  test(`the address ${hash || 'without a hash'} is ${page ?? 'no page'}`, () => {
    assert.deepEqual([routeOf(hash).page, routeOf(hash).id], [page, id]);
  });
}

test('an address is read by people, and means the same when it comes back', () => {
  const query = { q: 'app:billing,search behind:>1 "a&b+c"', sort: undefined, group: '' };
  const href = linkTo('fleet', { query });
  assert.equal(href, '#/fleet?q=app:billing,search+behind:>1+%22a%26b%2Bc%22');
  assert.equal(routeOf(href).query.get('q'), query.q);
  assert.equal(linkTo('client', { id: 'a/b c' }), '#/clients/a%2Fb%20c');
  assert.equal(routeOf(linkTo('client', { id: 'a/b?c#d' })).id, 'a/b?c#d');
});

function setUp(hash: string) {
  const history = [hash];
  let heard = (): void => undefined;
  const router = createRouter({
    location: {
      get hash() {
        return history.at(-1) ?? '';
      },
    },
    history: {
      pushState: (_data, _unused, url) => void history.push(url),
      replaceState: (_data, _unused, url) => void history.splice(-1, 1, url),
    },
    addEventListener: (_name, listener) => {
      heard = listener;
    },
  });
  const back = (): void => {
    history.pop();
    heard();
  };
  return { router, history, back };
}

test('opening pushes, typing replaces, back goes back', () => {
  const { router, history, back } = setUp('#/fleet');
  router.setQuery({ q: 'a' }, 'replace');
  router.setQuery({ q: 'ab' }, 'replace');
  router.setQuery({ group: 'app' }, 'go');
  router.go(linkTo('client', { id: 'x' }));
  router.go(linkTo('client', { id: 'x' }));
  assert.deepEqual(history, ['#/fleet?q=ab', '#/fleet?q=ab&group=app', '#/clients/x']);
  assert.equal(router.route.value.id, 'x');
  back();
  assert.deepEqual(Object.fromEntries(router.route.value.query), { q: 'ab', group: 'app' });
  router.setQuery({ q: undefined, group: undefined }, 'replace');
  assert.equal(history.at(-1), '#/fleet');
});
