import type { FastifyInstance } from 'fastify';
import * as z from 'zod';
import { type AnswerDeclaration, addRoute } from '../../http/route.js';
import { docPathText } from '../../wire/doc-path.js';
import { FAILURE_KINDS } from '../../wire/session.js';
import type { DriftState } from '../drift/drift-check.js';
import type { ServerState } from '../follower.js';
import type { HealthWriterState } from '../health/health-writer.js';
import type { Offline } from '../offline/offline.js';
import type { DataUpdater } from '../reconcile/data-updater.js';
import type { PolicyUpdater } from '../reconcile/policy-updater.js';
import type { ReporterDetails } from '../report/reporter.js';
import type { Status } from '../status/status.js';
import type { TransactionResult } from '../status/transactions.js';

/** What the health routes tell about. */
export interface HealthRoutesDeps {
  readonly status: Status;
  readonly policy: Pick<PolicyUpdater, 'hash'>;
  readonly data: Pick<DataUpdater, 'logPosition' | 'orphans'>;
  /** Comparison with the engine; undefined where it is off. */
  readonly drift: () => DriftState | undefined;
  readonly server: () => Pick<ServerState, 'connected' | 'error' | 'code' | 'sinceMs'>;
  /** What the engine is, beside whether it answers. */
  readonly engine: () => EngineFacts;
  readonly offline: Pick<Offline, 'view'>;
  readonly reports: () => ReporterDetails;
  /** How the health document in the engine stands; undefined where it is not asked for. */
  readonly healthDocument: () => HealthWriterState | undefined;
}

const engineFacts = z.object({
  policy_mode: z.string(),
  access: z
    .enum(['token', 'open', 'own', 'external'])
    .describe(
      'token: this client alone writes; open: everybody does; own: by the configuration of OPA; external: not ours',
    ),
  version: z.string().nullable().describe('Of an inline OPA, once it was found'),
  rego: z
    .object({ mode: z.enum(['auto', 'v0', 'v1']), v0: z.number(), v1: z.number() })
    .nullable()
    .describe('How many modules of an inline OPA are read as which version of Rego'),
  getting: z
    .string()
    .nullable()
    .describe('What is done to get the OPA program, with its progress; null once it is there'),
});
type EngineFacts = z.infer<typeof engineFacts>;

const lastTransaction = z
  .object({
    id: z.string(),
    success: z.boolean(),
    error: z.string(),
    actions: z.array(z.string()),
    at: z.string(),
  })
  .nullable();

/** Why it is as it is: the same for healthy and unhealthy, beside the fields that OPAL's users read. */
const details = {
  ready: z.boolean(),
  healthy: z.boolean(),
  policy: z.object({
    hash: z.string().nullable().describe('The commit that the engine holds'),
    wanted: z.string().nullable().describe('The newest commit that the client has heard of'),
    error: z
      .object({ message: z.string(), file: z.string().nullable(), line: z.number().nullable() })
      .nullable()
      .describe('Why the wanted commit is not in'),
    since: z.string().nullable().describe('Since when that fails, or the commit is held'),
    last_transaction: lastTransaction,
  }),
  data: z.object({
    last_transaction: lastTransaction,
    failing: z
      .array(z.object({ path: z.string(), error: z.string(), kind: z.enum(FAILURE_KINDS), since: z.string() }))
      .describe('The oldest 50, with texts of at most 500 characters'),
    failing_total: z.number(),
    /** Documents that no log and no configuration has any more; POST /orphans/prune removes them. */
    orphaned: z.array(z.string()),
    epoch: z.string().nullable(),
    applied_through: z.number().nullable(),
    unresolved: z.number(),
    drift: z
      .object({
        checked_at: z.string().nullable(),
        documents: z.number(),
        repaired: z.number(),
        error: z.string().nullable(),
      })
      .nullable(),
  }),
  engine: z.object({ online: z.boolean(), error: z.string().nullable(), since: z.string(), ...engineFacts.shape }),
  server: z.object({
    connected: z.boolean(),
    error: z.string().nullable(),
    code: z.string().nullable().describe('The code of that error (docs/errors.md)'),
    since: z.string(),
  }),
  connectivity: z.object({
    sync_server_connectivity_disabled: z.boolean(),
    offline_mode_enabled: z.boolean(),
    backup: z
      .object({ saved_at: z.string().nullable(), age_seconds: z.number().nullable(), error: z.string().nullable() })
      .nullable(),
  }),
  reports: z.object({
    enabled: z.boolean(),
    registered: z.number(),
    queued: z.number(),
    delivered: z.number(),
    failed: z.number(),
    dropped: z.number(),
    last_error: z.string().nullable(),
  }),
  health_document: z.object({ written: z.boolean(), error: z.string().nullable() }).optional(),
};

const UNAVAILABLE: AnswerDeclaration = {
  description: 'It is not; the fields say why',
  schema: z.object({ status: z.literal('unavailable'), ...details }),
};

