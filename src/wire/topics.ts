/** The scope when nothing else is set (specification policy-update.topic). */
export const DEFAULT_SCOPE = 'default';
/** The prefix of policy topics (specification policy-update.topic). */
export const POLICY_TOPIC_PREFIX = 'policy';
/** A policy topic of any scope, ours or OPAL's. */
export const POLICY_TOPIC = /^(?:[^:]*:)?policy:/;
/** The topic name that subscribes to all topics (opal-protocol P1.3). */
export const ALL_TOPICS = '__EventNotifier_ALL_TOPICS__';

/** Our policy topic of one directory: `default:policy:a/b`. */
export function policyTopic(directory: string, scope = DEFAULT_SCOPE): string {
  return `${scope}:${POLICY_TOPIC_PREFIX}:${directory}`;
}

/** OPAL's policy topic of one directory: `policy:a/b` (opal-protocol P1.7). */
export function opalPolicyTopic(directory: string): string {
  return `${POLICY_TOPIC_PREFIX}:${directory}`;
}

/**
 * The topics that a data topic publishes to: split at the last `:` into prefix and rest, then every
 * cumulative path of the rest. `data:a/b` gives `data:a`, `data:a/b` (opal-protocol P4.3). So a
 * subscriber of `a` receives `a/b`.
 */
export function expandTopic(topic: string): string[] {
  const colon = topic.lastIndexOf(':');
  const prefix = topic.slice(0, colon + 1);
  const parts = topic.slice(colon + 1).split('/');
  return parts.map((_, index) => prefix + parts.slice(0, index + 1).join('/'));
}

/** {@link expandTopic} over a list; order kept, each topic once. */
export function expandTopics(topics: readonly string[]): string[] {
  return [...new Set(topics.flatMap(expandTopic))];
}
