import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { ERROR_CODES } from '../../lib/errors.js';
import type { ClientsAnswer, ClientView } from '../../wire/clients.js';
import { fleetLines } from './fleet-lines.js';

const NOW = Date.UTC(2026, 10, 22, 18, 3, 23);
const ago = (seconds: number): number => NOW - seconds * 1000;
const HELD = '5b1f0c93aa5b1f0c93aa5b1f0c93aa5b1f0c93aa';
const WANTED = '77aa01bcde77aa01bcde77aa01bcde77aa01bcde';

function client(id: string, changes: Partial<ClientView> = {}, data: Partial<ClientView['data']> = {}): ClientView {
  return {
    client_id: id,
    kind: 'session',
    connected: true,
    connected_at: ago(9000),
    away_since: null,
    address: '10.0.3.7:50122',
    instance: 'i1',
    duplicates: 0,
    topics: ['policy_data', 'policy:.'],
    ready: true,
    healthy: true,
    since: ago(9000),
    reported_at: ago(5),
    engine: { kind: 'opa', version: '1.22.0', online: true },
    policy: { wanted: HELD, held: HELD, current: true },
    failing: [],
    last_error: null,
    ...changes,
    data: {
      wanted: { policy_data: 42 },
      held: { epoch: 'e', applied_through: 43, applied_beyond: [], unresolved: [] },
      lag_updates: 0,
      lag_seconds: 0,
      lag_at_least: false,
      blocked: [],
      ...data,
    },
  };
}

function answer(clients: ClientView[], changes: Partial<ClientsAnswer> = {}): ClientsAnswer {
  return { epoch: 'e', head: 43, policy_head: HELD, instance: 'i1', incomplete: null, clients, ...changes };
}

const REFUSED = { message: 'rego_parse_error: unexpected eof token', file: 'app/rbac.rego', line: 12 };
const FLEET = answer([
  client('shop-1-0be1c9d2'),
  client('shop-2-77aa01bc', {
    healthy: false,
    since: ago(12),
    policy: { wanted: WANTED, held: HELD, current: false, error: REFUSED, since: ago(12) },
  }),
  client(
    'shop-3-bf04a1ee',
    {
      healthy: false,
      since: ago(75),
      failing: [{ path: '/users', error: 'no answer from https://users.example/all', since: ago(75) }],
    },
    {
      held: { epoch: 'e', applied_through: 42, applied_beyond: [], unresolved: [41] },
      lag_updates: 1,
      lag_seconds: 75.2,
    },
  ),
  client('shop-4-91e0aa02', {
    connected: false,
    away_since: ago(240),
    away_reason: 'it closed the connection',
    policy: { wanted: WANTED, held: HELD, current: false },
    last_error: { path: '/users', error: 'HTTP 500', at: ago(300) },
  }),
  client(
    '10.0.3.7:50122',
    {
      kind: 'plain',
      ready: null,
      healthy: null,
      since: null,
      engine: null,
      policy: { wanted: HELD, held: null, current: null },
    },
    { held: null, lag_updates: null, lag_seconds: null },
  ),
]);

