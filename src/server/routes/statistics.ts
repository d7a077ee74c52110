import { createHash } from 'node:crypto';
import type { FastifyInstance } from 'fastify';
import * as z from 'zod';
import type { Caller } from '../../auth/caller.js';
import { addRoute } from '../../http/route.js';
import { SyncError } from '../../lib/errors.js';
import type { PeerInfo } from '../../pubsub/peer.js';
import { pythonDatetime } from '../../wire/python-datetime.js';
import { derivedName, isVisible } from '../clients/client-view.js';
import { clientKey } from '../clients/known-client.js';
import type { ServerOptions } from '../options.js';
import type { AllClients } from '../peers/all-clients.js';

const channel = z.object({ rpc_id: z.string(), client_id: z.string(), topics: z.array(z.string()) });
const statistics = z.object({
  uptime: z.string().describe('When this server started (UTC), as OPAL names it'),
  version: z.string(),
  clients: z.record(z.string(), z.array(channel)),
  servers: z.array(z.string()),
});
const brief = statistics
  .pick({ uptime: true, version: true })
  .extend({ client_count: z.number(), server_count: z.number() });
const clientInfo = z.object({
  client_id: z.string(),
  source_host: z.string(),
  source_port: z.number(),
  connect_time: z.number().describe('Seconds since 1970'),
  subscribed_topics: z.array(z.string()),
  refcount: z.number(),
  query_params: z.record(z.string(), z.string()),
});

/**
 * OPAL's views of the connections, in its shapes (opal-protocol P2.5): `/statistics`, `/stats`,
 * `/pubsub_client_info`. Computed from the current connections of this process, so nothing can leak
 * or become stale, and for the first two from what the other instances announce of theirs.
 */
export function statisticsRoutes(
  app: FastifyInstance,
  options: Pick<ServerOptions, 'statisticsEnabled' | 'maxChannelsPerClient'>,
  deps: {
    /** Id of this instance. */
    readonly instance: string;
    readonly peers: () => readonly PeerInfo[];
    readonly everyone: () => Promise<Pick<AllClients, 'named' | 'views'>>;
    readonly version: string;
  },
): void {
  const elsewhere = async (caller: Caller, here: ReadonlyMap<string, unknown>): Promise<Elsewhere> => {
    const { named, views } = await deps.everyone();
    const isElsewhere = ([name, client]: Named): boolean =>
      client.instance !== deps.instance && client.awaySinceMs === null && !here.has(name) && isVisible(client, caller);
    return { clients: named.filter(isElsewhere), servers: views.map(({ instance }) => instance) };
  };
  const uptime = pythonDatetime(Date.now());
  const common = {
    method: 'GET',
    access: ['datasource', 'listener'],
    limited: 'own',
    tag: 'Statistics',
    scans: true,
  } as const;
  const off = { 501: { description: 'SYNC_STATISTICS_ENABLED is not set' } };

  addRoute(
    app,
    {
      ...common,
      path: '/statistics',
      summary: 'Clients and their topics',
      responses: { 200: { description: 'The clients of all server instances', schema: statistics }, ...off },
    },
    async ({ caller }) => {
      assertEnabled(options);
      const here = byClient(visible(deps.peers(), caller));
      const others = await elsewhere(caller, here);
      const clients = [...here].map(([id, peers]) => {
        const listed = peers.slice(0, options.maxChannelsPerClient);
        return [id, listed.map(({ rpcId, id: own, topics }) => ({ rpc_id: rpcId ?? own, client_id: id, topics }))];
      });
      const channels = others.clients.map(([id, client]) => [id, [channelElsewhere(id, client, caller)]]);
      const servers = [deps.instance, ...others.servers];
      return { uptime, version: deps.version, clients: Object.fromEntries([...clients, ...channels]), servers };
    },
  );

  addRoute(
    app,
    {
      ...common,
      path: '/stats',
      summary: 'How many clients and servers there are',
      responses: { 200: { description: 'The numbers', schema: brief }, ...off },
    },
    async ({ caller }) => {
      assertEnabled(options);
      const here = byClient(visible(deps.peers(), caller));
      const { clients, servers } = await elsewhere(caller, here);
      const counts = { client_count: here.size + clients.length, server_count: 1 + servers.length };
      return { uptime, version: deps.version, ...counts };
    },
  );

  addRoute(
    app,
    {
      ...common,
      path: '/pubsub_client_info',
      summary: 'The connections to the socket',
      responses: { 200: { description: 'By client', schema: z.record(z.string(), clientInfo) } },
    },
    ({ caller }) => {
      const clients = [...byClient(visible(deps.peers(), caller))];
      return Object.fromEntries(clients.map(([id, peers]) => [id, infoOf(id, peers)]));
    },
  );
}

type Named = AllClients['named'][number];

/** What other instances have. */
interface Elsewhere {
  readonly clients: readonly Named[];
  readonly servers: readonly string[];
}

/** Another instance tells of a client, not of each of its connections. */
function channelElsewhere(
  id: string,
  { key, topics }: Named[1],
  { permittedTopics }: Pick<Caller, 'permittedTopics'>,
): z.infer<typeof channel> {
  const rpc_id = createHash('sha256').update(key).digest('hex').slice(0, 32);
  return { rpc_id, client_id: id, topics: topics.filter((topic) => permittedTopics?.has(topic) ?? true) };
}

/** The text is OPAL's, with our name of the setting next to its own (opal-protocol P2.5). */
function assertEnabled({ statisticsEnabled }: Pick<ServerOptions, 'statisticsEnabled'>): void {
  if (statisticsEnabled) return;
  const text =
    'This server does not have statistics turned on. To turn on, set SYNC_STATISTICS_ENABLED=true (or OPAL_STATISTICS_ENABLED=true)';
  throw new SyncError('not_enabled', text, { detail: { error: text } });
}

/** The connections that a caller sees; limited to topics: those on one, without other topics. */
function visible(
  peers: readonly PeerInfo[],
  { permittedTopics }: Pick<Caller, 'permittedTopics'>,
): readonly PeerInfo[] {
  if (permittedTopics === undefined) return peers;
  return peers
    .map((peer) => ({ ...peer, topics: peer.topics.filter((topic) => permittedTopics.has(topic)), query: {} }))
    .filter(({ topics }) => topics.length > 0);
}

/**
 * Groups connections by client id, or by address without one (opal-protocol P1.6). An id belongs to
 * the subject that connected first with it; others are listed under a derived name.
 */
function byClient(peers: readonly PeerInfo[]): Map<string, PeerInfo[]> {
  const clients = new Map<string, PeerInfo[]>();
  for (const peer of peers) {
    const own = peer.clientId ?? `${peer.host}:${peer.port}`;
    const owner = clients.get(own)?.[0];
    const isForeign = owner !== undefined && owner.subject !== peer.subject;
    const key = clientKey({ kind: 'plain', subject: peer.subject, clientId: own });
    const id = isForeign ? derivedName({ clientId: own, key }) : own;
    const known = clients.get(id);
    if (known === undefined) clients.set(id, [peer]);
    else known.push(peer);
  }
  return clients;
}

function infoOf(id: string, peers: readonly PeerInfo[]): z.infer<typeof clientInfo> {
  const [first] = peers;
  return {
    client_id: id,
    source_host: first?.host ?? '?',
    source_port: first?.port ?? 0,
    connect_time: (first?.connectedAtMs ?? 0) / 1000,
    subscribed_topics: [...new Set(peers.flatMap(({ topics }) => topics))],
    refcount: peers.length,
    query_params: { ...first?.query },
  };
}
