import type { FastifyInstance } from 'fastify';
import * as z from 'zod';
import { consumeRateLimit } from '../../http/request-guards.js';
import { addRoute } from '../../http/route.js';
import { FairRate } from '../../lib/run/fair-rate.js';
import type { Rate } from '../../lib/run/rate.js';
import type { CutOff } from '../clients/lease.js';
import type { FailingFile } from '../clients/state-files.js';
import type { LogMemory } from '../log/log-memory.js';
import type { RefusedWrites, StoreStatus } from '../log/log-store.js';
import type { LogHealth } from '../log/update-log.js';
import { clockError } from '../peers/clock-watch.js';
import { type PolicySourceStatus, viewOfSource } from '../policy/source/source.js';

export interface HealthDeps {
  /** Undefined if no policy source is configured. */
  policySource: { status(): PolicySourceStatus } | undefined;
  log: LogHealth;
  /** The files beside the log that cannot be written. */
  stateFiles: { readonly failing: readonly FailingFile[] };
  /** Whether the log is in a backbone. */
  isShared: boolean;
  /** Since when the backbone has not answered this instance; undefined: it does. */
  cutOff: () => CutOff | undefined;
}

const LOG_FAILED = 'the update log has failed; see the server log';

/** For the OpenAPI document, and for callers that are not told everything. */
async function healthAnswer() {
  const [{ sourceView }, { insider }, { refusedFromBytes }] = await Promise.all([
    import('../../wire/clients.js'),
    import('../../wire/insider.js'),
    import('../../wire/refused-updates.js'),
  ]);
  return z.object({
    status: z
      .enum(['ok', 'degraded', 'error'])
      .describe(
        'degraded: serves the last good state; the policy source fails, the backbone is unavailable, something cannot be written, or memory is short',
      ),
    policy: sourceView,
    update_log: z.object({
      epoch: z.string(),
      head: z.number(),
      durability: z.enum(['durable', 'weak']).describe('weak: acknowledged updates may be lost on a power failure'),
      weakness: insider(z.string()).describe('Why the durability is weak'),
      backbone: z
        .object({
          ...{ up: z.boolean(), since: z.string().optional(), reason: insider(z.string()) },
          clock: insider(z.string()).describe('How its clock and that of this server differ, where they do'),
        })
        .optional()
        .describe('With a shared log: whether it can be reached, or since when and why not'),
      refuses: z
        .object({ since: z.string(), reason: insider(z.string()), from_bytes: refusedFromBytes })
        .optional()
        .describe('The log refuses updates: they get 507, all else goes on. Missing: it takes them'),
      memory: z
        .object({
          fit: z.enum(['tight', 'exceeds']),
          ...{ entries: insider(z.number()), bytes: insider(z.number()), limit_bytes: insider(z.number()) },
        })
        .optional()
        .describe(
          'What the live entries take of the memory that there is for them, about, where that is most of it (tight) or more than all. Missing: they fit',
        ),
      config_differs: z.literal(true).optional().describe('The base entries of a newer configuration are in use'),
      error: z.literal(LOG_FAILED).optional(),
    }),
    state_files: z
      .array(z.object({ file: insider(z.string()), since: z.string(), reason: insider(z.string()) }))
      .optional()
      .describe('Files beside the log that cannot be written: what they would keep is lost with a restart'),
  });
}

/**
 * `GET /healthcheck`, open to everyone: `{"status":"ok", ...}` with the state of the policy source
 * and the position of the update log. A failing policy source, a refused commit, an unavailable
 * backbone, a disk that takes no more or a log that hardly fits the memory makes it `degraded` with
 * 200: the last good state is served, and a restart would only make things worse. A failed update
 * log returns 503 `{"status":"error", ...}`, since only a restart helps.
 */