describe('the clients of a server as lines', () => {
  it('begin with those that are not well, each with its reason, at 120 columns', () => {
    assert.deepEqual(fleetLines(FLEET, { nowMs: NOW, width: 120 }), [
      '5 clients, update log at 43, policy at 5b1f0c93aa',
      '',
      'CLIENT           STATE           ENGINE      POLICY      DATA              BEHIND',
      'shop-2-77aa01bc  unhealthy 12 s  opa 1.22.0  5b1f0c93aa  42 of 42          policy',
      '  policy: wants 77aa01bcde, holds 5b1f0c93aa; failing since 18:03:11 UTC (12 s): app/rbac.rego:12: rego_parse_error:',
      '    unexpected eof token',
      'shop-3-bf04a1ee  unhealthy 75 s  opa 1.22.0  5b1f0c93aa  42 of 42, 1 open  1 update, 75 s',
      '  /users: failing since 18:02:08 UTC (75 s): no answer from https://users.example/all',
      'shop-4-91e0aa02  away 4 min      opa 1.22.0  5b1f0c93aa  42 of 42          policy',
      '  away since 17:59:23 UTC (4 min), it closed the connection; policy: wants 77aa01bcde, held 5b1f0c93aa; last error 5 min',
      '    ago: /users: HTTP 500',
      'shop-1-0be1c9d2  healthy 3 h     opa 1.22.0  5b1f0c93aa  42 of 42          -',
      '10.0.3.7:50122   opal 3 h        ?           ?           ?                 ?',
    ]);
  });

  it('leave the engine out at 80 columns, and break the reasons between words', () => {
    const lines = fleetLines(FLEET, { nowMs: NOW, width: 80 });
    for (const line of lines) assert(line.length <= 80, line);
    assert.deepEqual(lines.slice(2, 7), [
      'CLIENT           STATE           POLICY      DATA              BEHIND',
      'shop-2-77aa01bc  unhealthy 12 s  5b1f0c93aa  42 of 42          policy',
      '  policy: wants 77aa01bcde, holds 5b1f0c93aa; failing since 18:03:11 UTC (12 s):',
      '    app/rbac.rego:12: rego_parse_error: unexpected eof token',
      'shop-3-bf04a1ee  unhealthy 75 s  5b1f0c93aa  42 of 42, 1 open  1 update, 75 s',
    ]);
  });

  it('shorten long names in their middle, and cut what has no space', () => {
    const long = 'a-very-long-host-name.eu-central-1.compute.internal.example-0123456789ab';
    const failing = [{ path: `/${'x'.repeat(300)}`, error: 'HTTP 500', since: ago(12) }];
    const lines = fleetLines(answer([client(long, { healthy: false, failing })]), { nowMs: NOW, width: 80 });
    for (const line of lines) assert(line.length <= 80, `${line.length}: ${line}`);
    assert.match(lines[3] ?? '', /^a-very-lo\S+\.\.\.\S+6789ab {2}unhealthy/);
  });

  it('are not broken where there is no width', () => {
    const lines = fleetLines(FLEET, { nowMs: NOW, width: Number.POSITIVE_INFINITY });
    assert(lines.some((line) => line.endsWith(`app/rbac.rego:12: ${REFUSED.message}`)));
  });

  it('say when there is no client', () => {
    assert.deepEqual(fleetLines(answer([], { head: 0, policy_head: null }), { nowMs: NOW, width: 80 }), [
      '0 clients, update log at 0, policy at none',
    ]);
  });
});

/** The lines of one client, without the table. */
function reasons(view: ClientView): string[] {
  return fleetLines(answer([view]), { nowMs: NOW, width: 1000 }).slice(4);
}

/** Its row. */
function row(view: ClientView): string {
  return fleetLines(answer([view]), { nowMs: NOW, width: 1000 })[3] ?? '';
}

