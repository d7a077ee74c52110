import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { ClientsAnswer, ClientView } from '../../../wire/clients.js';
import { ExitError, UsageError } from '../../kit/run-program.js';
import type { Condition } from '../../live/client-state.js';
import type { FleetState } from '../../live/fleet-state.js';
import { failOnClient, failOnFleet, failOnStream, parseFailOn } from './fail-on.js';

const WELL: ClientView = {
  client_id: 'c',
  kind: 'session',
  connected: true,
  connected_at: 0,
  away_since: null,
  address: 'a',
  instance: 'i',
  duplicates: 0,
  topics: [],
  ready: true,
  healthy: true,
  since: 0,
  reported_at: 0,
  engine: { kind: 'opa', version: null, online: true },
  policy: { wanted: 'a', held: 'a', current: true },
  data: { wanted: {}, held: null, lag_updates: 0, lag_seconds: 0, lag_at_least: false, blocked: [] },
  failing: [],
  last_error: null,
};
const BEHIND = { ...WELL, client_id: 'behind', data: { ...WELL.data, lag_updates: 2 } };
const OTHER_COMMIT = { ...WELL, client_id: 'commit', policy: { wanted: 'b', held: 'a', current: false } };
const SICK = { ...WELL, client_id: 'sick', healthy: false };
const NOT_READY = { ...WELL, client_id: 'new', healthy: false, ready: false };
const DOWN = { ...WELL, client_id: 'down', engine: { kind: 'opa', version: null, online: false } };
const AWAY = { ...SICK, client_id: 'away', connected: false, away_since: 0 };
const OPAL = { ...WELL, kind: 'plain' as const, healthy: null, ready: null, engine: null };

function answer(
  clients: readonly ClientView[],
  source?: ClientsAnswer['policy_source'],
  incomplete: string | null = null,
): ClientsAnswer {
  const rest = { epoch: 'e', head: 0, policy_head: null, instance: 'i', incomplete };
  return { ...rest, clients: [...clients], ...(source && { policy_source: source }) };
}

/** The stream of a fleet without clients, with instances of these states. */
function stream({
  states = [],
  incomplete = null,
}: {
  readonly states?: readonly string[];
  readonly incomplete?: string | null;
}): FleetState {
  const summary = {
    total: 0,
    policy: { head: null, counts: {} },
    data: { head: 0, counts: {}, slowest_behind: 0, at_least: false },
    ...{ health: {}, needing: 0, under_way: null, incomplete, limited: false },
  };
  const instances = states.map((state, at) => ({
    ...{ name: `server-${at}`, instance: `i${at}`, here: at === 0, version: null, started_at: null, state, seen_at: 0 },
    ...{ clients: 0, log_at: 0, behind: 0, backbone_ms: null, loop_delay_ms: null, memory_bytes: null, source: null },
  }));
  return { fleet: { at: 0, epoch: 'e', instance: 'i', head: 0, summary, source: null, instances }, rows: new Map() };
}

/** Exit code and message; undefined where nothing is met. */
function end(run: () => void): [number, string] | undefined {
  try {
    run();
    return undefined;
  } catch (error) {
    assert(error instanceof ExitError);
    assert.equal(error.code, 'condition_met');
    return [error.exitCode, error.message];
  }
}

