import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { WELL } from '../../../test/support/session-report.js';
import type { SessionReport } from '../../wire/session.js';
import { ALL_TOPICS } from '../../wire/topics.js';
import { concerns, type KnownClient, wasThere, withSpan } from './known-client.js';
import { applyStatusOf, isKnownBefore, mayBeAllApplied, standingInWait } from './wait-rules.js';

const UPDATE = { seq: 7, topics: ['users'], paths: ['/users/ann'] };

function client(more: Partial<KnownClient> = {}, state: Partial<SessionReport> = {}): KnownClient {
  return {
    clientId: 'c',
    subject: null,
    key: 'c',
    claimedMs: 0,
    topicsLeftOut: 0,
    labels: {},
    asks: [],
    kind: 'session',
    instance: 'i',
    address: 'a:1',
    topics: ['users'],
    spans: [{ from: 0, until: null }],
    connectedAtMs: 0,
    awaySinceMs: null,
    position: { epoch: 'e', applied_through: 7, applied_beyond: [], unresolved: [] },
    state: {
      ...WELL,
      ...state,
    },
    reportedAtMs: 0,
    lastError: null,
    ...more,
  };
}

function at(through: number, beyond: number[] = [], unresolved: number[] = []): Partial<KnownClient> {
  return { position: { epoch: 'e', applied_through: through, applied_beyond: beyond, unresolved } };
}

describe('how a client stands with an update that is waited for', () => {
  const failing = [{ path: '/users', error: 'no answer from the source' }];
  const table: [string, KnownClient, string, RegExp?][] = [
    ['applied: everything up to it', client(), 'applied'],
    ['applied: it is one of those beyond', client(at(3, [7])), 'applied'],
    ['open: not there yet', client(at(6)), 'open', /has applied up to 6/],
    ['open: passed, but it fails', client(at(9, [], [7]), { failing }), 'open', /failing: \/users: no answer/],
    [
      'open: a failing entry elsewhere is not its reason',
      client(at(9, [], [7]), { failing: [{ path: '/x', error: 'E' }] }),
      'open',
      /being retried/,
    ],
    [
      'blocked: the engine refuses it, whatever the position says',
      client(at(9), { blocked: [7], failing }),
      'blocked',
      /^blocked: \/users/,
    ],
    ['open: it holds nothing of this log', client({ position: null }), 'open', /has not reported/],
    [
      'open: another log',
      client({ position: { epoch: 'other', applied_through: 9, applied_beyond: [], unresolved: [] } }),
      'open',
      /another log/,
    ],
    ['applied: it had applied it before it left', client({ awaySinceMs: 5 }), 'applied'],
    ['open: it left before', client({ ...at(6), awaySinceMs: 5 }), 'open', /away since 1970/],
  ];
  for (const [name, known, kind, reason] of table) {
    it(name, () => {
      const status = applyStatusOf(known, UPDATE, 'e');
      assert.equal(status.kind, kind);
      if (reason !== undefined) assert.match(status.kind === 'applied' ? '' : status.reason, reason);
    });
  }
});

