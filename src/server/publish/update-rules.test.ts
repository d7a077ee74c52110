import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isDeepStrictEqual } from 'node:util';
import { parseBody } from '../../http/json-body.js';
import { SyncError } from '../../lib/errors.js';
import { dataUpdate } from '../../wire/data.js';
import { parseKeepingData } from '../../wire/inline-data.js';
import { socketUpdate } from './publish-access.js';
import { checkUpdate } from './update-rules.js';

function problemOf(entry: object): string {
  return problemOfText(JSON.stringify({ entries: [{ url: '', topics: ['t'], dst_path: '/a', ...entry }] }));
}

function problemOfText(text: string): string {
  try {
    checkUpdate(parseBody(dataUpdate, parseKeepingData(text)));
    return '';
  } catch (error) {
    assert.ok(error instanceof SyncError && error.status === 422);
    return error.message;
  }
}

/** An object of so many levels. */
function nested(levels: number): object {
  return levels === 1 ? {} : { x: nested(levels - 1) };
}

const table: [name: string, entry: object, problem: RegExp][] = [
  ['a document', { data: { x: null } }, /^$/],
  ['a patch', { save_method: 'PATCH', data: [{ op: 'add', path: '/a~1b/12', value: null }] }, /^$/],
  ['a patch that appends', { save_method: 'PATCH', data: [{ op: 'add', path: '/l/-', value: 1 }] }, /^$/],
  [
    'a move from behind a list',
    { save_method: 'PATCH', data: [{ op: 'move', from: '/l/-', path: '/a' }] },
    /nothing is at/,
  ],
  ['a pointer with a wrong escape', { save_method: 'PATCH', data: [{ op: 'remove', path: '/a~2' }] }, /JSON pointer/],
  ['a list at the root', { dst_path: '/', data: [1] }, /must be an object where dst_path is the root/],
  ['an object at the root', { dst_path: '', data: {} }, /^$/],
  ['DELETE with data', { save_method: 'DELETE', data: [] }, /left out/],
  ['no URL and no data', {}, /absolute URL/],
  ['a topic of 400 levels', { topics: ['a/'.repeat(400)], data: {} }, /topics\.0: .*32 levels/],
  ['a very long topic', { topics: ['a'.repeat(513)], data: {} }, /512 characters/],
  ['too many topics', { topics: Array.from({ length: 101 }, (_, i) => `t${i}`), data: {} }, /at most 100/],
  ['a config of 60 levels', { url: 'http://x', config: nested(60) }, /^$/],
  ['a config of 70 levels', { url: 'http://x', config: nested(70) }, /config: .*64 levels/],
  ['a path of 4,000 segments', { dst_path: '/a'.repeat(4000), data: {} }, /dst_path: .*64 segments/],
];
for (const [name, entry, problem] of table) {
  test(`${name}: ${problem.source === '^$' ? 'accepted' : 'refused, naming the field'}`, () => {
    assert.match(problemOf(entry), problem);
  });
}

test('a document that is nested deeper below its path than engines read is refused, over REST and sockets', () => {
  const lists = (levels: number): string => '['.repeat(levels) + ']'.repeat(levels);
  const saying = (data: string, more = ''): string =>
    `{"entries":[{"url":"","topics":["t"],"dst_path":"/a/b","data":${data}${more}}]}`;
  const refused = (text: string, message: RegExp, field: (string | number)[]): void => {
    const isNamed = (error: unknown): boolean =>
      error instanceof SyncError &&
      message.test(error.message) &&
      isDeepStrictEqual((error.detail as { loc: unknown }[])[0]?.loc, ['body', 'entries', 0, ...field]);
    assert.throws(() => checkUpdate(parseBody(dataUpdate, parseKeepingData(text))), isNamed);
    assert.throws(() => socketUpdate(['t'], text), isNamed);
  };
  assert.equal(problemOfText(saying(lists(9_998))), '');
  const ofPath =
    /nested deeper than 9998 at byte 9998: data may be nested 10000 levels deep, and 2 of them are its path/;
  refused(saying(lists(9_999)), ofPath, ['data']);
  refused(saying(lists(100_000)), /data: must be nested at most 10000 levels/, ['data']);
  const patch = (levels: number): string =>
    saying(
      `[{"op":"remove","path":"/x"},{"op":"add","path":"/c/-","value":${lists(levels)}}]`,
      ',"save_method":"PATCH"',
    );
  assert.equal(problemOfText(patch(9_996)), '');
  refused(patch(9_997), /and 4 of them are its path/, ['data', 1, 'value']);
});

test('a socket publish has the same bounds, before its topics are spread out', () => {
  const text = JSON.stringify({ entries: [{ url: 'http://x', topics: ['a/'.repeat(50_000)], dst_path: '/a' }] });
  assert.throws(() => socketUpdate(['a'], text), /32 levels/);
});

test('a socket publish with an empty topic or id is refused as over REST, naming the field', () => {
  const update = { entries: [{ url: 'http://x', topics: ['a'], dst_path: '/a' }] };
  const refused = (topics: string[], more: object, at: (string | number)[]) =>
    assert.throws(
      () => socketUpdate(topics, JSON.stringify({ ...update, ...more })),
      (error) => error instanceof SyncError && isDeepStrictEqual((error.detail as { loc: unknown }[])[0]?.loc, at),
    );
  refused(['a'], { id: '' }, ['body', 'id']);
  refused(['a'], { entries: [{ ...update.entries[0], topics: ['a', ''] }] }, ['body', 'entries', 0, 'topics', 1]);
  refused(['a', ''], {}, ['topics']);
});
