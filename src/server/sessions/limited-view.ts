import type { ClientView } from '../../wire/clients.js';
import { kindText } from './failure-text.js';
import type { KnownClient } from './known-client.js';

/** Policy topics of both forms (`wire/topics.ts`): what they are about is shown to every valid token. */
const POLICY_TOPIC = /^([^:]*:)?policy:/;

/** What a caller may see of clients. */
export interface ClientLimits {
  /** The topics that it is limited to; undefined: any. */
  readonly permittedTopics: ReadonlySet<string> | undefined;
  /** It is limited to something: it is told the kind of a failure, and not its text. */
  readonly isLimited: boolean;
}

/** Whether a caller sees a client: one that subscribes to a topic of its own. */
export function isVisible({ topics }: KnownClient, { permittedTopics }: ClientLimits): boolean {
  return permittedTopics === undefined || topics.some((topic) => permittedTopics.has(topic));
}

/** A client as far as its topics are permitted: all figures of its data are of these. */
export function visiblePart(client: KnownClient, { permittedTopics }: ClientLimits): KnownClient {
  if (permittedTopics === undefined) return client;
  return { ...client, topics: client.topics.filter((topic) => permittedTopics.has(topic)), topicsLeftOut: 0 };
}

/**
 * What of a client a caller sees, whose `view` is of the {@link visiblePart}. What fails is shown where all data topics of the client are permitted: it may
 * be of any of them.
 */
export function limitedView(view: ClientView, client: KnownClient, limits: ClientLimits): ClientView {
  if (!limits.isLimited) return view;
  const permits = (topic: string): boolean => limits.permittedTopics?.has(topic) ?? true;
  const isWhole =
    client.topicsLeftOut === 0 && client.topics.every((topic) => permits(topic) || POLICY_TOPIC.test(topic));
  const { policy, engine, last_error: last } = view;
  return {
    ...view,
    subject: null,
    engine: engine?.error == null ? engine : { ...engine, error: 'the engine does not answer' },
    policy:
      policy.error == null ? policy : { ...policy, error: { ...policy.error, message: 'the commit is not in force' } },
    failing: isWhole ? view.failing.map((one) => ({ ...one, error: kindText(one.kind) })) : [],
    failing_total: isWhole ? view.failing_total : 0,
    last_error: isWhole && last !== null ? { ...last, error: kindText(last.kind) } : null,
  };
}
