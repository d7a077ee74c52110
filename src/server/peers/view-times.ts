import type { ChangeMemory, ClientTimes } from '../changes/change-times.js';
import type { KnownClient } from '../clients/known-client.js';
import type { OtherMemory } from './shared-times.js';

/** A difference that changes by less stays, so that times are the same as before. */
const SAME_MS = 20;
/**
 * What a time of another instance plus this is by our clock: both see that of the log, and know how
 * far it is ahead of theirs. `known`: what it was so far. Undefined: that is not known.
 */
export function clockDifference(
  { theirs, ours }: { readonly theirs: number | undefined; readonly ours: number | undefined },
  known: number | undefined,
): number | undefined {
  if (theirs === undefined || ours === undefined) return undefined;
  const now = theirs - ours;
  return known !== undefined && Math.abs(now - known) <= SAME_MS ? known : now;
}

type Time = number | null | undefined;

function moved<T extends Time>(at: T, by: number): T {
  return (typeof at === 'number' ? at + by : at) as T;
}

/** A client of another instance by our clock; `by`: what a time of it plus this is by ours. */
export function clientMoved(client: KnownClient, by: number): KnownClient {
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

/** The same for what it remembers. */
export function memoryMoved(memory: OtherMemory, by: number): OtherMemory {
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
