import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { TraceAnswer, TraceClient } from '../../../wire/trace.js';
import { traceLines } from './trace-lines.js';

const AT = Date.UTC(2026, 10, 21, 10);

function client(client_id: string, state: string, more: Partial<TraceClient> = {}): TraceClient {
  return {
    ...{ client_id, state, kind: 'session', connected: true, instance: 'one', reason: null, was_there: true },
    ...{ heard_at: null, fetched_at: null, applied_at: null, refused_at: null },
    ...{ applied_seen_at: null, refused_seen_at: null, reported_at: null },
    ...more,
  };
}

function lines(more: Partial<TraceAnswer>, width = Number.POSITIVE_INFINITY): string[] {
  const clients = more.clients ?? [];
  return traceLines(
    {
      ...{ kind: 'commit', id: 'abc', epoch: 'e', now: AT + 60_000, instance: 'one', stages: [], in_memory: true },
      ...{ notes: [], counts: {}, convergence: null, total: clients.length, next: null, clients },
      ...more,
    },
    width,
  );
}

test('a refused commit says why, and that it concerns nobody', () => {
  const stages = [
    { stage: 'found', at: AT, instance: 'one' },
    { stage: 'refused', at: AT + 12, instance: 'one' },
  ];
  const error = { message: 'commit abc: x/data.json is not valid JSON', code: 'policy_commit_refused' };
  assert.deepEqual(lines({ state: 'refused', stages, error }), [
    'Policy commit abc: refused',
    '  found    2026-11-21 10:00:00.000 UTC  +0 ms',
    '  refused  2026-11-21 10:00:00.012 UTC  +12 ms',
    '  Refused: commit abc: x/data.json is not valid JSON',
    '',
    'It concerns no client.',
  ]);
});

test('of an update with many topics the first are named, and how many more there are', () => {
  const update: Partial<TraceAnswer> = { kind: 'update', id: 'u', seq: 7, topics: ['a', 'b', 'c', 'd'] };
  assert.equal(lines(update)[0], 'Data update 7 (u): topics a, b, c and 1 more');
  assert.equal(lines({ ...update, topics_total: 1000 })[0], 'Data update 7 (u): topics a, b, c and 997 more');
});

test('where nobody was connected when a change was announced, no times are named', () => {
  const convergence = { from: AT, clients: 0, first: null, half: null, p99: null, last: null, curve: [] };
  const said = lines({ state: 'served', clients: [client('a', 'applied', { was_there: false })], convergence });
  assert.equal(said.at(-1), 'Nobody who reports was connected when it was announced.');
});

test('since when a client is away is said as all times are', () => {
  const said = lines({ state: 'served', clients: [client('a', 'away', { connected: false, away_since: AT + 1500 })] });
  assert(said.includes('  away since 2026-11-21 10:00:01.500 UTC'), said.join('\n'));
});

test('stages of several instances name them; who needs a person comes first; what is foreign is bounded and printable', () => {
  const stages = [
    { stage: 'announced', at: AT, instance: '11112222-3', subscribers: 1 },
    { stage: 'announced', at: AT + 5, instance: '99998888-3', subscribers: 2 },
  ];
  const clients = [
    client('a', 'applied', { heard_at: AT - 3, fetched_at: AT + 2, applied_at: AT + 9, applied_seen_at: AT + 1500 }),
    client('b', 'a state of a later version'),
    client('c', 'refused', {
      reason: 'bad\u001b[2J rule',
      file: 'x.rego',
      line: 3,
      refused_at: AT + 8,
      refused_seen_at: AT + 9,
    }),
    client('d', 'not_heard', { reason: 'it has applied up to 41', reported_at: AT }),
  ];
  const convergence = { from: AT, clients: 4, first: AT + 1500, half: null, p99: null, last: null, curve: [] };
  const counts = { applied: 1, refused: 1, not_heard: 1 };
  assert.deepEqual(lines({ state: 'served', stages, clients, convergence, counts }).slice(1, 13), [
    '  announced  2026-11-21 10:00:00.000 UTC  +0 ms  instance 11112222  to 1 connection of it',
    '  announced  2026-11-21 10:00:00.005 UTC  +5 ms  instance 99998888  to 2 connections of it',
    '',
    'CLIENT  STATE                 HEARD  FETCHED  APPLIED    SEEN',
    'c       refused               -      -        no, +8 ms  +9 ms',
    '  x.rego:3: bad [2J rule',
    'd       not heard             -      -        -          -',
    '  it has applied up to 41; its last report came 60 s ago',
    'a       applied               -3 ms  +2 ms    +9 ms      +1.5 s',
    'b       a state of a late...  -      -        -          -',
    '',
    '4 clients: 1 applied, 1 refused, 1 not heard.',
  ]);
});

test('without memory the note says so, and no line of prose is wider than the terminal', () => {
  const notes = [
    'no server instance has its times in memory, so the states follow from the log and from what clients hold now',
  ];
  const shown = lines({ notes, in_memory: false, clients: [client('a', 'applied')], counts: { applied: 1 } }, 60);
  assert(
    shown.every((line) => line.length <= 60),
    shown.join('\n'),
  );
  assert.match(shown.join(' '), /Note: no server instance/);
  assert(!shown.some((line) => line.includes('HEARD, FETCHED')));
});

test('a client that says times of no calendar does not keep the others from being shown', () => {
  const clients = [client('bad', 'applied', { heard_at: Number.MAX_VALUE }), client('good', 'applied')];
  assert.match(lines({ state: 'served', clients }).join('\n'), /^good/m);
});
