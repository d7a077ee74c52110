import assert from 'node:assert/strict';
import { test } from 'node:test';
import { leaveNumberKeys } from './number-keys.js';
import type { CompiledSet, DocumentOp } from './types.js';

const SET: CompiledSet = {
  wasm: new Uint8Array(1),
  entrypoints: [
    { path: 'app/allow', compiled: true, reads: [['app', 'users']], open: [['app', 'users']] },
    { path: 'app/fixed', compiled: true, reads: [['app', 'limit']] },
    { path: 'app/go', compiled: false, reason: 'http.send', reads: [], open: [['app', 'users']] },
  ],
};

/** The entrypoints that stay compiled after changes. */
function stay(...ops: DocumentOp[]): string[] {
  const { entrypoints } = leaveNumberKeys(SET, ops);
  return entrypoints.filter(({ compiled }) => compiled).map(({ path }) => path);
}

const ALL = ['app/allow', 'app/fixed'];

test('members whose names are numbers leave an entrypoint that looks there to Go', () => {
  for (const op of [
    { path: ['app', 'users', '12'], text: '{}' },
    { path: ['app', 'users'], text: String.raw`{"\u0031\u0032":{}}` },
    { path: ['app', 'users'], text: String.raw`{"1\u002e5":{}}` },
    { path: ['app', 'users'], text: String.raw`{"1\u00455":{}}` },
    { path: ['app', 'users', '-1.5e3', 'name'], text: '"ann"' },
    { path: ['app', 'users'], text: '{"ann":{}, "12" : {}}' },
    { path: ['app', 'users', 'ann'], text: '{"by_year":{"2026":1}}' },
    { path: ['app'], text: '{"users":{"0":1}}' },
    { path: [], text: '{"app":{"users":{"7":1}}}' },
  ]) {
    assert.deepEqual(stay(op), ['app/fixed'], JSON.stringify(op));
  }
});

test('other changes leave everything compiled', () => {
  for (const op of [
    { path: ['app', 'users', '12'], text: undefined },
    { path: ['app', 'users', 'ann'], text: '{"age":12,"tags":["12"]}' },
    { path: ['app', 'users', '012'], text: '{"1a":1}' },
    { path: ['app', 'limit', '12'], text: '{"12":1}' },
    { path: ['other'], text: '{"12":1}' },
  ]) {
    assert.deepEqual(stay(op), ALL, JSON.stringify(op));
  }
});

test('says why, and keeps the reason of others', () => {
  const { entrypoints } = leaveNumberKeys(SET, [{ path: ['app', 'users', '12'], text: '1' }]);
  assert.match(entrypoints[0]?.reason ?? '', /names are numbers/);
  assert.equal(entrypoints[2]?.reason, 'http.send');
});
