import type { ClientsAnswer, ClientView } from '../../wire/clients.js';

/** Policy topics of both forms (`wire/topics.ts`): what they are about is shown to every valid token. */
const POLICY_TOPIC = /^([^:]*:)?policy:/;

const HIDDEN = { message: 'not shown to a token that is limited to topics', file: null, line: null };

/**
 * What of the clients a caller sees that is limited to topics: those that subscribe to one of them, without their other topics.
 * What fails at a client is shown where all its data topics are permitted: it may be of any of them.
 */
export function limitedView(answer: ClientsAnswer, permitted: ReadonlySet<string>): ClientsAnswer {
  const isSeen = ({ topics }: ClientView): boolean => topics.some((topic) => permitted.has(topic));
  return { ...answer, clients: answer.clients.filter(isSeen).map((client) => limitedClient(client, permitted)) };
}

function limitedClient(client: ClientView, permitted: ReadonlySet<string>): ClientView {
  const { topics, data, failing, last_error, policy, engine } = client;
  const isWhole = topics.every((topic) => permitted.has(topic) || POLICY_TOPIC.test(topic));
  return {
    ...client,
    topics: topics.filter((topic) => permitted.has(topic)),
    data: {
      ...data,
      wanted: Object.fromEntries(Object.entries(data.wanted).filter(([topic]) => permitted.has(topic))),
    },
    // Texts from inside the network of the client: that something fails is told, and not what it says.
    policy: { ...policy, ...(policy.error != null && { error: HIDDEN }) },
    engine: engine === null ? null : { ...engine, ...(engine.error != null && { error: HIDDEN.message }) },
    failing: isWhole ? failing : [],
    last_error: isWhole ? last_error : null,
  };
}
