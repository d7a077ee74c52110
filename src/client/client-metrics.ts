import type { EmbeddedOpa } from '../embedded/embedded-opa.js';
import { type Histogram, type Metrics, timed } from '../lib/observe/metrics.js';
import { withOverrides } from '../lib/run/with-overrides.js';
import type { Decisions } from './decisions/decisions.js';
import type { PolicyEngine } from './engine/engine.js';
import type { RunningEngine } from './engine/opa/running-engine.js';
import type { Follower } from './follow/follower.js';
import type { Offline } from './offline/offline.js';
import type { DataUpdater } from './reconcile/data-updater.js';
import type { Reporter } from './report/reporter.js';
import type { Status } from './status/status.js';

/** What the client measures. Parts know nothing of it: they are wrapped. */
export type ClientMetrics = ReturnType<typeof createClientMetrics>;

/** Makes the instruments of a client: how long reads and writes take. */
export function createClientMetrics(metrics: Metrics) {
  const applying = metrics.histogram(
    'policysync_engine_write_duration_seconds',
    'One write into the engine: data, or a policy with its check and compilation',
  );
  return {
    engine: <E extends PolicyEngine>(engine: E): E => {
      const methods: Partial<PolicyEngine> = {
        activate: (...args) => timed(applying, () => engine.activate(...args), { kind: 'policy' }),
        write: (...args) => timed(applying, () => engine.write(...args), { kind: 'data' }),
      };
      return withOverrides(engine, methods as Partial<E>);
    },
    fetch: timing(metrics.histogram('policysync_fetch_duration_seconds', 'One read of a data source')),
    bundle: timing(
      metrics.histogram('policysync_bundle_fetch_duration_seconds', 'One request for policy to the server'),
    ),
  };
}

function timing(histogram: Histogram) {
  return <A extends readonly unknown[], R>(call: (...args: A) => Promise<R>) =>
    (...args: A): Promise<R> =>
      timed(histogram, () => call(...args));
}

/** The parts whose figures are read. */
export interface ClientReadings {
  readonly status: Pick<Status, 'ready' | 'healthy' | 'failing' | 'engine' | 'transactions' | 'serverCutOffSinceMs'>;
  readonly follower: Pick<Follower, 'server'>;
  readonly data: Pick<DataUpdater, 'logPosition'>;
  readonly reporter: Pick<Reporter, 'details'>;
  readonly decisions: Pick<Decisions, 'counts'>;
  readonly engine: Pick<RunningEngine, 'embedded'>;
  readonly offline: Pick<Offline, 'view'>;
}

/** Adds the figures that parts keep and that are read when somebody asks for them. */
export function addClientReadings(
  metrics: Metrics,
  { status, follower, data, reporter, decisions, engine: { embedded }, offline }: ClientReadings,
): void {
  if (embedded !== undefined) addEmbeddedReadings(metrics, embedded);
  metrics.gauge('policysync_applied_through', 'Place in the update log up to which all is applied or known', () => {
    const at = data.logPosition;
    return at === undefined ? [] : [{ value: at.applied_through }];
  });
  metrics.gauge('policysync_unresolved_updates', 'Updates up to there that fail or are blocked', () => {
    return data.logPosition?.unresolved.length ?? 0;
  });
  metrics.gauge('policysync_ready', '1 once policy and data were synced', () => Number(status.ready));
  metrics.gauge('policysync_healthy', '1 while policy and data are current', () => Number(status.healthy));
  metrics.gauge('policysync_failing_entries', 'Data entries that fail or are blocked', () => status.failing.size);
  metrics.gauge('policysync_backup_failing', '1 while the backup of offline mode cannot be written', () => {
    const { backup } = offline.view;
    return backup === undefined ? [] : [{ value: Number(backup.error !== undefined) }];
  });
  metrics.gauge('policysync_engine_up', '1 while the engine answers', () => Number(status.engine.online));
  metrics.gauge('policysync_connected', '1 while the socket to the server is open', () =>
    Number(follower.server.connected),
  );
  metrics.gauge('policysync_server_cut_off_seconds', 'How long the server has been cut off from its backbone', () => {
    const since = status.serverCutOffSinceMs;
    return since === undefined ? 0 : Math.max(0, Date.now() - since) / 1000;
  });
  metrics.total('policysync_connections_total', 'Connections to the server that were established', () => {
    return follower.server.connections;
  });
  metrics.total('policysync_transactions_total', 'Policy and data transactions, by outcome', () =>
    Object.entries(status.transactions).flatMap(([kind, { counts }]) => [
      { labels: { kind, outcome: 'ok' }, value: counts.successful },
      { labels: { kind, outcome: 'failed' }, value: counts.failed },
    ]),
  );
  metrics.total('policysync_decisions_total', 'Decisions of the program that embeds the client, by outcome', () =>
    Object.entries(decisions.counts).map(([outcome, value]) => ({ labels: { outcome }, value })),
  );
  metrics.total('policysync_reports_total', 'Update reports to callbacks, by outcome', () => {
    const { delivered, failed, dropped } = reporter.details;
    return Object.entries({ delivered, failed, dropped }).map(([outcome, value]) => ({ labels: { outcome }, value }));
  });
  metrics.gauge('policysync_reports_queued', 'Update reports that wait to be sent', () => reporter.details.queued);
}

/** Adds the figures of an embedded engine. */
function addEmbeddedReadings(metrics: Metrics, opa: Pick<EmbeddedOpa, 'state'>): void {
  metrics.total('policysync_engine_decisions_total', 'Decisions of the embedded engine, by what answered', () =>
    Object.entries(opa.state.decisions).map(([by, value]) => ({ labels: { by }, value })),
  );
  metrics.total('policysync_engine_restarts_total', 'Threads that ended by a limit or a failure', () => {
    const { go, evaluator } = opa.state;
    return [
      { labels: { part: 'go' }, value: go.failedEnds },
      { labels: { part: 'evaluator' }, value: evaluator.failedEnds },
    ];
  });
  metrics.gauge('policysync_engine_memory_bytes', 'Memory of WebAssembly in the embedded engine', () => {
    const { go, evaluator } = opa.state;
    return [
      { labels: { part: 'go' }, value: go.memoryBytes },
      { labels: { part: 'evaluator' }, value: evaluator.memoryBytes },
    ];
  });
  metrics.gauge('policysync_engine_entrypoints', 'Paths that were asked for, by what answers them', () => {
    const { compiled, withGo } = opa.state;
    return [
      { labels: { by: 'compiled' }, value: compiled.length },
      { labels: { by: 'go' }, value: withGo.length },
    ];
  });
}
