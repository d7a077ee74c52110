import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { ClientView } from '../../wire/clients.js';
import { type KnownClient, newClient, type ReportedState } from '../clients/known-client.js';
import { dataStanding, healthStanding, policyStanding } from './standing.js';

const HEAD = 'b'.repeat(40);
const OLD = 'a'.repeat(40);
const ANNOUNCED = 1000;
const ENGINE = { kind: 'opa', version: null, online: true };

function client(kind: 'session' | 'plain', topics: string[], changes: Partial<KnownClient> = {}): KnownClient {
  const peer = { host: 'h', port: 1, topics, connectedAtMs: 1 };
  const base = newClient({ kind, subject: null, clientId: 'c' }, peer, { instance: 'i', claimedMs: 0, spans: [] });
  return { ...base, ...changes };
}

function holds(held: string | null, error: { message: string; file: null; line: null } | null = null): ReportedState {
  const policy = { wanted: HEAD, held, error, since: 5 };
  return { policy_hash: held, ready: true, healthy: true, engine: ENGINE, policy, failing: [], blocked: [], since: 1 };
}

const POLICY = ['default:policy:.'];
const BEFORE = { reportedAtMs: ANNOUNCED - 1 };
const SINCE = { reportedAtMs: ANNOUNCED + 1 };
const ERROR = { message: 'no', file: null, line: null };

const POLICY_TABLE: readonly [what: string, client: KnownClient, heard: number | undefined, state: string][] = [
  [
    'it holds the served commit',
    client('session', POLICY, { ...BEFORE, state: holds(HEAD) }),
    undefined,
    'acknowledged',
  ],
  ['not heard of since', client('session', POLICY, { ...BEFORE, state: holds(OLD) }), undefined, 'not_told'],
  ['it never reported', client('session', POLICY), undefined, 'not_told'],
  ['it reported since', client('session', POLICY, { ...SINCE, state: holds(OLD) }), undefined, 'told'],
  ['it said that it heard', client('session', POLICY, { ...BEFORE, state: holds(OLD) }), 7, 'told'],
  ['its engine refuses it', client('session', POLICY, { ...SINCE, state: holds(OLD, ERROR) }), undefined, 'refused'],
  ['away, whatever it held', client('session', POLICY, { awaySinceMs: 9, state: holds(HEAD) }), undefined, 'away'],
  [
    'away, though it refused',
    client('session', POLICY, { awaySinceMs: 9, state: holds(OLD, ERROR) }),
    undefined,
    'away',
  ],
  ['it takes no policy', client('session', ['policy_data'], { state: holds(null) }), undefined, 'none'],
  ['an OPAL client', client('plain', ['policy:.']), undefined, 'does_not_say'],
  ['an OPAL client without policy', client('plain', ['policy_data']), undefined, 'none'],
];

describe('how a client stands to the served commit', () => {
  for (const [what, one, heard, state] of POLICY_TABLE) {
    test(what, () => assert.equal(policyStanding(one, { hash: HEAD, announcedMs: ANNOUNCED }, heard), state));
  }
  test('none is served', () => {
    assert.equal(policyStanding(client('session', POLICY, { state: holds(HEAD) }), undefined, undefined), 'none');
  });
});

type Facts = Partial<Omit<ClientView, 'data'>> & { lag?: number | null };

function view({ lag = 0, ...changes }: Facts): ClientView {
  return {
    ...{
      client_id: 'c',
      kind: 'session',
      connected: true,
      connected_at: 0,
      away_since: null,
      address: 'a',
      instance: 'i',
    },
    ...{ duplicates: 0, topics: ['policy_data'], ready: true, healthy: true, since: 0, reported_at: 0, engine: ENGINE },
    policy: { wanted: null, held: null, current: null },
    data: { wanted: {}, held: null, lag_updates: lag, lag_seconds: null, lag_at_least: false, blocked: [] },
    ...{ failing: [], last_error: null },
    ...changes,
  } as ClientView;
}

const DATA_TABLE: readonly [what: string, facts: Facts, blocked: number, state: string][] = [
  ['nothing is missing', {}, 0, 'at_head'],
  ['updates are missing', { lag: 2 }, 0, 'behind'],
  ['one fails and is tried again', { failing_total: 1 }, 0, 'failing'],
  ['one fails, and others are missing', { lag: 3, failing_total: 1 }, 0, 'failing'],
  ['one fails, and its engine refuses another', { lag: 2, failing_total: 1 }, 1, 'blocked'],
  ['its engine refuses one', { lag: 1 }, 1, 'blocked'],
  ['away', { connected: false, lag: 1 }, 1, 'away'],
  ['no data', { topics: ['default:policy:.'] }, 0, 'none'],
  ['topics that are not listed', { topics: ['default:policy:.'], topics_left_out: 3 }, 0, 'at_head'],
  ['an OPAL client', { kind: 'plain', lag: null }, 0, 'does_not_say'],
];

describe('how a client stands to its data', () => {
  for (const [what, facts, blocked, state] of DATA_TABLE) {
    test(what, () => assert.equal(dataStanding(view(facts), blocked), state));
  }
});

const HEALTH_TABLE: readonly [what: string, facts: Facts, state: string][] = [
  ['well', {}, 'healthy'],
  ['it was never ready', { ready: false, healthy: false }, 'not_ready'],
  ['it was ready, and something fails', { healthy: false }, 'unhealthy'],
  ['it has not reported', { ready: null, healthy: null }, 'new'],
  ['away and well', { connected: false }, 'was_healthy'],
  ['away and not well', { connected: false, healthy: false }, 'was_unhealthy'],
  ['away before a report', { connected: false, ready: null, healthy: null }, 'was_unhealthy'],
  ['an OPAL client', { kind: 'plain', healthy: null }, 'does_not_say'],
];

describe('how a client is', () => {
  for (const [what, facts, state] of HEALTH_TABLE) {
    test(what, () => assert.equal(healthStanding(view(facts)), state));
  }
});
