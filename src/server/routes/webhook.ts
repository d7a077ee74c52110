import type { FastifyInstance } from 'fastify';
import * as z from 'zod';
import { addRoute } from '../../http/route.js';
import { failureFields, type SyncError } from '../../lib/errors.js';
import { type Logger, redactUrl, type Secret } from '../../lib/observe/log.js';
import { commitProblem } from '../../wire/commit-problem.js';
import { insider } from '../../wire/insider.js';
import type { NamedCommit } from '../policy/source/awaited-commit.js';
import {
  type FollowedBranch,
  followedBranch,
  judgeWebhook,
  parsePayload,
  pushedCommit,
} from '../policy/webhook/judge.js';
import { WEBHOOK_PRESETS, type WebhookParams } from '../policy/webhook/params.js';
import { createSecretCheck } from '../policy/webhook/verify.js';

export interface WebhookRouteOptions {
  /** SYNC_POLICY_SOURCE_TYPE: a git service proves itself by secret, others by token. */
  sourceType: 'GIT' | 'API';
  /** Address of the policy source; undefined if none is configured. */
  sourceUrl: string | undefined;
  /** SYNC_POLICY_REPO_MAIN_BRANCH; undefined: the default branch of the repository. */
  branch: string | undefined;
  /** SYNC_POLICY_REPO_WEBHOOK_SECRET. */
  secret: Secret | undefined;
  /** SYNC_POLICY_REPO_WEBHOOK_PARAMS; undefined: those of GitHub. */
  params: WebhookParams | undefined;
  /** SYNC_POLICY_REPO_WEBHOOK_ENFORCE_BRANCH. */
  enforceBranch: boolean;
}

export interface WebhookRouteDeps {
  /** Requests a refresh of the source, which should show the named commit; does not wait. */
  requestRefresh(named?: NamedCommit): void;
  /** The same, and waits for its end, at most for so long. */
  refreshWithin(ms: number, named?: NamedCommit): Promise<unknown>;
  /** The default branch of the repository, as far as it is known. */
  defaultBranch(): string | undefined;
  /** The commit that is served. */
  head(): string | undefined;
  /** The commit of the source, if it is refused. */
  refused(): RefusedCommit | undefined;
  log: Logger;
}

/** Maximum payload of anybody. */
const WEBHOOK_LIMIT_BYTES = 5 * 1024 * 1024;
/** Of a git service that has a secret with the server: the largest that GitHub sends. */
const LARGE_WEBHOOK_BYTES = 25 * 1024 * 1024;
/** Git services give up after ten seconds. */
const MAX_WAIT_SECONDS = 10;

const webhookQuery = z.object({
  wait: z.coerce
    .number()
    .min(0)
    .max(MAX_WAIT_SECONDS)
    .default(0)
    .describe(
      'Seconds to wait for the commit to be fetched and checked, so that the response says whether it is refused',
    ),
});
const refusedCommit = z.object({ commit: z.string(), error: z.string(), problems: z.array(commitProblem) });
type RefusedCommit = z.infer<typeof refusedCommit>;

const outcome = z.union([
  z.object({
    status: z.literal('ok'),
    event: z.string(),
    repo_url: insider(z.string()),
    commit: z.string().optional().describe('The commit that the payload names as head of the followed branch'),
    served: z
      .boolean()
      .optional()
      .describe('Whether that is served now; otherwise it is looked for, see policy.awaited of GET /healthcheck'),
    refused: insider(refusedCommit).describe('The head of the source, if it is refused as far as is known now'),
  }),
  z.object({ status: z.literal('ignored'), event: z.string() }),
]);

/**
 * `POST /webhook` (specification "Sync server"; opal-protocol P2.4): refreshes the policy source.
 * Responds before the refresh, so that a hanging remote does not delay the git service. Rejects
 * with `config_invalid` for an invalid regular expression.
 */
export async function webhookRoutes(
  app: FastifyInstance,
  options: WebhookRouteOptions,
  deps: WebhookRouteDeps,
): Promise<void> {
  if (options.sourceType === 'API') bundleWebhook(app, options, deps);
  else await gitWebhook(app, options, deps);
}