/** `GET /`, `/healthy`, `/healthcheck` and `/ready` (specification "Health states"; opal-protocol P2.6). */
export function healthRoutes(app: FastifyInstance, deps: HealthRoutesDeps): void {
  const { status } = deps;

  for (const path of ['/', '/healthy', '/healthcheck']) {
    addRoute(
      app,
      {
        method: 'GET',
        path,
        access: 'everyone',
        tag: 'Health',
        summary: 'Whether policy and data are current and the engine answers',
        answers: {
          200: {
            description: 'Healthy',
            schema: z.object({ status: z.literal('ok'), online: z.boolean(), ...details }),
          },
          503: UNAVAILABLE,
        },
      },
      ({ reply }) => {
        if (!status.healthy && !servesOffline(deps))
          return reply.code(503).send({ status: 'unavailable', ...detailsOf(deps) });
        return { status: 'ok', online: deps.server().connected, ...detailsOf(deps) };
      },
    );
  }
  addRoute(
    app,
    {
      method: 'GET',
      path: '/ready',
      access: 'everyone',
      tag: 'Health',
      summary: 'Whether policy and data were synced once',
      answers: {
        200: { description: 'Ready', schema: z.object({ status: z.literal('ok'), ...details }) },
        503: UNAVAILABLE,
      },
    },
    ({ reply }) => {
      if (!status.ready) return reply.code(503).send({ status: 'unavailable', ...detailsOf(deps) });
      return { status: 'ok', ...detailsOf(deps) };
    },
  );
}

/** Disconnected on purpose, with an engine that serves what it was given before (opal-protocol P2.6). */
function servesOffline({ status, offline }: HealthRoutesDeps): boolean {
  return offline.view.disabled && status.ready && status.engine.online;
}

function connectivityOf({ view: { disabled, offlineMode, backup } }: Pick<Offline, 'view'>): object {
  const { savedMs, error } = backup ?? {};
  const shownBackup = {
    saved_at: timeOf(savedMs),
    age_seconds: savedMs === undefined ? null : Math.round((Date.now() - savedMs) / 1000),
    error: error ?? null,
  };
  return {
    sync_server_connectivity_disabled: disabled,
    offline_mode_enabled: offlineMode,
    backup: backup === undefined ? null : shownBackup,
  };
}

/** Orphans that are listed; POST /orphans/prune answers all. */
const SHOWN_ORPHANS = 100;

function dataOf({ status, data, drift }: Pick<HealthRoutesDeps, 'status' | 'data' | 'drift'>): object {
  const { logPosition: position } = data;
  const state = drift();
  const { checkedMs, documents, repaired, error } = state ?? {};
  return {
    last_transaction: shown(status.transactions.data.last),
    failing: status.failures.map(({ since, ...failure }) => ({ ...failure, since: timeOf(since) })),
    failing_total: status.failing.size,
    orphaned: data.orphans.slice(0, SHOWN_ORPHANS).map(({ path }) => docPathText(path)),
    epoch: position?.epoch ?? null,
    applied_through: position?.applied_through ?? null,
    unresolved: position?.unresolved.length ?? 0,
    drift:
      state === undefined
        ? null
        : {
            checked_at: timeOf(checkedMs),
            documents,
            repaired,
            error: error ?? null,
          },
  };
}

function detailsOf(deps: HealthRoutesDeps): object {
  const { status, policy, server, engine, offline, reports, healthDocument } = deps;
  const document = healthDocument();
  const { connected, error, code, sinceMs } = server();
  const { wanted, error: policyError, since } = status.policy;
  return {
    ready: status.ready,
    healthy: status.healthy,
    policy: {
      hash: policy.hash ?? null,
      wanted,
      error: policyError,
      since: timeOf(since),
      last_transaction: shown(status.transactions.policy.last),
    },
    data: dataOf(deps),
    engine: engineOf(status, engine()),
    server: {
      connected,
      error: error ?? null,
      code: error === undefined ? null : (code ?? null),
      since: timeOf(sinceMs),
    },
    connectivity: connectivityOf(offline),
    reports: reports(),
    ...(document === undefined ? {} : { health_document: { ...document, error: document.error ?? null } }),
  };
}

function engineOf({ engine: { online, error, sinceMs } }: Status, facts: EngineFacts): object {
  const waits = facts.getting === null ? null : `the engine is not there yet: ${facts.getting}`;
  return { online, error: error ?? waits, since: timeOf(sinceMs), ...facts };
}

function shown(last: TransactionResult | undefined): object | null {
  if (last === undefined) return null;
  const { atMs, ...result } = last;
  return { ...result, at: timeOf(atMs) };
}

/** All times of the answer are written like this. */
function timeOf(ms: number | null | undefined): string | null {
  return ms === undefined || ms === null ? null : new Date(ms).toISOString();
}
