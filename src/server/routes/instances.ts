import type { FastifyInstance } from 'fastify';
import { isPermittedPath } from '../../auth/authorize.js';
import { limitsOf } from '../../auth/caller.js';
import { addRoute } from '../../http/route.js';
import { parseDocPath } from '../../wire/doc-path.js';
import type { InstancesAnswer } from '../../wire/fleet-views.js';
import { LATENCY_BUCKETS } from '../../wire/latency-buckets.js';
import type { NamedBudget } from '../budgets.js';
import { type ClientLimits, isVisible } from '../clients/client-view.js';
import { type Durability, isBackboneAway } from '../log/log-store.js';
import type { FoldedEntry, FoldReader, LogHealth } from '../log/update-log.js';
import type { AllClients } from '../peers/all-clients.js';
import type { Instances } from '../peers/instances.js';
import { isShown } from './paging.js';

export interface InstancesRoutesDeps {
  readonly log: FoldReader & LogHealth;
  readonly instances: Pick<Instances, 'list' | 'hours'>;
  /** The clients of all instances, and the announcements of the others. */
  readonly everyone: () => Promise<AllClients>;
  /** Kind of the backbone; none: the log is a file of this server. */
  readonly backbone: string;
  /** What callers of this instance have under way. */
  readonly budgets: () => readonly NamedBudget[];
}

type Extent = Awaited<ReturnType<LogHealth['extent']>>;

/** The store is asked for its size at most so often. */
const EXTENT_AGE_MS = 10_000;

/**
 * `GET /instances`: the server instances, the log that they share, and their last hour
 * (docs/reference/fleet-api.md).
 */
export function instancesRoutes(
  app: FastifyInstance,
  { log, instances, everyone, backbone, budgets }: InstancesRoutesDeps,
): void {
  const extent = remembered(() => log.extent());
  addRoute(
    app,
    {
      method: 'GET',
      path: '/instances',
      access: ['datasource', 'listener'],
      limited: 'own',
      tag: 'Statistics',
      summary: 'The server instances, their update log, and their last hour',
      description: 'For a limited token: clients and documents that it may see, and no hours, which count everybody.',
      responses: {
        200: {
          description: 'All instances',
          schema: async () => (await import('../../wire/fleet-views.js')).instancesAnswer,
        },
      },
    },
    async ({ caller }): Promise<InstancesAnswer> => {
      const [all, { beginsAt, bytes }] = await Promise.all([everyone(), extent()]);
      const { views } = all;
      const limits = limitsOf(caller);
      const isPermitted = ({ entry, path = parseDocPath(entry.dst_path) }: FoldedEntry): boolean =>
        isShown(entry.topics, limits.permittedTopics, undefined) && isPermittedPath(path, limits.permittedPaths);
      const isLive = (one: FoldedEntry): boolean =>
        one.entry.save_method !== 'DELETE' && (!limits.isLimited || isPermitted(one));
      const listed = instances.list(views);
      const hours = instances.hours(views);
      return {
        backbone,
        durability: durabilityText(log.durability, backbone),
        instances: limits.isLimited ? withVisible(listed, all, limits) : listed,
        incomplete: all.unheard,
        log: {
          epoch: log.epoch,
          head: log.head,
          begins_at: beginsAt,
          documents: log.fold().filter(isLive).length,
          bytes: limits.isLimited ? null : (bytes ?? null),
        },
        buckets: [...LATENCY_BUCKETS],
        // They count what everybody does.
        budgets: limits.isLimited
          ? []
          : budgets().map(({ perToken, perAddress, ...budget }) => ({
              ...budget,
              ...{ per_token: perToken, per_address: perAddress },
            })),
        hours: limits.isLimited ? hours.map((hour) => ({ ...hour, points: [] })) : hours,
      };
    },
  );
}

/** Instances with the clients that the caller sees. */
function withVisible(
  instances: InstancesAnswer['instances'],
  { named }: AllClients,
  limits: ClientLimits,
): InstancesAnswer['instances'] {
  const visible = named.map(([, client]) => client).filter((client) => isVisible(client, limits));
  const at = (instance: string): number =>
    visible.filter((client) => client.awaySinceMs === null && client.instance === instance).length;
  return instances.map((one) => ({ ...one, clients: at(one.instance) }));
}

function durabilityText(durability: Durability, backbone: string): InstancesAnswer['durability'] {
  const { level } = durability;
  if (level === 'weak') return { kind: level, text: `An acknowledged update may be lost: ${durability.reason}.` };
  const disk = backbone === 'none' ? 'this server' : 'the backbone';
  return { kind: level, text: `An update is on the disk of ${disk} before it is acknowledged.` };
}

/** Asks again after a while. Without the backbone: the last answer, or an empty one. */
function remembered(ask: () => Promise<Extent>): () => Promise<Extent> {
  let known: Extent = { beginsAt: 0, bytes: undefined };
  let asking: { readonly atMs: number; readonly answer: Promise<Extent> } | undefined;
  const next = async (): Promise<Extent> => {
    try {
      known = await ask();
    } catch (error) {
      if (!isBackboneAway(error)) throw error;
      asking = undefined;
    }
    return known;
  };
  return () => {
    if (asking === undefined || performance.now() - asking.atMs > EXTENT_AGE_MS) {
      asking = { atMs: performance.now(), answer: next() };
    }
    return asking.answer;
  };
}
