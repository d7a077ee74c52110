import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { FleetChange } from '../wire/fleet.js';
import { byDay, changeResult, changeSize, changeTitle, errorLine, errorPlace, matchesChange } from './change-words.js';

const AT = Date.UTC(2026, 10, 22, 10);

function change(more: Partial<FleetChange> = {}): FleetChange {
  return {
    ...{
      kind: 'data',
      id: '7',
      update_id: 'u7',
      title: 'Limits',
      by: 'limits-job',
      at: AT,
      topics: ['limits'],
      size: 2,
    },
    ...{ paths: ['/limits/a', '/limits/b'], state: 'served', error: null, counts: {}, total: 0, convergence: null },
    ...more,
  };
}

const convergence = {
  from: AT,
  clients: 4,
  first: AT + 100,
  half: AT + 200,
  p99: AT + 2400,
  last: AT + 2400,
  curve: [],
};
const said = (more: Partial<FleetChange>): string => {
  const { kind, main, of, more: rest } = changeResult(change(more), AT + 13_400);
  return `${kind}: ${main}${of} (${rest})`.replaceAll('\u00a0', ' ');
};

test('a result says how many hold the change, and what the others do', () => {
  assert.equal(said({ counts: { applied: 4 }, total: 4, convergence }), 'done: 4 of 4 (last in 2.4 s)');
  assert.equal(
    said({ state: 'under_way', counts: { applied: 2, pending: 1, not_heard: 1 }, total: 4, convergence }),
    'moving: 2 of 4 (13.4 s so far)',
  );
  assert.equal(
    said({
      state: 'under_way',
      counts: { applied: 2, pending: 1, refused: 2, away: 1, unknown: 1 },
      total: 7,
      convergence,
    }),
    'stuck: 2 of 7 (13.4 s so far, 2 refused)',
  );
  assert.equal(
    said({ counts: { applied: 1, refused: 2, failing: 1, away: 1, pending: 1 }, total: 6 }),
    'stuck: 1 of 6 (2 refused, 1 failing, 1 away, 1 open)',
  );
  assert.equal(said({ state: 'under_way', counts: { away: 1, applied: 3 }, total: 4 }), 'moving: 3 of 4 (1 away)');
  assert.equal(said({ state: 'under_way', counts: { pending: 1 }, total: 1, at: 0 }), 'moving: 0 of 1 ()');
});

test('clients that do not say what they hold, or hold a later change, keep nothing from being done', () => {
  assert.equal(
    said({ counts: { applied: 3, unknown: 1 }, total: 4, convergence }),
    'done: 3 of 4 (last in 2.4 s, 1 does not say)',
  );
  assert.equal(said({ state: 'replaced', counts: { replaced: 4 }, total: 4 }), 'none: Replaced (4 hold a later one)');
});

test('a refused commit was not served; a change without subscribers reached nobody', () => {
  assert.equal(said({ state: 'refused', kind: 'policy' }), 'stuck: Not served (by the server)');
  assert.equal(said({}), 'none: No client (subscribes to it)');
  assert.equal(said({ state: 'found', kind: 'policy' }), 'none: Found (not served yet)');
});

test('a change without a title is called by its paths', () => {
  assert.equal(changeTitle(change()), 'Limits');
  assert.equal(changeTitle(change({ title: '' })), '/limits/a and 1 more');
  assert.equal(changeTitle(change({ title: '', paths: ['/a'] })), '/a');
  assert.equal(changeTitle(change({ title: '', size: 30 })), '/limits/a and 29 more');
  assert.equal(changeTitle(change({ title: '', paths: [], kind: 'policy' })), 'Policy commit');
  assert.deepEqual(
    [changeSize(change()), changeSize(change({ kind: 'policy', size: 1 })), changeSize(change({ size: null }))],
    ['2\u00a0entries', '1\u00a0file', ''],
  );
});

test('the place of an error has a line where one is known', () => {
  assert.deepEqual(
    [errorPlace({ file: 'a.rego', line: 3 }), errorPlace({ file: 'a.rego', line: null }), errorPlace({})],
    ['a.rego:3', 'a.rego', ''],
  );
});

test('an error is its place and what is wrong there', () => {
  assert.equal(errorLine({ message: 'no', file: 'a.rego', line: 3 }), 'a.rego:3: no');
  assert.equal(errorLine({ message: 'no', file: null }), 'no');
  assert.equal(errorLine({ message: '', file: 'a.rego' }), 'a.rego');
});

test('changes stand below their days', () => {
  const list = [change(), change({ at: AT - 11 * 3_600_000 }), change({ at: AT - 80 * 3_600_000 }), change({ at: 0 })];
  assert.deepEqual(
    byDay(list, AT).map(({ name, changes }) => [name, changes.length]),
    [
      ['Today, 22 November', 1],
      ['Yesterday, 21 November', 1],
      ['19 November', 1],
      ['Time not known', 1],
    ],
  );
});

test('a list can be filtered and searched', () => {
  const shown = (
    filter: 'policy' | 'data' | 'refused' | null,
    query: string,
    more: Partial<FleetChange> = {},
  ): boolean => matchesChange(change(more), filter, query);
  assert(shown(null, '') && shown('data', 'LIMITS job') && shown(null, '/limits/b 7'));
  assert(!shown('policy', '') && !shown('refused', '') && !shown(null, 'limits nothing'));
  assert(shown('refused', '', { counts: { failing: 1 } }));
  assert(
    shown('refused', 'a.rego:3 parse', {
      state: 'refused',
      error: { message: 'parse error', file: 'a.rego', line: 3 },
    }),
  );
});
