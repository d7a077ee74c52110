import type { ChangeMemory, ClientTimes } from '../trace/change-times.js';
import type { OtherMemory } from '../trace/shared-times.js';
import type { KnownClient } from './known-client.js';
import type { InstanceView } from './presence-text.js';

/** What is known of the clocks of two instances: how far that of the log, which both see, is ahead of each. */
export interface TwoClocks {
  /** Of the other one; undefined: it does not say. */
  readonly theirs: number | undefined;
  readonly ours: number | undefined;
  /** When its announcement was first seen, by our clock. */
  readonly seenMs: number;
}

/**
 * The announcement of another instance with all its times by our clock. Where it is not known how the clocks differ, its times are taken as
 * they are, and it counts as made when it was first seen: a clock that is wrong must not make an instance silent.
 */
export function viewInOurTime(view: InstanceView, { theirs, ours, seenMs }: TwoClocks): InstanceView {
  if (theirs === undefined || ours === undefined) return { ...view, atMs: seenMs };
  const by = theirs - ours;
  const atMs = Math.min(view.atMs + by, seenMs);
  if (by === 0) return { ...view, atMs };
  const { clients, memory, vitals } = view;
  return {
    ...view,
    atMs,
    clients: clients.map((client) => clientMoved(client, by)),
    ...(memory !== undefined && { memory: memoryMoved(memory, by) }),
    ...(vitals !== undefined && { vitals: { ...vitals, startedMs: vitals.startedMs + by } }),
  };
}

type Time = number | null | undefined;

function moved<T extends Time>(at: T, by: number): T {
  return (typeof at === 'number' ? at + by : at) as T;
}

function clientMoved(client: KnownClient, by: number): KnownClient {
  const { claimedMs, connectedAtMs, awaySinceMs, reportedAtMs, spans, lastError, state } = client;
  return {
    ...client,
    claimedMs: claimedMs + by,
    connectedAtMs: connectedAtMs + by,
    awaySinceMs: moved(awaySinceMs, by),
    reportedAtMs: moved(reportedAtMs, by),
    spans: spans.map((span) => ({ ...span, fromMs: moved(span.fromMs, by), untilMs: moved(span.untilMs, by) })),
    lastError: lastError && { ...lastError, atMs: lastError.atMs + by },
    // `at` is by the clock of the client itself.
    state: state && {
      ...state,
      since: state.since + by,
      ...(state.policy !== undefined && { policy: { ...state.policy, since: moved(state.policy.since, by) } }),
      engine: { ...state.engine, ...(state.engine.since !== undefined && { since: state.engine.since + by }) },
      failing: state.failing.map((one) => (one.since === undefined ? one : { ...one, since: one.since + by })),
    },
  };
}

function memoryMoved(memory: OtherMemory, by: number): OtherMemory {
  return new Map(
    [...memory].map(([key, change]): [number | string, ChangeMemory<string>] => [
      key,
      {
        ...change,
        stages: allMoved(change.stages, by),
        clients: new Map(
          [...change.clients].map(([client, times]): [string, ClientTimes] => [client, allMoved(times, by)]),
        ),
      },
    ]),
  );
}

function allMoved<T extends object>(times: T, by: number): T {
  return Object.fromEntries(Object.entries(times).map(([name, at]: [string, Time]) => [name, moved(at, by)])) as T;
}
