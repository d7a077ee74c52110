import type { FastifyInstance } from 'fastify';
import * as z from 'zod';
import type { ResponseDeclaration } from '../../http/declared-route.js';
import { addRoute } from '../../http/route.js';
import { SyncError } from '../../lib/errors.js';
import type { Follower } from '../follow/follower.js';
import type { ClientSettings } from '../options.js';
import type { DataUpdater } from '../reconcile/data-updater.js';
import type { PolicyUpdater } from '../reconcile/policy-updater.js';

/** The parts that a trigger reaches. */
export interface TriggerDeps {
  readonly policy: Pick<PolicyUpdater, 'refetch'>;
  readonly data: Pick<DataUpdater, 'refresh'>;
  readonly follower: Pick<Follower, 'following'>;
}

const OK: ResponseDeclaration = { description: 'It is under way', schema: z.object({ status: z.literal('ok') }) };

/**
 * `POST /policy-updater/trigger` and `POST /data-updater/trigger` (opal-protocol P2.6): what an
 * operator uses after a repair. Unlike OPAL's they are for listeners only (opal-protocol P10.5).
 */
export function triggerRoutes(
  app: FastifyInstance,
  settings: Pick<ClientSettings, 'policyUpdaterEnabled' | 'dataUpdaterEnabled'>,
  { policy, data, follower }: TriggerDeps,
): void {
  const declared = { method: 'POST', access: ['listener'], limited: 'nothing', tag: 'Updates' } as const;

  function assertFollowing(isEnabled: boolean, disabledText: string): void {
    if (!isEnabled) throw new SyncError('updater_disabled', disabledText);
    if (!follower.following) {
      throw new SyncError('updater_disabled', 'The client is disconnected from the sync server.');
    }
  }

  addRoute(
    app,
    {
      ...declared,
      path: '/policy-updater/trigger',
      summary: 'Fetch the complete policy again',
      description:
        'Returns at once. Tries a refused commit again, too, and removes modules from the engine that are not of the policy.',
      responses: { 200: OK, 503: { description: 'The updater is disabled, or the client is disconnected' } },
    },
    () => {
      const disabledText = 'Policy Updater is currently disabled. Policy updates are not available.';
      assertFollowing(settings.policyUpdaterEnabled, disabledText);
      policy.refetch();
      return { status: 'ok' };
    },
  );
  addRoute(
    app,
    {
      ...declared,
      path: '/data-updater/trigger',
      summary: 'Read the data configuration again and fetch what it lists',
      description: 'Returns once the configuration was read; what it lists is fetched after that.',
      responses: {
        200: OK,
        502: { description: 'The sync server refused' },
        503: { description: 'The updater is disabled, or the sync server does not answer' },
      },
    },
    async () => {
      const disabledText = 'Data Updater is currently disabled. Dynamic data updates are not available.';
      assertFollowing(settings.dataUpdaterEnabled, disabledText);
      await data.refresh();
      return { status: 'ok' };
    },
  );
}
