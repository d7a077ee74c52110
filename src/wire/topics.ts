/** The scope when nothing else is set (spec, PolicyUpdateMessage). */
export const DEFAULT_SCOPE = 'default';
/** The prefix of policy topics (spec, PolicyUpdateMessage). */
export const POLICY_TOPIC_PREFIX = 'policy';
/** The name in place of a topic that subscribes to all of them (protocol-facts 1.3). */
export const ALL_TOPICS = '__EventNotifier_ALL_TOPICS__';

/** The spec's policy topic of one directory: `default:policy:a/b`. */
export function policyTopic(directory: string, scope = DEFAULT_SCOPE): string {
  return `${scope}:${POLICY_TOPIC_PREFIX}:${directory}`;
}

/** OPAL's policy topic of one directory: `policy:a/b` (protocol-facts 1.7). */
export function opalPolicyTopic(directory: string): string {
  return `${POLICY_TOPIC_PREFIX}:${directory}`;
}

/**
 * The topics that a data topic publishes to: split at the last `:` into prefix and rest, then every cumulative path of
 * the rest. `data:a/b` gives `data:a`, `data:a/b` (protocol-facts 4.3). A subscriber of `a` so receives `a/b`.
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
