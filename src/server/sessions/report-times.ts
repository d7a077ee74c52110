import type { SessionReport } from '../../wire/session.js';

/**
 * A report with all its times by our clock. `offsetMs`: what a time of the client plus this is by our clock. None is later than the arrival
 * of the report, and none before 1970: a client cannot know the future, whatever its clock says.
 */
export function inOurTime<R extends Omit<SessionReport, 'client_id'>>(
  report: R,
  offsetMs: number,
  arrivedMs: number,
): R {
  const ours = (at: number): number => Math.max(0, Math.min(Math.round(at + offsetMs), arrivedMs));
  const maybe = <T extends number | null | undefined>(at: T): T => (typeof at === 'number' ? (ours(at) as T) : at);
  const { since, policy, engine, failing, steps } = report;
  return {
    ...report,
    since: ours(since),
    ...(policy !== undefined && { policy: { ...policy, since: maybe(policy.since) } }),
    engine: { ...engine, ...(engine.since !== undefined && { since: ours(engine.since) }) },
    failing: failing.map((one) => (one.since === undefined ? one : { ...one, since: ours(one.since) })),
    ...(steps !== undefined && {
      steps: steps.map((step) => ({
        ...step,
        ...(step.heard !== undefined && { heard: ours(step.heard) }),
        ...(step.fetched !== undefined && { fetched: ours(step.fetched) }),
        ...(step.applied !== undefined && { applied: ours(step.applied) }),
        ...(step.refused !== undefined && { refused: ours(step.refused) }),
        ...(step.replaced !== undefined && { replaced: ours(step.replaced) }),
      })),
    }),
  };
}
