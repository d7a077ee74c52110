import type { ClientView } from '../../wire/clients.js';

/** What `--fail-on` takes, the worst first: that decides the exit code. */
export const CONDITIONS = ['unhealthy', 'behind', 'away'] as const;
export type Condition = (typeof CONDITIONS)[number];

/** Policy topics of both forms (`wire/topics.ts`). */
const POLICY_TOPIC = /^([^:]*:)?policy:/;

/** Which of the conditions are met by a client of a server. An OPAL client does not say what it holds: only that it is away. */
export function conditionsOf(client: ClientView): ReadonlySet<Condition> {
  const met = new Set<Condition>();
  if (!client.connected) met.add('away');
  else if (client.healthy === false || client.engine?.online === false) met.add('unhealthy');
  if (client.connected && (lacksPolicy(client) || lacksData(client))) met.add('behind');
  return met;
}

/** Whether another commit is wanted than the one that it holds. One that subscribes to no policy wants none. */
export function lacksPolicy({ kind, topics, topics_left_out: more = 0, policy }: ClientView): boolean {
  if (kind === 'plain' || policy.wanted === null || policy.held === policy.wanted) return false;
  return policy.held !== null || more > 0 || topics.some((topic) => POLICY_TOPIC.test(topic));
}

/** Whether updates of its topics are not applied. */
export function lacksData({ data }: ClientView): boolean {
  return (data.lag_updates ?? 0) > 0 || data.lag_at_least;
}
