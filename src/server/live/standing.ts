import type { ClientView } from '../../wire/clients.js';
import type { DataStanding, HealthStanding, PolicyStanding } from '../../wire/fleet.js';
import { ALL_TOPICS } from '../../wire/topics.js';
import type { TraceState } from '../../wire/trace.js';
import type { ClientTimes } from '../changes/change-times.js';
import { standingToCommit } from '../changes/trace-rules.js';
import { isPolicyTopic } from '../clients/client-view.js';
import type { KnownClient } from '../clients/known-client.js';

/** The served commit, as far as the state of a client depends on it. */
export interface ServedCommit {
  readonly hash: string;
  /** When it was announced; undefined: that is not known. */
  readonly announcedMs: number | undefined;
}

/** States of a trace as states of a client: it does not matter what it held once. */
const POLICY_OF_TRACE: Readonly<Record<TraceState, PolicyStanding>> = {
  applied: 'acknowledged',
  refused: 'refused',
  failing: 'told',
  pending: 'told',
  not_heard: 'not_told',
  away: 'away',
  replaced: 'told',
  unknown: 'does_not_say',
};

/** How a client stands to the served commit. `heardMs`: when it heard of that. */
export function policyStanding(
  client: KnownClient,
  served: ServedCommit | undefined,
  heardMs: ClientTimes['heard'],
): PolicyStanding {
  if (served === undefined || !client.topics.some(isPolicyTopic)) return 'none';
  if (client.kind === 'plain') return 'does_not_say';
  if (client.awaySinceMs !== null) return 'away';
  const { hash, announcedMs } = served;
  const change = { hash, isHead: true, isLimited: true, announcedMs, times: { heard: heardMs } };
  return POLICY_OF_TRACE[standingToCommit(client, change).state];
}

/** Whether a topic is one of data. */
function isDataTopic(topic: string): boolean {
  return topic === ALL_TOPICS || !isPolicyTopic(topic);
}

/** How a client stands to its data, as a caller sees it. `blocked`: refused updates it sees. */
export function dataStanding(
  { kind, connected, topics, topics_left_out: leftOut = 0, data, failing_total: failing = 0 }: ClientView,
  blocked: number,
): DataStanding {
  if (leftOut === 0 && !topics.some(isDataTopic)) return 'none';
  if (kind === 'plain') return 'does_not_say';
  if (!connected) return 'away';
  if (blocked > 0) return 'blocked';
  if (failing > 0) return 'failing';
  return (data.lag_updates ?? 0) > 0 ? 'behind' : 'at_head';
}

/** How a client is. */
export function healthStanding({ kind, connected, ready, healthy }: ClientView): HealthStanding {
  if (kind === 'plain') return 'does_not_say';
  if (!connected) return healthy === true ? 'was_healthy' : 'was_unhealthy';
  if (healthy === null) return 'new';
  if (healthy) return 'healthy';
  return ready === true ? 'unhealthy' : 'not_ready';
}

/** The states of one client. */
export interface Standings {
  readonly policy: PolicyStanding;
  readonly data: DataStanding;
  readonly health: HealthStanding;
}
