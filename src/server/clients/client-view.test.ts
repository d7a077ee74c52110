import assert from 'node:assert/strict';
import { describe, it, test } from 'node:test';
import { DocumentReach } from '../documents/document-reach.js';
import { type ClientLimits, distinctNames, limitedView, listedNameOf, viewOf, visiblePart } from './client-view.js';
import { type KnownClient, newClient } from './known-client.js';
import { RecentUpdates } from './recent-updates.js';

const recent = new RecentUpdates(0);
for (const [at, topic] of ['acme', 'other', 'acme', 'other', 'acme'].entries()) {
  recent.add({ seq: at + 1, timeMs: 0, topics: [topic] });
}
const log = { epoch: 'e', head: 5, heads: () => ({ acme: 5, other: 4 }) };

const CLIENT: KnownClient = {
  ...newClient(
    { kind: 'session', subject: 's', clientId: 'c' },
    { host: 'h', port: 1, topics: ['acme', 'other', 'default:policy:.'], connectedAtMs: 0 },
    { instance: 'i', claimedMs: 0, spans: [] },
  ),
  position: { epoch: 'e', applied_through: 3, applied_beyond: [4, 5], unresolved: [1, 2, 999] },
  state: {
    ...{ policy_hash: null, ready: true, healthy: true, since: 0, blocked: [2, 3, 999], failing_total: 7 },
    engine: { kind: 'opa', version: null, online: true },
    failing: [{ path: '/shared/other', error: 'hunter2', kind: 'source' }],
  },
  lastError: { path: '/shared/other', error: 'hunter2', kind: 'source', atMs: 1 },
};

const limitedTo = (...topics: string[]): ClientLimits => ({ permittedTopics: new Set(topics), isLimited: true });

function shown(limits: ClientLimits) {
  const about = { name: 'c', connected: 1, policyHead: null };
  const deps = { log, recent, now: () => 0 } as unknown as Parameters<typeof viewOf>[2];
  return limitedView(viewOf(visiblePart(CLIENT, limits), about, deps), CLIENT, limits, recent);
}

test('a client whose id no address ends with has another name', () => {
  const host = { host: 'h', port: 1, topics: [], connectedAtMs: 0 };
  const about = { instance: 'i', claimedMs: 0, spans: [] };
  const clients = ['', '.', '..', '...', '.a', '%2e', 'half\ud800', 'turn\u202e'].flatMap((clientId) =>
    (['session', 'plain'] as const).map((kind) => newClient({ kind, subject: 's', clientId }, host, about)),
  );
  for (const [name] of distinctNames(clients, () => 's')) {
    const path = `/clients/${encodeURIComponent(name)}`;
    assert.equal(new URL(path, 'http://server').pathname, path);
    assert.notEqual(name, '');
  }
  const names = clients.map((client) => listedNameOf(client, () => 's'));
  assert.deepEqual(names.slice(6, 8), ['...', '...']);
  assert.match(names[4] ?? '', /^\.\.~[0-9a-f]{8}$/);
});

describe('a client for a token that permits some of its topics', () => {
  it('tells nothing of what fails on the others', () => {
    const view = shown(limitedTo('acme'));
    const { held, blocked, lag_updates: lag } = view.data;
    assert.deepEqual([blocked, held?.unresolved, held?.applied_beyond], [[3], [1], [5]]);
    assert.deepEqual([view.failing, view.failing_total, view.last_error], [[], 0, null]);
    assert.equal(lag, 1, 'what is missing on its own topics counts');
  });

  it('is whole where all of its data topics are permitted, but for the texts', () => {
    const view = shown(limitedTo('acme', 'other'));
    assert.deepEqual(view.data.blocked, [2, 3, 999]);
    assert.deepEqual(view.data.held, CLIENT.position);
    const error = 'its data source does not give it';
    assert.deepEqual(view.failing, [{ path: '/shared/other', error, kind: 'source' }]);
    assert.deepEqual([view.failing_total, view.last_error?.error], [7, error]);
  });

  it('refuses no document for what fails below it on another topic', () => {
    const refusedBy = (limits: ClientLimits) =>
      new DocumentReach([visiblePart(CLIENT, limits)]).of('/shared', { topics: ['acme'], seqs: [] }).refusedBy;
    assert.equal(refusedBy(limitedTo('acme')), 0);
    assert.equal(refusedBy(limitedTo('acme', 'other')), 1);
  });
});
