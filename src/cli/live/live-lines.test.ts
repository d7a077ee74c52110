import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { FleetRow, FleetSnapshot } from '../../wire/fleet.js';
import type { FleetState } from './fleet-state.js';
import { nextState } from './fleet-state.js';
import { type LivePage, liveLines, titleLine } from './live-lines.js';

const NOW = Date.UTC(2026, 10, 22, 17, 4, 11);
const HEAD = '5b1f0c93aa5b1f0c93aa5b1f0c93aa5b1f0c93aa';

function row(id: string, policy: Partial<FleetRow['policy']>, more: Partial<FleetRow> = {}): FleetRow {
  return {
    id,
    kind: 'session',
    connected: true,
    labels: {},
    address: '10.0.0.1:1',
    instance: 'i1',
    topics: [],
    engine: 'opa 1.22.0',
    policy: { state: 'acknowledged', held: HEAD, behind: 0, since: NOW - 60_000, error: null, ...policy },
    data: { state: 'at_head', at: 42, newest: 42, behind: 0, at_least: false, lag_seconds: 0 },
    health: { state: 'healthy', since: null },
    error: null,
    connected_at: 0,
    away_since: null,
    reported_at: NOW,
    ...more,
  };
}

const ROWS = [
  row('shop-1', {}),
  row('shop-2', { state: 'told', behind: 1, since: NOW - 9000 }),
  row(
    'shop-3',
    { state: 'refused', behind: 1, since: NOW - 9000 },
    { error: { kind: 'policy', place: 'rbac.rego:12', text: 'unsafe\u001b[2J var', since: NOW } },
  ),
];

const SNAPSHOT: FleetSnapshot = {
  at: NOW,
  epoch: 'e',
  instance: 'i1',
  head: 42,
  summary: {
    total: 3,
    policy: { head: HEAD, counts: { acknowledged: 1, told: 1, refused: 1 } },
    data: { head: 42, counts: { at_head: 3 }, slowest_behind: 0, at_least: false },
    health: { healthy: 3 },
    needing: 1,
    under_way: {
      kind: 'policy',
      id: HEAD,
      update_id: null,
      title: 'allow reviewers',
      by: 'ann',
      at: NOW - 13_400,
      topics: [],
      size: 1,
      paths: [],
      state: 'under_way',
      error: null,
      counts: { applied: 1, pending: 1, refused: 1 },
      total: 3,
      convergence: {
        from: NOW - 13_400,
        clients: 3,
        first: NOW - 13_190,
        half: null,
        p99: null,
        last: null,
        curve: [],
      },
    },
    incomplete: null,
    limited: false,
  },
  source: null,
  clients: ROWS,
  changes: [],
  instances: [],
};

function state(changes: Partial<FleetSnapshot> = {}): FleetState {
  const data = JSON.stringify({ ...SNAPSHOT, ...changes });
  const first = nextState(undefined, { name: 'snapshot', data, id: undefined });
  assert(first !== undefined);
  return first;
}

const PAGE: LivePage = {
  width: 70,
  height: 30,
  style: { hasColour: false, isUnicode: false },
  nowMs: NOW,
  pastAt: null,
};

test('the answer, the bars, the change under way, and the worst clients first', () => {
  assert.deepEqual(liveLines(state(), PAGE), [
    'Not yet: 1 of 3 holds 5b1f0c9 - 1 refused - data at 42, all of it',
    'everywhere',
    '',
    `Policy  ${'#'.repeat(22)}${'+'.repeat(20)}${'x'.repeat(20)}`,
    '        # 1 acknowledged   + 1 told   x 1 refused',
    `Data    ${'#'.repeat(62)}`,
    '        # 3 at head',
    '',
    'Commit 5b1f0c9: allow reviewers, by ann, under way for 13.4 s: first',
    '210 ms, half not yet, 99 % not yet, last not yet',
    '',
    'CLIENT  POLICY             DATA     HEALTH   SINCE',
    'shop-3  Refused, 1 behind  At head  Healthy  9.0 s',
    '  rbac.rego:12: unsafe [2J var',
    'shop-2  Told, 1 behind     At head  Healthy  9.0 s',
    'shop-1  Acknowledged       At head  Healthy  60 s',
  ]);
});

test('other changes that are held up are counted beside the one that is named', () => {
  const summary = { ...SNAPSHOT.summary, others_held_up: 1 };
  assert.match(
    liveLines(state({ summary }), { ...PAGE, width: 200 }).join('\n'),
    /last not yet, and 1 other held up$/m,
  );
});

