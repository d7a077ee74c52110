import { chosenClients } from '../clients/chosen-clients.js';
import { type ViewDeps, viewOf } from '../clients/client-view.js';
import type { KnownClient } from '../clients/known-client.js';
import { OTHERS_AGE_MS } from './all-clients.js';
import { COUNTED_AS } from './instance-presence.js';
import type { PeerInstances } from './peer-instances.js';

/** All but `away` count connected clients. Over all instances a client that is away counts once. */
export interface ClientCounts {
  readonly connected: number;
  readonly plain: number;
  readonly away: number;
  readonly unhealthy: number;
  readonly lagging: number;
  readonly maxLagUpdates: number;
  readonly maxLagSeconds: number;
}

interface ClientCountsDeps extends ViewDeps {
  /** Id of this instance. */
  readonly instance: string;
  /** Its clients. */
  readonly clients: () => readonly KnownClient[];
  readonly instances: Pick<PeerInstances, 'others' | 'lastRead'>;
}

/** Counts the clients here by state. Of other instances it knows what the last call read. */
export function clientCounts(deps: ClientCountsDeps): ClientCounts {
  const clients = deps.clients();
  const about = { name: '', connected: 1, policyHead: null };
  const here = clients.filter(({ awaySinceMs }) => awaySinceMs === null).map((client) => viewOf(client, about, deps));
  void deps.instances.others(OTHERS_AGE_MS);
  return {
    connected: here.filter(({ kind }) => kind === 'session').length,
    plain: here.filter(({ kind }) => kind === 'plain').length,
    away: countAway(clients, deps),
    unhealthy: here.filter(({ healthy }) => healthy === false).length,
    lagging: here.filter(({ data }) => (data.lag_updates ?? 0) > 0).length,
    maxLagUpdates: Math.max(0, ...here.map(({ data }) => data.lag_updates ?? 0)),
    maxLagSeconds: Math.max(0, ...here.map(({ data }) => data.lag_seconds ?? 0)),
  };
}

/**
 * The clients that are away and that this instance counts: those that it saw last and, for all
 * instances together the one with the first name, those of instances that have ended or are not
 * heard any more.
 */
function countAway(own: readonly KnownClient[], { instance, instances }: ClientCountsDeps): number {
  const others = instances.lastRead.instances;
  const isFirst = others.every((one) => COUNTED_AS[one.state] !== 'as_said' || instance < one.instance);
  const leftBehind = new Set(others.flatMap(({ instance: id, state }) => (COUNTED_AS[state] === 'away' ? [id] : [])));
  const counted = [...chosenClients([own, ...others.map(({ clients }) => clients)]).values()].filter(
    (client) =>
      client.awaySinceMs !== null &&
      !client.saidGoodbye &&
      (client.instance === instance || (isFirst && leftBehind.has(client.instance))),
  );
  return counted.length;
}