async function gitWebhook(app: FastifyInstance, options: WebhookRouteOptions, deps: WebhookRouteDeps): Promise<void> {
  const { secret, sourceUrl } = options;
  const { log } = deps;
  const params = options.params ?? WEBHOOK_PRESETS.github;
  const { branch, enforceBranch } = options;
  const followed = (): FollowedBranch => ({ named: branch, byDefault: deps.defaultBranch() });
  const secretCheck = await createSecretCheck(params, secret);
  addRoute(
    app,
    {
      method: 'POST',
      path: '/webhook',
      access: 'everyone',
      strangers: 'words',
      insiders: ['datasource', 'listener'], // git services have no token; the secret authenticates them
      tag: 'Policy',
      summary: 'Webhook of a git service',
      description: 'A push to the followed repository triggers a fetch. Secret and event are read as configured.',
      query: webhookQuery,
      body: z.record(z.string(), z.unknown()),
      rawBody: true,
      bodyLimitBytes: WEBHOOK_LIMIT_BYTES,
      ...(secret !== undefined && { largeBodyBytes: LARGE_WEBHOOK_BYTES }),
      screen: ({ headers }) => secretCheck.screen(headers),
      onRefused: createRefusalLog(log),
      responses: {
        200: { description: 'Accepted or ignored; null for a push to another branch', schema: outcome.nullable() },
        400: { description: 'The payload names no repository' },
        401: { description: 'The secret is missing or wrong' },
        415: { description: 'The body is in an unknown charset' },
        422: { description: 'The body is not a JSON object' },
      },
    },
    async ({ query, request, reply, raw }) => {
      secretCheck.check(request.headers, raw);
      if (secret !== undefined) request.isInsider = true;
      const payload = parsePayload(request.headers['content-type'], raw, secret !== undefined);
      const { kind, event, reason } = judgeWebhook(
        { params, repoUrl: sourceUrl, branch: followed(), enforceBranch },
        request.headers,
        payload,
      );
      const named = kind === 'push' ? pushedCommit(payload, followedBranch(payload, followed())) : undefined;
      if (kind === 'push') {
        await look(deps, query.wait, named);
        log.info({ event, commit: named?.hash }, 'webhook: the policy repository is refreshed');
      } else log.info({ event, reason }, 'webhook ignored');
      if (kind === 'other-branch') return reply.type('application/json').send('null');
      if (kind === 'other-repository' || sourceUrl === undefined) return { status: 'ignored', event };
      const commit = named && { commit: named.hash, served: named.hash === deps.head() };
      return { status: 'ok', event, repo_url: redactUrl(sourceUrl), ...commit, ...refusal(deps) };
    },
  );
}

/** The webhook of a bundle server. Ignores the body. */
function bundleWebhook(app: FastifyInstance, { sourceUrl }: WebhookRouteOptions, deps: WebhookRouteDeps): void {
  const event = 'webhook_trigger';
  addRoute(
    app,
    {
      method: 'POST',
      path: '/webhook',
      access: ['datasource'],
      limited: 'own',
      tag: 'Policy',
      summary: 'Download the policy bundle',
      query: webhookQuery,
      rawBody: true,
      bodyLimitBytes: WEBHOOK_LIMIT_BYTES,
      onRefused: createRefusalLog(deps.log),
      responses: { 200: { description: 'Accepted', schema: outcome } },
    },
    async ({ query }) => {
      if (sourceUrl === undefined) return { status: 'ignored', event };
      await look(deps, query.wait);
      deps.log.info({ event }, 'webhook: the bundle server is refreshed');
      return { status: 'ok', event, repo_url: redactUrl(sourceUrl), ...refusal(deps) };
    },
  );
}

async function look(deps: WebhookRouteDeps, waitSeconds: number, named?: NamedCommit): Promise<void> {
  if (waitSeconds === 0) deps.requestRefresh(named);
  else await deps.refreshWithin(waitSeconds * 1000, named);
}

function refusal({ refused }: WebhookRouteDeps): { refused?: RefusedCommit } {
  const commit = refused();
  return commit === undefined ? {} : { refused: commit };
}

/** Minimum time between two lines, so that callers cannot flood the log. */
const QUIET_MS = 1_000;

/**
 * Logs refused webhooks with their reason, at most one line per second; the next line counts those
 * left out. Of the request it logs only the error: never the secret, nor the value sent for it.
 */
export function createRefusalLog(log: Pick<Logger, 'warn'>, now: () => number = Date.now): (error: SyncError) => void {
  let loggedMs = Number.NEGATIVE_INFINITY;
  let leftOut = 0;
  return (error) => {
    if (now() - loggedMs < QUIET_MS) {
      leftOut++;
      return;
    }
    log.warn({ ...failureFields(error), ...(leftOut > 0 && { left_out: leftOut }) }, 'webhook refused');
    [loggedMs, leftOut] = [now(), 0];
  };
}
