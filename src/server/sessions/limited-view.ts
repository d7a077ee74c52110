import type { ClientsAnswer, ClientView } from '../../wire/clients.js';

/** Policy topics of both forms (`wire/topics.ts`): what they are about is shown to every valid token. */
const POLICY_TOPIC = /^([^:]*:)?policy:/;

/**
 * What of the clients a caller sees that is limited to topics: those that subscribe to one of them, without their other topics.
 * What fails at a client is shown where all its data topics are permitted: it may be of any of them.
 */
export function limitedView(answer: ClientsAnswer, permitted: ReadonlySet<string>): ClientsAnswer {
  const isSeen = ({ topics }: ClientView): boolean => topics.some((topic) => permitted.has(topic));
  return { ...answer, clients: answer.clients.filter(isSeen).map((client) => limitedClient(client, permitted)) };
}

function limitedClient(client: ClientView, permitted: ReadonlySet<string>): ClientView {
  const { topics, data, failing, last_error } = client;
  const isWhole = topics.every((topic) => permitted.has(topic) || POLICY_TOPIC.test(topic));
  return {
    ...client,
    topics: topics.filter((topic) => permitted.has(topic)),
    data: {
      ...data,
      wanted: Object.fromEntries(Object.entries(data.wanted).filter(([topic]) => permitted.has(topic))),
    },
    failing: isWhole ? failing : [],
    last_error: isWhole ? last_error : null,
  };
}
