import assert from 'node:assert/strict';
import { test } from 'node:test';
import { actionFor, type DataAction, type Said, type Situation } from './server-said.js';

const SAID: Record<Said, true> = { connected: true, heartbeat: true, update: true, taken: true };
const SESSIONS: Record<Situation['session'], true> = { whole: true, apart: true };
const LOGS: Record<Situation['log'], true> = { none: true, same: true, other: true };
const POSITIONS: Record<Situation['position'], true> = {
  unknown: true,
  current: true,
  behind: true,
  read: true,
  gone_back: true,
};

const keys = <K extends string>(all: Record<K, true>): K[] => Object.keys(all) as K[];
const CELLS = keys(SAID).flatMap((said) =>
  keys(SESSIONS).flatMap((session) =>
    keys(LOGS).flatMap((log) =>
      keys(POSITIONS).flatMap((position) =>
        [false, true].map((isReading) => ({ said, situation: { session, log, position, isReading } })),
      ),
    ),
  ),
);

/**
 * Said, session, log, position, whether updates are being read, action; `*`: any; `a|b`: either.
 */
const ROWS: readonly (readonly [string, string, string, string, string, DataAction])[] = [
  ['connected', 'whole', '*', '*', '*', 'read_all'],
  ['connected', 'apart', 'none|other', '*', '*', 'read_all'],
  ['connected', 'apart', 'same', 'unknown|behind|read', '*', 'read_all'],
  ['connected', 'apart', 'same', 'gone_back', '*', 'rewind'],
  ['connected', 'apart', 'same', 'current', '*', 'read_base'],
  ['heartbeat', 'whole', '*', '*', '*', 'ignore'],
  ['heartbeat', 'apart', 'none|other', '*', 'no', 'read_all'],
  ['heartbeat', 'apart', 'none|other', '*', 'yes', 'ignore'],
  ['heartbeat', 'apart', 'same', 'behind', '*', 'catch_up'],
  ['heartbeat', 'apart', 'same', 'unknown|current|read|gone_back', '*', 'ignore'],
  ['update', '*', 'none', '*', '*', 'take_unplaced'],
  ['update', '*', 'other', '*', '*', 'read_all'],
  ['update', '*', 'same', 'read', '*', 'ignore'],
  ['update', '*', 'same', 'unknown|current|behind|gone_back', '*', 'take'],
  ['taken', 'whole', '*', '*', '*', 'ignore'],
  ['taken', 'apart', 'none|other', '*', '*', 'ignore'],
  ['taken', 'apart', 'same', 'behind', 'no', 'catch_up'],
  ['taken', 'apart', 'same', 'behind', 'yes', 'ignore'],
  ['taken', 'apart', 'same', 'unknown|current|read|gone_back', '*', 'ignore'],
];

test('what the server says: each cell has one row, and does what the row says', () => {
  for (const { said, situation } of CELLS) {
    const { session, log, position, isReading } = situation;
    const cell = [said, session, log, position, isReading ? 'yes' : 'no'];
    const name = cell.join(', ');
    const rows = ROWS.filter((row) => cell.every((part, at) => row[at] === '*' || row[at]?.split('|').includes(part)));
    assert.equal(rows.length, 1, name);
    assert.equal(actionFor(said, situation), rows[0]?.[5], name);
  }
});

test('what the server says: whatever may be missing is asked for, unless it is being read', () => {
  for (const { said, situation } of CELLS) {
    const { session, log, position, isReading } = situation;
    const isMissing = session === 'apart' && (log === 'other' || (log === 'same' && position === 'behind'));
    if (!isMissing || isReading || (said === 'update' && log === 'same') || (said === 'taken' && log === 'other')) {
      continue;
    }
    assert(['catch_up', 'read_all'].includes(actionFor(said, situation)), JSON.stringify({ said, situation }));
  }
});
