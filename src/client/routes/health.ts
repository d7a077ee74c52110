import type { FastifyInstance } from 'fastify';
import * as z from 'zod';
import type { EmbeddedState } from '../../embedded/embedded-opa.js';
import type { ResponseDeclaration } from '../../http/declared-route.js';
import { addRoute } from '../../http/route.js';
import { type ClientHealth, clientHealth } from '../../wire/client-health.js';
import { docPathText } from '../../wire/doc-path.js';
import type { KnownEntry } from '../desired/entry-table.js';
import type { DriftCheck } from '../drift/drift-check.js';
import type { RunningEngine } from '../engine/opa/running-engine.js';
import type { Follower } from '../follow/follower.js';
import type { HealthWriter } from '../health/health-writer.js';
import type { Offline } from '../offline/offline.js';
import type { DataUpdater } from '../reconcile/data-updater.js';
import type { PolicyUpdater } from '../reconcile/policy-updater.js';
import type { Reporter } from '../report/reporter.js';
import type { Status } from '../status/status.js';
import type { TransactionResult } from '../status/transactions.js';

/** The parts that the health routes read. */
export interface HealthRoutesDeps {
  readonly status: Status;
  readonly policy: Pick<PolicyUpdater, 'hash' | 'isWaiting'>;
  readonly data: Pick<DataUpdater, 'logPosition' | 'orphans' | 'awaitingPolicy'>;
  /** Undefined where it is off. */
  readonly drift: Pick<DriftCheck, 'state'> | undefined;
  readonly follower: Pick<Follower, 'server'>;
  readonly engine: Pick<RunningEngine, 'kind' | 'access' | 'version' | 'rego' | 'getting' | 'embedded'> & {
    readonly engine: Pick<RunningEngine['engine'], 'policyMode'>;
  };
  readonly offline: Pick<Offline, 'view'>;
  readonly reporter: Pick<Reporter, 'details'>;
  /** Whether the client is about to stop. */
  readonly drain: { readonly isBegun: boolean };
  /** Undefined where the engine has no health document. */
  readonly healthWriter: Pick<HealthWriter, 'state'> | undefined;
}

const UNAVAILABLE: ResponseDeclaration = {
  description: 'It is not; the fields say why',
  schema: z.object({ status: z.literal('unavailable'), ...clientHealth.shape }),
};

/**
 * `GET /`, `/healthy`, `/healthcheck`, `/ready` and `/live` (specification "Health states";
 * opal-protocol P2.6).
 */
export function clientHealthRoutes(app: FastifyInstance, deps: HealthRoutesDeps): void {
  const { status, follower } = deps;
  const declared = { method: 'GET', access: 'everyone', strangers: 'words', insiders: 'token', tag: 'Health' } as const;

  for (const path of ['/', '/healthy', '/healthcheck']) {
    addRoute(
      app,
      {
        ...declared,
        path,
        summary: 'Whether policy and data are current and the engine answers',
        responses: {
          200: {
            description: 'Healthy',
            schema: z.object({ status: z.literal('ok'), online: z.boolean(), ...clientHealth.shape }),
          },
          503: UNAVAILABLE,
        },
      },
      ({ reply }) => {
        const health = healthOf(deps);
        if (!status.healthy && !servesOffline(deps)) return reply.code(503).send({ status: 'unavailable', ...health });
        return { status: 'ok', online: follower.server.connected, ...health };
      },
    );
  }
  addRoute(
    app,
    {
      ...declared,
      path: '/ready',
      summary: 'Whether policy and data were synced once, and the client is not about to stop',
      responses: {
        200: { description: 'Ready', schema: z.object({ status: z.literal('ok'), ...clientHealth.shape }) },
        503: UNAVAILABLE,
      },
    },
    ({ reply }) => {
      const health = healthOf(deps);
      const isReady = status.ready && !deps.drain.isBegun;
      return isReady ? { status: 'ok', ...health } : reply.code(503).send({ status: 'unavailable', ...health });
    },
  );
  addRoute(
    app,
    {
      ...declared,
      strangers: 'all',
      path: '/live',
      summary: 'Liveness of the process',
      description:
        'Says nothing of policy and data: a supervisor that restarts a client for those takes away what it serves.',
      responses: { 200: { description: 'The process responds', schema: z.object({ status: z.literal('ok') }) } },
    },
    () => ({ status: 'ok' }),
  );
}

/**
 * Disconnected on purpose, with an engine that serves what it was given before (opal-protocol
 * P2.6).
 */
function servesOffline({ status, offline }: HealthRoutesDeps): boolean {
  return offline.view.disabled && status.ready && status.engine.online;
}

/** Orphans that are listed; POST /orphans/prune returns all. */
const SHOWN_ORPHANS = 100;
/** Documents that are listed as waiting. */
const SHOWN_AWAITING = 100;

