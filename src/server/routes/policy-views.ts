import type { FastifyInstance } from 'fastify';
import * as z from 'zod';
import { addRoute } from '../../http/route.js';
import { SyncError } from '../../lib/errors.js';
import type { Logger } from '../../lib/observe/log.js';
import { viewOfSource } from '../policy/source/source.js';
import type { Tracker } from '../policy/source/tracker.js';
import type { PolicyViews } from '../policy/views/policy-views.js';

export interface PolicyViewsRoutesDeps {
  /** Undefined if no policy source is configured. */
  readonly views: PolicyViews | undefined;
  readonly tracker: Pick<Tracker, 'requestRefresh'> | undefined;
  readonly log: Logger;
}

const commit = z
  .string()
  .regex(/^[0-9a-fA-F]{7,64}$/, 'must be a commit: 7 to 64 hexadecimal digits')
  .optional();

const refreshAnswer = z.object({ status: z.literal('ok') });

const ABOUT = { access: ['datasource', 'listener'], limited: 'all', tag: 'Policy', scans: true } as const;
/** Whoever may fetch bundles may read what is in them. */
const VISIBLE = 'Policy is not limited by `permitted_topics`: every valid token reads it, as in `GET /policy`.';
const UNKNOWN = 'The commit is not in the history of the branch as the server has it';
const NOT_READY = 'No commit is served yet, or no policy source is configured';

/** `GET /policy/source`, `/policy/files`, `/policy/diff`, `POST /policy/refresh`, for people. */
export function policyViewsRoutes(app: FastifyInstance, deps: PolicyViewsRoutesDeps): void {
  viewRoutes(app, deps.views);
  refreshRoute(app, deps);
}

function viewRoutes(app: FastifyInstance, views: PolicyViews | undefined): void {
  addRoute(
    app,
    {
      ...ABOUT,
      limited: 'own',
      method: 'GET',
      path: '/policy/source',
      summary: 'The policy source: last look, and the newest commits of the branch',
      description: VISIBLE,
      responses: {
        200: {
          description: 'The source and its commits',
          schema: async () => (await import('../../wire/fleet-views.js')).policySourceAnswer,
        },
      },
    },
    async () => (await views?.source()) ?? NO_SOURCE,
  );
  addRoute(
    app,
    {
      ...ABOUT,
      method: 'GET',
      path: '/policy/files',
      summary: 'The modules and data files of a commit, in load order',
      description: `The files that bundles have, without their contents. ${VISIBLE}`,
      query: z.object({ at: commit.describe('Default: the commit that is served') }),
      responses: {
        200: {
          description: 'The files',
          schema: async () => (await import('../../wire/fleet-views.js')).policyFilesAnswer,
        },
        404: { description: UNKNOWN },
        503: { description: NOT_READY },
      },
    },
    async ({ query, reply }) => reply.type('application/json').send(await some(views).files(query.at)),
  );
  addRoute(
    app,
    {
      ...ABOUT,
      method: 'GET',
      path: '/policy/diff',
      summary: 'What differs between two commits',
      description: `In the files that bundles have, and in manifests: nothing else of the repository is shown. ${VISIBLE}`,
      query: z.object({
        from: commit.describe('Default: the commit before `to`'),
        to: commit.describe('Default: the commit that is served'),
      }),
      responses: {
        200: {
          description: 'Files and lines',
          schema: async () => (await import('../../wire/fleet-views.js')).policyDiffAnswer,
        },
        404: { description: UNKNOWN },
        503: { description: NOT_READY },
      },
    },
    async ({ query, reply }) => reply.type('application/json').send(await some(views).diff(query.from, query.to)),
  );
}

function refreshRoute(app: FastifyInstance, { tracker, log }: PolicyViewsRoutesDeps): void {
  addRoute(
    app,
    {
      method: 'POST',
      path: '/policy/refresh',
      access: ['datasource'],
      limited: 'all',
      tag: 'Policy',
      summary: 'Look at the policy source now',
      description: 'Responds before the look. Requests during one look share the next.',
      responses: {
        200: { description: 'The server looks', schema: refreshAnswer },
        503: { description: 'No policy source is configured' },
      },
    },
    ({ caller }) => {
      if (tracker === undefined) throw noSource();
      tracker.requestRefresh();
      log.info({ subject: caller.subject }, 'a look at the policy source was asked for');
      return { status: 'ok' };
    },
  );
}

const NO_SOURCE = {
  ...{ type: 'none', source: null, branch: null, status: viewOfSource(undefined) },
  ...{ last_look: null, last_look_result: null, commits: [] },
};

function some(views: PolicyViews | undefined): PolicyViews {
  if (views === undefined) throw noSource();
  return views;
}

function noSource(): SyncError {
  const text = 'SYNC_POLICY_REPO_URL is not set: this server serves no policy';
  return new SyncError('policy_not_ready', text);
}
