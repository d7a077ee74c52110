import assert from 'node:assert/strict';
import { it } from 'node:test';
import type { ClientView } from '../../../wire/clients.js';
import { clientTable } from './client-table.js';

const NOW = Date.UTC(2026, 10, 22, 18, 3, 23);

function client(client_id: string, more: Partial<ClientView> = {}): ClientView {
  return {
    client_id,
    kind: 'session',
    connected: true,
    connected_at: NOW - 3_600_000,
    away_since: null,
    address: '10.0.3.7:50122',
    instance: 'i1',
    duplicates: 0,
    subject: '5a8e53a5-4210-4217-8180-d29a6851552b',
    topics: ['policy_data', 'policy:.', 'default:policy:app'],
    ready: true,
    healthy: true,
    since: NOW - 60_000,
    reported_at: NOW,
    engine: { kind: 'opa', version: '1.22.0', online: true },
    policy: { wanted: 'a', held: 'a', current: true },
    data: { wanted: {}, held: null, lag_updates: 0, lag_seconds: 0, lag_at_least: false, blocked: [] },
    failing: [],
    last_error: null,
    ...more,
  };
}

const FLEET = [
  client('shop-2'),
  client('shop-1', { connected: false, away_since: NOW - 240_000, topics: ['a', 'b', 'c', 'd'], topics_left_out: 2 }),
  client('plain', { kind: 'plain', subject: null, engine: null, topics: [] }),
];

it('lists clients by name with where they are', () => {
  assert.deepEqual(clientTable(FLEET, { nowMs: NOW, width: 200 }), [
    'CLIENT  STATE         CONNECTED  ADDRESS         SERVER  SUBJECT        ENGINE      TOPICS',
    'plain   opal 60 min   60 min     10.0.3.7:50122  i1      -              ?           -',
    'shop-1  away 4 min    -          10.0.3.7:50122  i1      5a8e5...1552b  opa 1.22.0  a, b, c, and 3 more',
    'shop-2  healthy 60 s  60 min     10.0.3.7:50122  i1      5a8e5...1552b  opa 1.22.0  2 of policy, policy_data',
  ]);
});

it('leaves out columns where the terminal is narrow, and shortens names at last', () => {
  for (const width of [100, 80, 60, 40]) {
    const lines = clientTable(FLEET, { nowMs: NOW, width });
    for (const line of lines) assert(line.length <= width, `${width}: ${line}`);
    assert.match(lines[0] ?? '', /^CLIENT +STATE/);
  }
  assert.doesNotMatch(clientTable(FLEET, { nowMs: NOW, width: 80 })[0] ?? '', /SUBJECT/);
  const [, line = ''] = clientTable([client('a-very-long-name-of-a-host.eu-central-1.internal')], {
    nowMs: NOW,
    width: 40,
  });
  assert.match(line, /^a-very\S*\.\.\.\S*ternal +healthy 60 s$/);
});

it('shows labels where a client has some, and leaves them out first where the terminal is narrow', () => {
  const fleet = [client('shop-1', { labels: { zone: 'a', app: 'billing' } }), client('shop-2')];
  const [header = '', first = '', second = ''] = clientTable(fleet, { nowMs: NOW, width: 200 });
  assert.match(header, /ENGINE +LABELS +TOPICS$/);
  assert.match(first, /opa 1\.22\.0 +app=billing,zone=a +2 of policy/);
  assert.match(second, /opa 1\.22\.0 +- +2 of policy/);
  const [narrower = ''] = clientTable(fleet, { nowMs: NOW, width: header.length });
  assert.doesNotMatch(narrower, /LABELS/);
  assert.match(narrower, /SUBJECT/);
  assert.doesNotMatch(clientTable(FLEET, { nowMs: NOW, width: 400 })[0] ?? '', /LABELS/);
});
