import type { FastifyInstance } from 'fastify';
import * as z from 'zod';
import { type AnswerDeclaration, addRoute } from '../../http/route.js';
import { SyncError } from '../../lib/errors.js';

/** What the triggers set off. */
export interface TriggerDeps {
  /** Asks for the complete policy; undefined where the policy updater is disabled. */
  readonly refetchPolicy: (() => void) | undefined;
  /** Reads the data configuration again; undefined where the data updater is disabled. */
  readonly refreshData: (() => Promise<void>) | undefined;
  /** False while the client is disconnected from the sync server. */
  readonly following: () => boolean;
}

const OK: AnswerDeclaration = { description: 'It is under way', schema: z.object({ status: z.literal('ok') }) };
const DISABLED: AnswerDeclaration = { description: 'The updater is disabled, or the client is disconnected' };

/**
 * `POST /policy-updater/trigger` and `POST /data-updater/trigger` (opal-protocol P2.6): what an operator uses after a
 * repair. Unlike OPAL's they are for listeners only (opal-protocol P10.5).
 */
export function triggerRoutes(app: FastifyInstance, deps: TriggerDeps): void {
  addRoute(
    app,
    {
      method: 'POST',
      path: '/policy-updater/trigger',
      access: ['listener'],
      tag: 'Updates',
      summary: 'Fetch the complete policy again',
      description:
        'Answers at once. A commit that was refused is tried again, too; modules in the engine that are not of the policy go.',
      answers: { 200: OK, 503: DISABLED },
    },
    () => {
      const { refetchPolicy } = deps;
      if (refetchPolicy === undefined) {
        throw disabled('Policy Updater is currently disabled. Policy updates are not available.');
      }
      assertFollowing(deps);
      refetchPolicy();
      return { status: 'ok' };
    },
  );
  addRoute(
    app,
    {
      method: 'POST',
      path: '/data-updater/trigger',
      access: ['listener'],
      tag: 'Updates',
      summary: 'Read the data configuration again and fetch what it lists',
      description: 'Answers when the configuration was read; what it lists is fetched after that.',
      answers: {
        200: OK,
        502: { description: 'The sync server refused' },
        503: { description: 'The updater is disabled, or the sync server does not answer' },
      },
    },
    async () => {
      const { refreshData } = deps;
      if (refreshData === undefined) {
        throw disabled('Data Updater is currently disabled. Dynamic data updates are not available.');
      }
      assertFollowing(deps);
      await refreshData();
      return { status: 'ok' };
    },
  );
}

function assertFollowing({ following }: TriggerDeps): void {
  if (!following()) throw disabled('The client is disconnected from the sync server.');
}

function disabled(message: string): SyncError {
  return new SyncError('updater_disabled', message);
}
