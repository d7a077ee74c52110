import type { Logger } from '../../lib/observe/log.js';
import type { Position } from '../../wire/session.js';
import type { RunningEngine } from '../engine/opa/running-engine.js';
import type { DataEvents } from '../status/data-events.js';
import type { Status } from '../status/status.js';
import type { ChangeSteps } from './change-steps.js';
import { PositionWaits, type UpdateProgress } from './position-waits.js';
import { StateReporter, type StateToReport } from './state-reporter.js';

/** What {@link makePosition} reads. */
interface PositionSources {
  readonly status: Status;
  readonly events: DataEvents;
  readonly steps: ChangeSteps;
  /** Undefined: no SDK for traces is in this process. */
  readonly traces: { report<T>(work: () => Promise<T>): Promise<T> } | undefined;
  readonly engine: Pick<RunningEngine, 'version'>;
  readonly policy: { readonly hash: string | undefined };
  readonly data: {
    readonly logPosition: Position | undefined;
    readonly blockedSeqs: number[];
    applyStatus(seq: number): UpdateProgress;
    catchUp(): void;
  };
  readonly logOf: (component: string) => Logger;
}

/** Tells callers that wait for an update, and the server, how far this client is. */
export function makePosition(
  { clientId }: { readonly clientId: string },
  { status, events, steps, traces, engine, policy, data, logOf }: PositionSources,
): { waits: PositionWaits; stateReporter: StateReporter } {
  const waits = new PositionWaits({
    status: (seq) => {
      const applied = data.applyStatus(seq);
      // The caller reads the engine next: while it is away, or being filled, it does not have it.
      return applied === 'applied' && !status.engine.online ? 'pending' : applied;
    },
    catchUp: () => data.catchUp(),
  });
  const state = (): StateToReport => ({
    position: data.logPosition,
    policy_hash: policy.hash ?? null,
    ready: status.ready,
    healthy: status.healthy,
    policy: status.policy,
    engine: {
      kind: 'opa',
      version: engine.version() ?? null,
      online: status.engine.online,
      error: status.engine.error ?? null,
      since: status.engine.sinceMs,
    },
    failing: status.failures,
    failing_total: status.failing.size,
    blocked: data.blockedSeqs,
    since: status.sinceMs,
  });
  const traced = traces === undefined ? undefined : <T>(work: () => Promise<T>) => traces.report(work);
  const stateReporter = new StateReporter({ clientId }, { state, steps, traced, log: logOf('session') });
  const changed = (): void => {
    steps.policyChanged(status.policy);
    stateReporter.changed();
    waits.changed();
  };
  status.watch(changed);
  events.subscribe(({ kind }) => {
    if (kind === 'position') changed();
  });
  return { waits, stateReporter };
}
