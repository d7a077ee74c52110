import type { ClientView } from '../../wire/clients.js';
import type { FleetRow } from '../../wire/fleet.js';
import { POLICY_TOPIC } from '../../wire/topics.js';

/** Values of `--fail-on`, the worst first: the worst one met decides the exit code. */
export const CONDITIONS = ['unhealthy', 'behind', 'away'] as const;
export type Condition = (typeof CONDITIONS)[number];

/** Returns the conditions that a client meets. For an OPAL client, only `away` is known. */
export function conditionsOf(client: ClientView): ReadonlySet<Condition> {
  const met = new Set<Condition>();
  if (!client.connected) met.add('away');
  else if (client.healthy === false || client.engine?.online === false) met.add('unhealthy');
  if (client.connected && (lacksPolicy(client) || lacksData(client))) met.add('behind');
  return met;
}

/** {@link conditionsOf} for a row of the stream. */
export function conditionsOfRow({ kind, connected, policy, data, health, error }: FleetRow): ReadonlySet<Condition> {
  if (!connected) return new Set(['away']);
  const met = new Set<Condition>();
  const isBehind = LACKING.has(policy.state) || (data.behind ?? 0) > 0 || data.at_least;
  if (health.state === 'unhealthy' || health.state === 'not_ready' || error?.kind === 'engine') met.add('unhealthy');
  if (kind === 'session' && isBehind) met.add('behind');
  return met;
}

/** States of clients that should hold another commit. */
const LACKING: ReadonlySet<string> = new Set(['told', 'not_told', 'refused']);

/** Whether it should hold another commit. A client without policy subscriptions needs none. */
export function lacksPolicy({ kind, topics, topics_left_out: more = 0, policy }: ClientView): boolean {
  if (kind === 'plain' || policy.wanted === null || policy.held === policy.wanted) return false;
  return policy.held !== null || more > 0 || topics.some((topic) => POLICY_TOPIC.test(topic));
}

/** Whether updates of its topics are not applied. */
export function lacksData({ data }: ClientView): boolean {
  return (data.lag_updates ?? 0) > 0 || data.lag_at_least;
}