function healthOf(deps: HealthRoutesDeps): ClientHealth {
  const { status, policy, follower, reporter, healthWriter } = deps;
  const { connected, error, code, sinceMs } = follower.server;
  const { wanted, error: policyError, since, missing } = status.policy;
  const document = healthWriter?.state;
  return {
    now: timeOf(Date.now()),
    ready: status.ready,
    ...(deps.drain.isBegun && { draining: true as const }),
    healthy: status.healthy,
    policy: {
      hash: policy.hash ?? null,
      wanted,
      error: policyError,
      since: timeOrNull(since),
      ...(policy.isWaiting && { awaiting_data: listed(status.missingDocuments) }),
      ...(missing !== undefined && { missing_directories: missing }),
      last_transaction: lastOf(status.transactions.policy.last),
    },
    data: dataOf(deps),
    engine: engineOf(deps),
    server: {
      connected,
      error: error ?? null,
      code: error === undefined ? null : (code ?? null),
      since: timeOf(sinceMs),
      cut_off_since: timeOrNull(status.serverCutOffSinceMs),
    },
    connectivity: connectivityOf(deps.offline),
    reports: reporter.details,
    ...(document !== undefined && { health_document: { ...document, error: document.error ?? null } }),
  };
}

function dataOf({ status, data, drift }: HealthRoutesDeps): ClientHealth['data'] {
  const { logPosition: position, awaitingPolicy: awaiting } = data;
  const { checkedMs, documents = 0, repaired = 0, error = null } = drift?.state ?? {};
  return {
    last_transaction: lastOf(status.transactions.data.last),
    failing: status.failures.map(({ since, ...failure }) => ({ ...failure, since: timeOf(since) })),
    failing_total: status.failing.size,
    ...(awaiting.length > 0 && { awaiting_policy: listed(awaiting) }),
    orphaned: pathsOf(data.orphans.slice(0, SHOWN_ORPHANS)),
    epoch: position?.epoch ?? null,
    applied_through: position?.applied_through ?? null,
    unresolved: position?.unresolved.length ?? 0,
    drift: drift === undefined ? null : { checked_at: timeOrNull(checkedMs), documents, repaired, error },
  };
}

/** How many there are, and the paths of the first. */
function listed(entries: readonly KnownEntry[]): { total: number; paths: string[] } {
  return { total: entries.length, paths: pathsOf(entries.slice(0, SHOWN_AWAITING)) };
}

function pathsOf(entries: readonly KnownEntry[]): string[] {
  return entries.map(({ path }) => docPathText(path));
}

function engineOf({ status, engine }: HealthRoutesDeps): ClientHealth['engine'] {
  const { online, error, sinceMs } = status.engine;
  const getting = engine.getting() ?? null;
  return {
    online,
    error: error ?? (getting === null ? null : `the engine is not there yet: ${getting}`),
    since: timeOf(sinceMs),
    kind: engine.kind,
    policy_mode: engine.engine.policyMode,
    access: engine.access,
    version: engine.version() ?? null,
    rego: engine.rego() ?? null,
    getting,
    ...(engine.embedded !== undefined && { embedded: embeddedOf(engine.embedded.state) }),
  };
}

/** Paths with Go that are listed. */
const SHOWN_WITH_GO = 50;

function embeddedOf({
  go,
  evaluator,
  decisions,
  compiled,
  withGo,
}: EmbeddedState): NonNullable<ClientHealth['engine']['embedded']> {
  return {
    decisions: { ...decisions },
    restarts: go.failedEnds + evaluator.failedEnds,
    compiler_loaded: go.loaded,
    memory_bytes: go.memoryBytes + evaluator.memoryBytes,
    compiled: compiled.length,
    with_go: withGo.slice(0, SHOWN_WITH_GO).map(({ path, reason }) => ({ path, reason })),
  };
}

function connectivityOf({ view: { disabled, offlineMode, backup } }: Pick<Offline, 'view'>) {
  const { savedMs, error = null } = backup ?? {};
  const age = savedMs === undefined ? null : Math.round((Date.now() - savedMs) / 1000);
  return {
    sync_server_connectivity_disabled: disabled,
    offline_mode_enabled: offlineMode,
    backup: backup === undefined ? null : { saved_at: timeOrNull(savedMs), age_seconds: age, error },
  };
}

function lastOf(last: TransactionResult | undefined): ClientHealth['data']['last_transaction'] {
  if (last === undefined) return null;
  const { atMs, actions, ...result } = last;
  return { ...result, actions: [...actions], at: timeOf(atMs) };
}

function timeOrNull(ms: number | null | undefined): string | null {
  return ms === undefined || ms === null ? null : timeOf(ms);
}

/** All times of the answer are written like this. */
function timeOf(ms: number): string {
  return new Date(ms).toISOString();
}
