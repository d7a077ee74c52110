import assert from 'node:assert/strict';
import { it } from 'node:test';
import type { ClientAnswer } from '../../../wire/client-details.js';
import { clientLines } from './client-lines.js';

const NOW = Date.UTC(2026, 10, 22, 18, 3, 23);
const HELD = '5b1f0c93aa5b1f0c93aa5b1f0c93aa5b1f0c93aa';
const WANTED = '77aa01bcde77aa01bcde77aa01bcde77aa01bcde';
const ERROR = { message: 'undefined ref', file: 'app/main.rego', line: 6 };

const ANSWER: ClientAnswer = {
  now: NOW,
  epoch: 'e',
  head: 43,
  policy_head: WANTED,
  client: {
    ...{ client_id: 'shop-2', kind: 'session', connected: true, connected_at: NOW - 3_600_000, away_since: null },
    ...{ address: '10.0.3.7:50122', instance: 'i1', duplicates: 0, topics: ['policy_data', 'policy:.'] },
    ...{ ready: true, healthy: false, since: NOW - 75_000, reported_at: NOW, labels: { zone: 'a', app: 'billing' } },
    engine: { kind: 'opa', version: '1.22.0', online: true },
    policy: { wanted: WANTED, held: HELD, current: false, error: ERROR, since: NOW - 75_000 },
    data: { wanted: {}, held: null, lag_updates: 0, lag_seconds: 0, lag_at_least: false, blocked: [] },
    failing: [],
    last_error: null,
  },
  topics: [
    { topic: 'policy:.', wanted: null, held: null, behind: null, last: null },
    { topic: 'policy_data', wanted: 42, held: 41, behind: 1, last: 'new\u001b[2J user' },
  ],
  details: {
    version: '1.2.3',
    log_level: 'info',
    started_at: NOW - 3_600_000,
    orphaned: [{ path: '/old', reason: 'the data configuration does not list it any more', since: null }],
    orphaned_total: 1,
    transactions: [
      {
        ...{ kind: 'policy', id: WANTED, seq: null, outcome: 'refused', at: NOW - 75_000, took_ms: 7263.4 },
        ...{ wrote: [], wrote_total: 0, error: 'undefined ref' },
      },
      {
        ...{ kind: 'data', id: 'u', seq: 41, outcome: 'applied', at: NOW - 90_000, took_ms: 3, error: null },
        ...{ wrote: ['/users/bob', '/users/ann', '/x'], wrote_total: 7 },
      },
    ],
    rego: { mode: 'auto', v0: 0, v1: 3 },
    drift: { checked_at: NOW - 5000, repaired: 2, error: null },
  },
  details_missing: null,
  source: { file: 'app/main.rego', line: 6, first: 5, lines: ['deny if {', '\treason', '}'] },
  same_error: 3,
};

it('shows one client in full', () => {
  assert.deepEqual(clientLines(ANSWER, { nowMs: NOW, width: 200 }), [
    'shop-2',
    'State     unhealthy 75 s',
    'Labels    app=billing,zone=a',
    'Address   10.0.3.7:50122, server instance i1',
    'Engine    opa 1.22.0, Rego auto: 3 of v1, 0 of v0',
    'Why       policy: wants 77aa01bcde, holds 5b1f0c93aa; failing since 18:02:08 UTC (75 s): app/main.rego:6: undefined ref',
    '          3 clients with the same error',
    'Program   1.2.3, since 17:03:23 UTC (60 min), logs info',
    'Drift     checked 5.0 s ago, 2 repaired',
    'Orphaned  1 document: /old (the data configuration does not list it any more)',
    '',
    'app/main.rego:6',
    '  5  deny if {',
    '> 6    reason',
    '  7  }',
    '',
    'TOPIC        WANTED  HELD  BEHIND  LAST UPDATE',
    'policy_data  42      41    1       new [2J user',
    '',
    'WHEN      TRANSACTION        OUTCOME  TOOK   WROTE, OR WHY NOT',
    '75 s ago  policy 77aa01bcde  refused  7.2 s  undefined ref',
    '90 s ago  data 41            applied  3 ms   /users/bob, /users/ann, and 5 more',
  ]);
});

it('says why a client tells nothing of itself, and wraps at the width of the terminal', () => {
  const reasons = ['away', 'plain', 'old', 'no_answer', 'limited', 'of a later version'];
  for (const missing of reasons) {
    const answer = { ...ANSWER, details: null, details_missing: missing, topics: [], source: null };
    const lines = clientLines(answer, { nowMs: NOW, width: 60 });
    assert.match(lines.join('\n'), /^Details +it tells nothing of itself: /m);
    assert(
      lines.every((line) => line.length <= 60),
      lines.join('\n'),
    );
  }
});