describe('--fail-on', () => {
  it('takes conditions separated by commas, and nothing else', () => {
    assert.deepEqual(parseFailOn(undefined), []);
    assert.deepEqual(parseFailOn('away, unhealthy'), ['unhealthy', 'away']);
    for (const wrong of ['', 'sick', 'away,', 'Unhealthy']) assert.throws(() => parseFailOn(wrong), UsageError);
  });

  it('fails on a picture that is not whole, with a code of its own, unless what is known fails already', () => {
    const part = (clients: readonly ClientView[]): ClientsAnswer =>
      answer(clients, undefined, 'an instance is silent\u0007');
    const ask = (asked: readonly Condition[], of: ClientsAnswer) => end(() => failOnFleet(asked, of));
    assert.deepEqual(ask(['unhealthy', 'away'], part([WELL])), [
      6,
      'no client that is known is unhealthy or away, but there may be more clients: an instance is silent',
    ]);
    assert.equal(ask(['unhealthy', 'away'], part([WELL, AWAY]))?.[0], 5);
    assert.equal(ask([], part([WELL])), undefined, 'nobody asked');
    assert.equal(ask(['away'], answer([WELL])), undefined);
    assert.equal(end(() => failOnStream(['away'], stream({ incomplete: 'an instance is silent' })))?.[0], 6);
    assert.equal(
      end(() => failOnStream(['away'], stream({}))),
      undefined,
    );
  });

  it('has an exit code for each condition', () => {
    const table: [readonly ClientView[], Condition, [number, string] | undefined][] = [
      [[WELL, OPAL], 'unhealthy', undefined],
      [[WELL, SICK], 'unhealthy', [3, '1 client is unhealthy: sick']],
      [[NOT_READY, DOWN], 'unhealthy', [3, '2 clients are unhealthy: new, down']],
      [[AWAY, BEHIND], 'unhealthy', undefined],
      [[WELL, OPAL, AWAY], 'behind', undefined],
      [[BEHIND, OTHER_COMMIT], 'behind', [4, '2 clients are behind: behind, commit']],
      [[WELL, BEHIND, SICK], 'away', undefined],
      [[AWAY], 'away', [5, '1 client is away: away']],
    ];
    for (const [clients, condition, expected] of table) {
      assert.deepEqual(
        end(() => failOnFleet([condition], answer(clients))),
        expected,
      );
    }
  });

  it('of several ends with the worst', () => {
    const all = parseFailOn('away,behind,unhealthy');
    assert.equal(end(() => failOnFleet(all, answer([AWAY, BEHIND, SICK])))?.[0], 3);
    assert.equal(end(() => failOnFleet(all, answer([AWAY, BEHIND])))?.[0], 4);
    assert.equal(end(() => failOnFleet(all, answer([AWAY])))?.[0], 5);
    assert.equal(
      end(() => failOnFleet(all, answer([WELL]))),
      undefined,
    );
  });

  it('counts a policy source that fails, or refuses its head, as unhealthy', () => {
    for (const source of [
      { state: 'failing' as const },
      { state: 'following' as const, refused: 'b' },
      { state: 'starting' as const, error: 'no branch' },
    ]) {
      assert.deepEqual(
        end(() => failOnFleet(['unhealthy'], answer([WELL], source))),
        [3, 'the policy source is failing'],
      );
      assert.equal(
        end(() => failOnFleet(['behind', 'away'], answer([WELL], source))),
        undefined,
      );
    }
  });

  it('counts an update log that takes no updates as unhealthy, too', () => {
    const full = { ...answer([WELL], { state: 'failing' }), log_refuses: { since: 1, reason: 'disk full' } };
    assert.deepEqual(
      end(() => failOnFleet(['unhealthy'], full)),
      [3, 'the policy source is failing; the update log takes no updates'],
    );
    const some = { ...answer([WELL]), log_refuses: { since: 1, reason: 'disk full', from_bytes: 100_034 } };
    assert.deepEqual(
      end(() => failOnFleet(['unhealthy'], some)),
      [3, 'the update log takes no updates of 100,034 bytes and more'],
    );
    assert.equal(
      end(() => failOnFleet(['behind', 'away'], full)),
      undefined,
    );
  });

  it('counts it in the stream, too, whichever instance says so', () => {
    const refusing = stream({ states: ['in_step', 'refuses_updates'] });
    assert.deepEqual(
      end(() => failOnStream(['unhealthy'], refusing)),
      [3, 'the update log refuses updates, as server-1 says'],
    );
    assert.equal(
      end(() => failOnStream(['behind', 'away'], refusing)),
      undefined,
    );
    assert.equal(
      end(() => failOnStream(['unhealthy'], stream({ states: ['in_step', 'behind'] }))),
      undefined,
    );
  });

  it('names five of many', () => {
    const many = Array.from({ length: 7 }, (_, n) => ({ ...SICK, client_id: `s${n}` }));
    assert.equal(
      end(() => failOnFleet(['unhealthy'], answer(many)))?.[1],
      '7 clients are unhealthy: s0, s1, s2, s3, s4, and 2 more',
    );
  });

  it('of one client ends with the worst that it says of itself', () => {
    assert.deepEqual(
      end(() => failOnClient(['unhealthy', 'away'], new Set(['away']))),
      [5, 'the client is away'],
    );
    assert.equal(
      end(() => failOnClient(['unhealthy'], new Set(['away']))),
      undefined,
    );
  });
});