export function serverHealthRoutes(app: FastifyInstance, deps: HealthDeps): void {
  let logFailure: typeof LOG_FAILED | undefined;
  deps.log.failed?.catch(() => {
    // The reason contains the folder's path and must not appear in a public response.
    logFailure = LOG_FAILED;
  });
  const declaration = {
    method: 'GET',
    path: '/healthcheck',
    access: 'everyone',
    strangers: 'words',
    insiders: ['datasource', 'listener'],
    tag: 'Health',
    summary: 'Whether the server can do its job',
    responses: {
      200: { description: 'It can', schema: healthAnswer },
      503: { description: 'It cannot until it is restarted', schema: healthAnswer },
    },
  } as const;
  addRoute(app, declaration, ({ reply }) => {
    if (logFailure !== undefined) reply.code(503);
    const policy = viewOfSource(deps.policySource?.status());
    const { log, isShared, stateFiles } = deps;
    const { durability, writes, memory } = log;
    const { failing } = stateFiles;
    const backbone = backboneState(log.status, deps.cutOff());
    const isWorking = backbone.up && policy.error == null;
    const isWell = isWorking && writes.ok && failing.length === 0 && memory.fit === 'fits';
    return {
      status: logFailure !== undefined ? 'error' : isWell ? 'ok' : 'degraded',
      policy,
      update_log: {
        epoch: log.epoch,
        head: log.head,
        durability: durability.level,
        ...(durability.level === 'weak' && { weakness: durability.reason }),
        ...(isShared && { backbone: { ...backbone, ...clockState(log.clockAheadMs) } }),
        ...(!writes.ok && { refuses: refusalOf(writes) }),
        ...(memory.fit !== 'fits' && { memory: memoryState(memory) }),
        ...(log.configDiffers && { config_differs: true }),
        ...(logFailure !== undefined && { error: logFailure }),
      },
      ...(failing.length > 0 && {
        state_files: failing.map(({ file, reason, sinceMs }) => ({ file, since: isoTime(sinceMs), reason })),
      }),
    };
  });
}

function refusalOf({ sinceMs, reason, fromBytes }: RefusedWrites): object {
  return { since: isoTime(sinceMs), reason, ...(fromBytes !== undefined && { from_bytes: fromBytes }) };
}

function memoryState({ fit, entries, bytes, limitBytes }: LogMemory): object {
  return { fit, entries, bytes, limit_bytes: limitBytes };
}

function isoTime(ms: number): string {
  return new Date(ms).toISOString();
}

/** A connection that hangs shows by the silence first. */
function backboneState(
  status: StoreStatus,
  cutOff: CutOff | undefined,
): { up: boolean; since?: string; reason?: string } {
  if (status.up && cutOff === undefined) return { up: true };
  const sinceMs = Math.min(...(status.up ? [] : [status.sinceMs]), cutOff?.sinceMs ?? Number.POSITIVE_INFINITY);
  const reason = status.up ? 'it does not answer' : status.reason;
  return { up: false, since: isoTime(sinceMs), reason };
}

function clockState(aheadMs = 0): { clock?: string } {
  const error = clockError(aheadMs);
  return error === undefined ? {} : { clock: error.message };
}

/** `GET /`: liveness, open to everyone (opal-protocol P2.1; design D36). */
export function rootRoutes(app: FastifyInstance): void {
  addRoute(
    app,
    {
      method: 'GET',
      path: '/',
      access: 'everyone',
      strangers: 'all',
      tag: 'Health',
      summary: 'Liveness of the process',
      responses: { 200: { description: 'The process responds', schema: z.object({ status: z.literal('ok') }) } },
    },
    () => ({ status: 'ok' }),
  );
}

/**
 * `GET /loadlimit` (opal-protocol P2.1): clients with SYNC_WAIT_ON_SERVER_LOAD call it before they
 * start, so that all clients together start at the configured rate, of which each token (without
 * authentication: each address) may use its part. Returns 200 `null`, or 429 with `Retry-After`.
 */
export function loadLimitRoutes(app: FastifyInstance, options: { clientLoadLimit: Rate | 'none' }): void {
  const limit = options.clientLoadLimit === 'none' ? undefined : new FairRate(options.clientLoadLimit);
  addRoute(
    app,
    {
      method: 'GET',
      path: '/loadlimit',
      access: 'token',
      limited: 'all',
      tag: 'Health',
      summary: 'Whether one more client may start now',
      responses: { 200: { description: 'It may', schema: z.null() }, 429: { description: 'Not yet; see Retry-After' } },
    },
    ({ request, reply }) => {
      const { subject, address } = app.holderOf(request);
      if (limit !== undefined) consumeRateLimit(limit, subject ?? address);
      return reply.type('application/json').send('null');
    },
  );
}