test('an error has a column of its own where that fits, and its place once', () => {
  const lines = liveLines(state(), { ...PAGE, width: 100 });
  assert.deepEqual(lines.slice(-4, -2), [
    'CLIENT  POLICY             DATA     HEALTH   SINCE  ERROR',
    'shop-3  Refused, 1 behind  At head  Healthy  9.0 s  rbac.rego:12: unsafe [2J var',
  ]);
});

test('an error that is too long for its row is whole below it, as far as there is room', () => {
  const text = 'GET http://bundles.example.com/roles: connect ECONNREFUSED 10.0.0.9:443';
  const clients = ['a', 'b'].map((id) => row(id, {}, { error: { kind: 'source', place: '/roles', text, since: NOW } }));
  const lines = liveLines(state({ clients }), { ...PAGE, width: 60 });
  assert.deepEqual(lines.slice(-6), [
    'a       Acknowledged  At head  Healthy  60 s',
    '  /roles: GET http://bundles.example.com/roles: connect',
    '    ECONNREFUSED 10.0.0.9:443',
    'b       Acknowledged  At head  Healthy  60 s',
    '  /roles: GET http://bundles.example.com/roles: connect',
    '    ECONNREFUSED 10.0.0.9:443',
  ]);
  const low = liveLines(state({ clients }), { ...PAGE, width: 60, height: lines.length - 1 });
  assert.equal(low.length, lines.length - 2);
  assert.equal(low.at(-1), 'and 1 more client, the worst stand first');
});

test('a change that is held up names the times that there are', () => {
  const change = SNAPSHOT.summary.under_way;
  assert(change);
  const held = (convergence: typeof change.convergence): string => {
    const under_way = { ...change, counts: { applied: 1, refused: 2 }, convergence };
    const lines = liveLines(state({ summary: { ...SNAPSHOT.summary, under_way } }), { ...PAGE, width: 200 });
    return lines.find((line) => line.startsWith('Commit')) ?? '';
  };
  assert.equal(held(change.convergence), 'Commit 5b1f0c9: allow reviewers, by ann, held up: first 210 ms');
  assert.equal(
    held(change.convergence && { ...change.convergence, first: null }),
    'Commit 5b1f0c9: allow reviewers, by ann, held up',
  );
});

test('an instance whose log refuses updates is named', () => {
  const full = {
    ...{ name: 'server-2', instance: 'i', here: false, version: null, started_at: null, state: 'refuses_updates' },
    ...{ seen_at: 0, clients: 0, log_at: 0, behind: 0, backbone_ms: null, loop_delay_ms: null, memory_bytes: null },
    source: null,
  };
  const lines = liveLines(state({ instances: [full] }), PAGE);
  assert(lines.includes('the update log refuses updates, as server-2 says'), lines.join('\n'));
});

test('a low terminal leaves out the change, and says how many clients it does not show', () => {
  const lines = liveLines(state(), { ...PAGE, height: 11 });
  assert.equal(lines.length, 11);
  assert.match(lines.at(-1) ?? '', /^and 2 more clients, the worst stand first$/);
  assert.match(lines.at(-2) ?? '', /^shop-3/);
});

test('while the stream is lost it says what was, and when', () => {
  const page = { ...PAGE, pastAt: NOW };
  assert.match(liveLines(state(), page)[0] ?? '', /^At 17:04:11, 1 of 3 held 5b1f0c9/);
  assert.match(titleLine('http://x', page), /^The server was lost at 17:04:11 UTC/);
  assert.match(titleLine('http://x', PAGE), /^Live from http:\/\/x, 17:04:11 UTC/);
  assert.match(titleLine('http://x', PAGE, 'staging'), /^staging · Live from http:\/\/x, 17:04:11 UTC/);
  assert(!titleLine('http://x', page, 'stag\u001bing').includes('\u001b'));
});

test('a delta replaces rows, takes away those that are gone, and leaves the rest as it was', () => {
  const data = JSON.stringify({
    at: NOW + 1,
    clients: [row('shop-4', {})],
    gone: ['shop-1'],
    source: { state: 'failing' },
  });
  const next = nextState(state(), { name: 'delta', data, id: 'f-1' });
  assert.deepEqual([...(next?.rows.keys() ?? [])], ['shop-2', 'shop-3', 'shop-4']);
  assert.equal(next?.fleet.source?.state, 'failing');
  assert.equal(next?.fleet.summary.total, 3);
  assert.equal(nextState(undefined, { name: 'delta', data, id: undefined }), undefined);
});
