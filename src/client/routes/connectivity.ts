import type { FastifyInstance } from 'fastify';
import * as z from 'zod';
import { addRoute } from '../../http/route.js';
import { SyncError } from '../../lib/errors.js';
import type { Offline } from '../offline/offline.js';

/** `Retry-After` of a client that is starting. */
const RETRY_AFTER_SECONDS = 1;

/** Our path and OPAL's, each with the name that its users read (opal-protocol P2.6). */
const FORMS = [
  { base: '/sync-server/connectivity', field: 'sync_server_connectivity_disabled', server: 'sync' },
  { base: '/opal-server/connectivity', field: 'opal_server_connectivity_disabled', server: 'OPAL' },
] as const;

const SUMMARIES = {
  enable: 'Follow the sync server again',
  disable: 'Stop following the sync server; the engine keeps serving, and a backup is saved',
} as const;

/**
 * `GET` of server connectivity, and the switches for it (specification "Client
 * server-connectivity").
 */
export function connectivityRoutes(
  app: FastifyInstance,
  { offline }: { offline: Pick<Offline, 'view' | 'enable' | 'disable'> },
): void {
  for (const { base, field, server } of FORMS) {
    const common = { access: ['listener'], tag: 'Connectivity' } as const;
    const shape = z.object({ [field]: z.boolean(), offline_mode_enabled: z.boolean() });
    addRoute(
      app,
      {
        ...common,
        limited: 'all',
        method: 'GET',
        path: base,
        summary: 'Whether the client follows the sync server',
        responses: { 200: { description: 'The current state', schema: shape } },
      },
      () => ({ [field]: offline.view.disabled, offline_mode_enabled: offline.view.offlineMode }),
    );
    for (const action of ['enable', 'disable'] as const) {
      addRoute(
        app,
        {
          ...common,
          limited: 'nothing',
          method: 'POST',
          path: `${base}/${action}`,
          summary: SUMMARIES[action],
          responses: {
            200: {
              description: 'Done, or already in that state',
              schema: z.object({ status: z.enum([`${action}d`, `already_${action}d`]) }),
            },
            400: { description: 'Offline mode is off' },
            503: { description: 'The client is being started' },
          },
        },
        async () => {
          const status = await offline[action]();
          if (status === 'offline_mode_off') {
            throw new SyncError(
              'offline_mode_off',
              `Cannot ${action} ${server} server connectivity: offline mode is not enabled`,
            );
          }
          if (status === 'starting') {
            throw new SyncError('client_starting', 'the client is being started', {
              retryAfterSeconds: RETRY_AFTER_SECONDS,
            });
          }
          return { status };
        },
      );
    }
  }
}
