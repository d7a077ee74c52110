import type { PeerInfo } from '../../pubsub/peer.js';
import { ALL_TOPICS, POLICY_TOPIC } from '../../wire/topics.js';
import { type KnownClient, newClient } from './known-client.js';
import type { ClientRegistry } from './registry.js';

/** The clients of an instance. One without a session counts as always subscribed. */
export function ownClients(
  instance: string,
  registry: Pick<ClientRegistry, 'list' | 'peers'>,
  connections: readonly PeerInfo[],
): KnownClient[] {
  const sessions = new Set([...registry.peers].map(({ id }) => id));
  const plain = connections.filter(({ id, topics }) => !sessions.has(id) && topics.length > 0);
  const views = plain.map((peer) => {
    const { subject, clientId = `${peer.host}:${peer.port}`, connectedAtMs: claimedMs } = peer;
    const about = { instance, claimedMs, spans: [{ from: 0, until: null }] };
    return newClient({ kind: 'plain', subject, clientId }, peer, about);
  });
  return [...registry.list(), ...plainClients(views)];
}

/**
 * Clients without a session, one for each program. OPAL's client has a connection for policy and
 * one for data: with one id if it announces itself for statistics; otherwise they have nothing in
 * common but host and subject, and those that came first belong together. Which of several halves
 * at one host are paired does not matter: nothing else is known of them.
 */
export function plainClients(connections: readonly KnownClient[]): KnownClient[] {
  const byKey = new Map<string, KnownClient>();
  for (const one of connections) {
    const before = byKey.get(one.key);
    byKey.set(one.key, before === undefined ? one : together(before, one));
  }
  const halves = new Map<string, { policy: KnownClient[]; data: KnownClient[] }>();
  for (const client of byKey.values()) {
    const half = halfOf(client);
    if (half === undefined) continue;
    const place = JSON.stringify([client.subject, client.address.slice(0, client.address.lastIndexOf(':'))]);
    const there = halves.get(place) ?? { policy: [], data: [] };
    halves.set(place, there);
    there[half].push(client);
  }
  for (const { policy, data } of halves.values()) {
    data.sort(byArrival);
    for (const [index, client] of policy.sort(byArrival).entries()) {
      const other = data[index];
      if (other === undefined) break;
      byKey.delete(other.key);
      byKey.set(client.key, together(client, other));
    }
  }
  return [...byKey.values()];
}

/** Which half of an OPAL client a connection without an id can be; undefined: a whole one. */
function halfOf({ clientId, address, topics }: KnownClient): 'policy' | 'data' | undefined {
  if (clientId !== address) return undefined;
  const count = topics.filter((topic) => POLICY_TOPIC.test(topic)).length;
  if (count === 0) return topics.includes(ALL_TOPICS) ? undefined : 'data';
  return count === topics.length ? 'policy' : undefined;
}

function together(a: KnownClient, b: KnownClient): KnownClient {
  return {
    ...a,
    topics: [...new Set([...a.topics, ...b.topics])],
    topicsLeftOut: a.topicsLeftOut + b.topicsLeftOut,
    connectedAtMs: Math.min(a.connectedAtMs, b.connectedAtMs),
    claimedMs: Math.min(a.claimedMs, b.claimedMs),
  };
}

function byArrival(a: KnownClient, b: KnownClient): number {
  return a.connectedAtMs - b.connectedAtMs || (a.key < b.key ? -1 : 1);
}
