import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { WELL } from '../../../test/support/session-report.js';
import type { SessionReport } from '../../wire/session.js';
import { ALL_TOPICS } from '../../wire/topics.js';
import { concerns, type KnownClient, wasThere, withSpan } from './known-client.js';
import { applyStatusOf } from './wait-rules.js';

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
