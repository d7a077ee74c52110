import { type Metrics, timed } from '../lib/metrics.js';
import { withOverrides } from '../lib/with-overrides.js';
import type { Position } from '../wire/session.js';
import type { PolicyEngine } from './engine/engine.js';
import type { Status } from './status/status.js';

/** What the client measures. Parts know nothing of it: they are wrapped. */
export interface ClientMetrics {
  /** How long writes into the engine take, and how they end. */
  engine<E extends PolicyEngine>(engine: E): E;
  /** How long reads of data sources take, and how they end. */
  fetch<A extends readonly unknown[], R>(fetch: (...args: A) => Promise<R>): (...args: A) => Promise<R>;
  /** How long the server takes for a bundle. */
  bundle<A extends readonly unknown[], R>(fetch: (...args: A) => Promise<R>): (...args: A) => Promise<R>;
}

/** What is read when the figures are asked for. */
export interface ClientReadings {
  readonly status: Pick<Status, 'ready' | 'healthy' | 'failing' | 'engine' | 'transactions'>;
  readonly connected: () => boolean;
  /** Connections to the server that were established so far. */
  readonly connections: () => number;
  /** Undefined: it follows no update log. */
  readonly position: () => Pick<Position, 'applied_through' | 'unresolved'> | undefined;
  readonly reports: () => { queued: number; delivered: number; failed: number; dropped: number };
}

/** Makes the instruments of a client. */
export function createClientMetrics(metrics: Metrics): ClientMetrics {
  const applying = metrics.histogram(
    'policysync_engine_write_duration_seconds',
    'One write into the engine: data, or a policy with its check and compilation',
  );
  const fetching = metrics.histogram('policysync_fetch_duration_seconds', 'One read of a data source');
  const bundling = metrics.histogram(
    'policysync_bundle_fetch_duration_seconds',
    'One request for policy to the server',
  );
  return {
    engine: <E extends PolicyEngine>(engine: E): E => {
      const methods: Partial<PolicyEngine> = {
        activate: (...args) => timed(applying, () => engine.activate(...args), { kind: 'policy' }),
        write: (...args) => timed(applying, () => engine.write(...args), { kind: 'data' }),
      };
      return withOverrides(engine, methods as Partial<E>);
    },
    fetch:
      (fetch) =>
      (...args) =>
        timed(fetching, () => fetch(...args)),
    bundle:
      (fetch) =>
      (...args) =>
        timed(bundling, () => fetch(...args)),
  };
}

/** Adds what is known already and only has to be read. */
export function addClientReadings(metrics: Metrics, readings: ClientReadings): void {
  const { status, connected, connections, position, reports } = readings;
  metrics.gauge('policysync_applied_through', 'Place in the update log up to which all is applied or known', () => {
    const at = position();
    return at === undefined ? [] : [{ value: at.applied_through }];
  });
  metrics.gauge('policysync_unresolved_updates', 'Updates up to there that fail or are blocked', () => {
    return position()?.unresolved.length ?? 0;
  });
  metrics.gauge('policysync_ready', '1 once policy and data were synced', () => Number(status.ready));
  metrics.gauge('policysync_healthy', '1 while policy and data are current', () => Number(status.healthy));
  metrics.gauge('policysync_failing_entries', 'Data entries that fail or are blocked', () => status.failing.size);
  metrics.gauge('policysync_engine_up', '1 while the engine answers', () => Number(status.engine.online));
  metrics.gauge('policysync_connected', '1 while the socket to the server is open', () => Number(connected()));
  metrics.total('policysync_connections_total', 'Connections to the server that were established', connections);
  metrics.total('policysync_transactions_total', 'Policy and data transactions, by outcome', () =>
    Object.entries(status.transactions).flatMap(
      ([
        kind,
        {
          counts: { successful, failed },
        },
      ]) => [
        { labels: { kind, outcome: 'ok' }, value: successful },
        { labels: { kind, outcome: 'failed' }, value: failed },
      ],
    ),
  );
  metrics.total('policysync_reports_total', 'Update reports to callbacks, by outcome', () => {
    const { delivered, failed, dropped } = reports();
    return Object.entries({ delivered, failed, dropped }).map(([outcome, value]) => ({ labels: { outcome }, value }));
  });
  metrics.gauge('policysync_reports_queued', 'Update reports that wait to be sent', () => reports().queued);
}
