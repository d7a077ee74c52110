import assert from 'node:assert/strict';
import { it } from 'node:test';
import { logLines } from './lines.js';
import type { LoggedUpdate } from './pages.js';

function update(
  seq: number,
  entries: Partial<LoggedUpdate['entries'][number]>[],
  more: Partial<LoggedUpdate> = {},
): LoggedUpdate {
  const whole = entries.map((entry) => ({
    url: '',
    topics: ['policy_data'],
    dst_path: '/a',
    save_method: 'PUT',
    ...entry,
  }));
  return { seq, time: '2026-11-21T10:00:00.000Z', publisher: null, reason: null, entries: whole, ...more };
}

it('has a line for each entry, and the facts of an update once', () => {
  const updates = [
    update(7, [{ dst_path: '/users', data_bytes: 27 }], { publisher: 'billing', reason: 'new user' }),
    update(8, [
      { dst_path: '', url: 'https://me:hush@data.example/all?key=hush' },
      { save_method: 'DELETE', dst_path: '/old', topics: ['a', 'b', 'c', 'd', 'e'] },
    ]),
  ];
  assert.deepEqual(logLines(updates, 1000).lines, [
    'SEQ  TIME                 PUBLISHER  CHANGE                                       TOPICS               REASON',
    '7    2026-11-21 10:00:00  billing    PUT /users (27 bytes)                        policy_data          new user',
    '8    2026-11-21 10:00:00  -          PUT / from https://***@data.example/all?***  policy_data',
    '                                     DELETE /old                                  a, b, c, and 2 more',
  ]);
});

it('goes on in the columns of the lines before, without a header', () => {
  const { lines, widths } = logLines([update(7, [{ dst_path: '/a/long/path/of/the/first/lines' }])], 1000);
  const [next = ''] = logLines([update(1234, [{}])], 1000, widths).lines;
  assert.equal(next.indexOf('policy_data'), (lines[1] ?? '').indexOf('policy_data') + 1, 'the seq is one longer');
  assert.doesNotMatch(next, /SEQ/);
});

it('is bounded: entries, width, and what a terminal would obey', () => {
  const many = update(
    1,
    Array.from({ length: 13 }, () => ({})),
  );
  assert.match(logLines([many], 1000).lines.at(-1) ?? '', /^ +and 3 more entries$/);
  const evil = update(2, [{ dst_path: '/\u001b[2J' }], { reason: 'x\ny'.repeat(500) });
  const { lines } = logLines([evil], 80);
  assert.equal(lines.length, 2);
  for (const line of lines) assert(line.length <= 80 && !/\p{Cc}/u.test(line), line);
});