describe('whom a wait is for', () => {
  const LATER = { spans: [{ from: 7, until: null }] };
  const LEFT = { spans: [{ from: 0, until: 5 }], awaySinceMs: 5, awayReason: 'its connection broke' };
  const BACK = { spans: [{ from: 0, until: 5 }, ...LATER.spans] };
  const EMPTY = { position: null, state: null };
  const OPEN = { isOpen: true };
  const table: [string, KnownClient, string, { isOpen?: boolean; isKnown?: boolean }?, RegExp?][] = [
    ['there, and has it', client(), 'applied'],
    ['there, and has it not', client(at(6)), 'open'],
    ['there, and refuses it', client({}, { blocked: [7] }), 'blocked'],
    [
      'there, and left since',
      client({ ...at(6), awaySinceMs: 5, spans: [{ from: 0, until: 7 }] }),
      'open',
      {},
      /^away/,
    ],
    ['left before', client({ ...at(5), ...LEFT }), 'away', {}, /^away since 1970\S+: its connection broke$/],
    ['left before, and never said what it holds', client({ ...LEFT, ...EMPTY }), 'away', {}, /^away since/],
    ['left before, came back, and has it not', client({ ...at(5), ...BACK }), 'open'],
    ['left before, came back, and has it', client(BACK), 'applied'],
    ['left before, came back with nothing', client({ ...BACK, ...EMPTY }), 'open'],
    ['known elsewhere as of before, and here with nothing', client({ ...LATER, ...EMPTY }), 'open', { isKnown: true }],
    ['came during the wait, and left again', client({ ...at(5), ...LATER, awaySinceMs: 5 }), 'open', OPEN, /^away/],
    ['came after it, with what was before it', client({ ...at(5), ...LATER }), 'open'],
    [
      'came after it, with what was before it, and left',
      client({ ...at(5), ...LATER, awaySinceMs: 5 }),
      'away',
      {},
      /^away/,
    ],
    ['came after it, and has it', client(LATER), 'later'],
    ['came after it with nothing: it loads it first', client({ ...LATER, ...EMPTY }), 'later'],
    ['came after it, and left', client({ ...LATER, ...EMPTY, awaySinceMs: 5 }), 'later'],
    ['of OPAL', client({ kind: 'plain', ...EMPTY }), 'unknown'],
    ['of OPAL, and came after it', client({ kind: 'plain', ...LATER, ...EMPTY }), 'later'],
    ['said goodbye', client({ ...at(6), awaySinceMs: 5, saidGoodbye: true }), 'stopped', { isKnown: true, ...OPEN }],
    ['of other topics', client({ ...at(6), topics: ['x'] }), 'undefined'],
    ['of other topics, and away', client({ ...at(6), ...LEFT, topics: ['x'] }), 'undefined'],
    [
      'with more topics than are remembered, and away',
      client({ ...at(6), ...LEFT, topics: [], topicsLeftOut: 1 }),
      'away',
    ],
  ];
  for (const [name, known, kind, so = {}, reason] of table) {
    it(`${kind}: one that is ${name}`, () => {
      const { isOpen = false, isKnown = isKnownBefore(known, UPDATE) } = so;
      const standing = standingInWait(known, { update: UPDATE, epoch: 'e' }, { isKnown, isOpen });
      assert.equal(String(standing?.kind), kind);
      if (reason !== undefined)
        assert.match(standing !== undefined && 'reason' in standing ? standing.reason : '', reason);
    });
  }

  it('all have it only if none is open or blocked, and none may be missing', () => {
    const counts = { applied: 3, blocked: 0, open: 0, away: 2, unknown: 1, later: 1, stopped: 1 };
    assert.equal(mayBeAllApplied(counts, undefined), true);
    assert.equal(mayBeAllApplied(counts, 'an instance is silent'), false);
    assert.equal(mayBeAllApplied({ ...counts, open: 1 }, undefined), false);
    assert.equal(mayBeAllApplied({ ...counts, blocked: 1 }, undefined), false);
  });
});

it('a client was there for what was appended while it was subscribed, and for nothing else', () => {
  const spans = withSpan(withSpan([], { from: 3, until: 5 }), { from: 8, until: null });
  assert.deepEqual(
    [2, 3, 4, 5, 6, 8, 9, 100].filter((seq) => wasThere(spans, seq)),
    [4, 5, 9, 100],
  );
});

it('of a client that comes and goes only the last spans are remembered', () => {
  let spans = withSpan([], { from: 0, until: 0 });
  for (let from = 1; from < 50; from++) spans = withSpan(spans, { from, until: from });
  assert.equal(spans.length, 8);
  assert.equal(spans.at(-1)?.from, 49);
});

it('an update concerns who subscribes to one of its topics, or to all', () => {
  assert(concerns(['a', 'b'], ['b', 'c']));
  assert(!concerns(['a'], ['b']));
  assert(concerns([ALL_TOPICS], ['b']));
});