describe('a client', () => {
  it('that is well has no reason below it', () => assert.deepEqual(reasons(client('c')), []));

  it('that never loaded, or is unhealthy for no stated reason, says so', () => {
    const notReady = client('c', { ready: false, healthy: false, policy: { wanted: null, held: null, current: null } });
    assert.match(row(notReady), /^c {7}not ready 3 h/);
    assert.deepEqual(reasons(notReady), [
      '  not ready: policy and data were not loaded whole yet; nothing is known to fail',
    ]);
    assert.deepEqual(reasons(client('c', { healthy: false })), [
      '  it names no reason; `policysync status client` beside it may',
    ]);
  });

  it('whose engine does not answer says why', () => {
    const engine = { kind: 'opa', version: null, online: false, error: 'connect ECONNREFUSED 127.0.0.1:8181' };
    assert.deepEqual(reasons(client('c', { healthy: false, engine })), [
      '  engine: does not answer: connect ECONNREFUSED 127.0.0.1:8181',
    ]);
  });

  it('that has not even read the wanted commit says what is failing', () => {
    const error = { message: 'the sync server answered 500', file: null, line: null };
    const policy = { wanted: WANTED, held: null, current: false, error, since: ago(3) };
    assert.deepEqual(reasons(client('c', { policy })), [
      '  policy: wants 77aa01bcde, holds none; failing since 18:03:20 UTC (3.0 s): the sync server answered 500',
    ]);
  });

  it('with many failing entries names ten and counts the others', () => {
    const failing = Array.from({ length: 50 }, (_, n) => ({ path: `/p${n}`, error: 'x' }));
    const lines = reasons(client('c', { healthy: false, failing, failing_total: 70 }));
    assert.deepEqual([lines.length, lines[0], lines[10]], [11, '  /p0: failing: x', '  and 60 more failing paths']);
  });

  it('whose engine refuses updates, and names none of the paths, names the updates', () => {
    assert.deepEqual(reasons(client('c', { healthy: false }, { blocked: [7, 9] })), [
      '  the engine refuses 2 updates: 7, 9',
    ]);
  });

  it('whose id is that of another token is told so', () => {
    assert.deepEqual(reasons(client('c (2)', { own_id: 'c' })), [
      '  calls itself c, an id that another client uses: give it a SYNC_CLIENT_ID of its own',
    ]);
  });

  it('that another instance has, too, says so', () => {
    assert.deepEqual(reasons(client('c', { duplicates: 1 })), [
      '  1 other server instance has a client of this id connected, too',
    ]);
  });

  it('never holds more than there is, and nothing where there is nothing', () => {
    const held = { epoch: 'e', applied_through: 11, applied_beyond: [], unresolved: [] };
    assert.match(row(client('c', {}, { wanted: { policy_data: 10 }, held })), / 10 of 10 +-$/);
    assert.match(
      row(client('c', {}, { newest: 900, applied: 899, wanted: { policy_data: 10 }, held })),
      / 899 of 900 +-$/,
    );
    assert.match(row(client('c', {}, { wanted: {}, held })), /5b1f0c93aa {2}- +-$/);
    assert.match(
      row(client('c', {}, { held: null, lag_updates: 3, lag_seconds: 2 })),
      / 0 of 42 {2}3 updates, 2\.0 s$/,
    );
    assert.match(
      row(client('c', {}, { lag_updates: 1, lag_seconds: 9000, lag_at_least: true })),
      / {2}>= 1 update, 3 h$/,
    );
  });

  it('that wants no policy is not behind with it', () => {
    const policy = { wanted: WANTED, held: null, current: false };
    assert.match(row(client('c', { topics: ['policy_data'], policy })), / none +42 of 42 +-$/);
    assert.match(row(client('c', { policy })), / none +42 of 42 +policy$/);
  });

  it('cannot write to the terminal', () => {
    const failing = [{ path: '/a\u001b[2J', error: 'one\ntwo \u202e three\u0007', since: ago(2) }];
    const lines = fleetLines(answer([client('c\u001b]0;x\u0007', { healthy: false, failing })]), {
      nowMs: NOW,
      width: 80,
    });
    for (const line of lines) assert.doesNotMatch(line, /[\p{Cc}\p{Cf}]/u);
    assert(lines.some((line) => line.includes('one two three')));
  });
});

describe('the policy source', () => {
  const lines = (source: ClientsAnswer['policy_source'], changes: Partial<ClientsAnswer> = {}): string[] =>
    fleetLines(answer([], { ...(source && { policy_source: source }), ...changes }), { nowMs: NOW, width: 1000 });

  it('that is followed needs no line', () => {
    assert.deepEqual(lines({ state: 'following', head: HELD, error: null }).slice(1), []);
  });

  it('whose head is refused: the header says so, then file, since when, and what to do', () => {
    const shown = lines({
      state: 'failing',
      head: HELD,
      refused: WANTED,
      error: 'commit 77aa01b: data.json is not JSON: unexpected end',
      code: 'policy_commit_refused',
      failing_since: new Date(ago(3 * 86_400)).toISOString(),
    });
    assert.deepEqual(shown, [
      '0 clients, update log at 43, policy at 5b1f0c93aa, whose head 77aa01bcde is refused',
      'Policy source: failing since 2026-11-19 18:03:23 UTC (3 days), 5b1f0c93aa is served: commit 77aa01b: data.json is not JSON: unexpected end [policy_commit_refused]',
      `What to do: ${ERROR_CODES.policy_commit_refused.remedy}`,
    ]);
  });

  it('that has nothing yet, or is none, or is doubted, is told in its words', () => {
    assert.match(lines({ state: 'starting', head: null, error: null })[1] ?? '', /nothing is served yet/);
    const missing = { state: 'starting' as const, head: null, error: 'no branch x', code: 'git_branch_missing' };
    assert.match(
      lines(missing)[1] ?? '',
      /^Policy source: failing, nothing is served yet: no branch x \[git_branch_missing\]$/,
    );
    assert.match(lines(missing)[2] ?? '', /^What to do: Set SYNC_POLICY_REPO_MAIN_BRANCH/);
    assert.match(lines({ state: 'none' })[1] ?? '', /none is configured/);
    assert.match(lines({ state: 'following', head: HELD, doubted: WANTED })[1] ?? '', /77aa01bcde may be an older/);
    assert.match(lines({ state: 'following', head: HELD, wanted: WANTED })[1] ?? '', /77aa01bcde is wanted/);
    const awaited = { commit: WANTED, since: new Date(ago(9)).toISOString() };
    assert.equal(
      lines({ state: 'following', head: HELD, awaited })[1],
      'Policy source: does not show 77aa01bcde, which a webhook named 9.0 s ago; it is asked again',
    );
    assert.match(
      lines({ state: 'following', head: HELD, awaited: { ...awaited, given_up: awaited.since } })[1] ?? '',
      /9\.0 s ago; it is not asked for it any more: if no later push replaced it, send the webhook again$/,
    );
    assert.equal(
      lines({ state: 'following', head: HELD, fetching_since: new Date(ago(9)).toISOString() })[1],
      'Policy source: asked 9.0 s ago, it has not answered yet; 5b1f0c93aa is served',
    );
  });

  it('is not all: a log that takes no updates is told, too', () => {
    const log_refuses = { since: ago(90), reason: 'disk full (SQLITE_FULL)' };
    assert.match(
      lines(undefined, { log_refuses })[1] ?? '',
      /^Update log: takes no updates since \d\d:\d\d:\d\d UTC \(90 s\): disk full \(SQLITE_FULL\)$/,
    );
    assert.match(
      lines(undefined, { log_refuses: { ...log_refuses, from_bytes: 100_034 } })[1] ?? '',
      /^Update log: takes no updates of 100,034 bytes and more since /,
    );
  });

  it('has its warnings shown, and so is why there may be more clients', () => {
    const warnings = ['data.json replaces audit/data.json'];
    assert.equal(
      lines({ state: 'following', head: HELD, warnings })[1],
      'Policy warning: data.json replaces audit/data.json',
    );
    assert.equal(lines(undefined, { incomplete: 'i2 is away' })[1], 'There may be more clients: i2 is away');
  });
});

it('a client that says times of no calendar does not keep the others from being shown', () => {
  const failing = [{ path: '/a', error: 'E', since: Number.MAX_VALUE }];
  const lines = fleetLines(answer([client('bad', { healthy: false, failing }), client('good')]), {
    nowMs: NOW,
    width: 80,
  }).join('\n');
  assert.match(lines, /good/);
  assert.match(lines, /\/a: failing since .*: E/);
});
