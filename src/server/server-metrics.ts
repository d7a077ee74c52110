import { SyncError } from '../lib/errors.js';
import { type Metrics, timed } from '../lib/metrics.js';
import { withOverrides } from '../lib/with-overrides.js';
import type { SocketServer } from '../pubsub/socket-server.js';
import type { NamedBudget } from './budgets.js';
import type { PolicyBundles } from './bundle/policy-bundles.js';
import type { HourEvents } from './instances/hour.js';
import type { Delivery, Publisher } from './publish.js';
import type { SessionsSummary } from './sessions/sessions.js';
import type { Waiters } from './sessions/waiters.js';
import type { PolicySource, PolicySourceStatus } from './source/source.js';

/** The parts that each scrape reads. */
export interface ServerReadings {
  readonly log: { readonly head: number };
  /** Whether the store of the log can be reached, and whether it takes updates. */
  readonly logUp: () => boolean;
  readonly logWrites: () => boolean;
  readonly sockets: Pick<SocketServer, 'connectionCount' | 'queued'>;
  readonly sessions: () => SessionsSummary;
  readonly policy: () => PolicySourceStatus | undefined;
  readonly budgets: () => readonly NamedBudget[];
}

/** The instruments of a server. */
export type ServerMetrics = ReturnType<typeof createServerMetrics>;

/** Creates the instruments. The measured parts do not know them: they are wrapped, or call a function. */
export function createServerMetrics(metrics: Metrics, hour?: HourEvents) {
  const published = metrics.counter('policysync_publish_total', 'Data updates that were published, by outcome');
  const publishing = metrics.histogram('policysync_publish_duration_seconds', 'From the request to the response');
  const delivering = metrics.histogram(
    'policysync_delivery_duration_seconds',
    'Handing one publication to the sockets of all its subscribers',
  );
  const delivered = metrics.counter('policysync_deliveries_total', 'Publications handed to subscribers');
  const applied = metrics.histogram(
    'policysync_apply_latency_seconds',
    'From the append of an update until a connected client has applied it',
  );
  const waits = metrics.counter('policysync_waits_total', 'Publishes with wait=applied, by outcome');
  const building = metrics.histogram('policysync_bundle_duration_seconds', 'Serving one bundle, including cached ones');
  const fetching = metrics.histogram('policysync_source_fetch_duration_seconds', 'One refresh of the policy source');
  const opened = metrics.counter('policysync_connections_opened_total', 'Sockets that were opened');
  const dropped = metrics.counter(
    'policysync_connections_dropped_total',
    'Sockets that were closed because they did not read or did not answer pings',
  );
  return {
    /** Counts publishes by outcome and measures the successful ones. */
    publisher: (publisher: Publisher): Publisher =>
      withOverrides(publisher, {
        publish: async (...args) => {
          let outcome = 'failed';
          const startedMs = performance.now();
          try {
            const result = await publisher.publish(...args);
            outcome = 'ok';
            return result;
          } catch (error) {
            if (error instanceof SyncError && error.status < 500) outcome = 'refused';
            throw error;
          } finally {
            const tookMs = performance.now() - startedMs;
            published.inc({ outcome });
            if (outcome === 'ok') publishing.observe(tookMs / 1000);
            if (outcome === 'ok') hour?.published(tookMs);
            else hour?.refused();
          }
        },
      }),
    delivery: (delivery: Delivery): Delivery =>
      withOverrides(delivery, {
        publish: (publication) => {
          const startedMs = performance.now();
          const count = delivery.publish(publication);
          delivering.observe((performance.now() - startedMs) / 1000);
          delivered.inc({}, count);
          hour?.delivered(count);
          return count;
        },
      }),
    bundles: (bundles: Pick<PolicyBundles, 'get'>): Pick<PolicyBundles, 'get'> =>
      withOverrides(bundles, { get: (request) => timed(building, () => bundles.get(request)) }),
    source: <S extends PolicySource>(source: S): S => {
      const methods: Partial<PolicySource> = { fetch: (signal) => timed(fetching, () => source.fetch(signal)) };
      return withOverrides(source, methods as Partial<S>);
    },
    applied: (seconds: number): void => {
      applied.observe(seconds);
      hour?.applied(seconds);
    },
    waits:
      (waitApplied: Waiters['waitApplied']): Waiters['waitApplied'] =>
      async (...args) => {
        const answer = await waitApplied(...args);
        waits.inc({ outcome: answer.done ? 'applied' : 'lagging' });
        return answer;
      },
    sockets: { opened: () => opened.inc(), dropped: () => dropped.inc() },
  };
}

/** Adds the gauges that are read from the parts on each scrape. */
export function addServerReadings(metrics: Metrics, readings: ServerReadings): void {
  const { sockets } = readings;
  /** Computed once per scrape: all gauges of a scrape are read in one turn of the event loop. */
  let summary: SessionsSummary | undefined;
  const sessions = (): SessionsSummary => {
    if (summary === undefined) {
      summary = readings.sessions();
      setImmediate(() => {
        summary = undefined;
      });
    }
    return summary;
  };
  metrics.gauge('policysync_log_head', 'Last seq of the update log', () => readings.log.head);
  metrics.gauge('policysync_log_up', '1 while the update log can be reached and read, and takes updates', () =>
    Number(readings.logUp() && readings.logWrites()),
  );
  metrics.gauge('policysync_log_writable', '0 from an update that the log refuses until it takes updates again', () =>
    Number(readings.logWrites()),
  );
  metrics.gauge('policysync_connections', 'Open sockets', () => sockets.connectionCount);
  const budgets = (member: 'used' | 'limit' | 'refused') => () =>
    readings.budgets().map(({ of, [member]: value }) => ({ labels: { of }, value }));
  metrics.gauge('policysync_budget_used', 'What all callers have of each budget now', budgets('used'));
  metrics.gauge('policysync_budget_limit', 'What all callers may have of each budget', budgets('limit'));
  metrics.total('policysync_budget_refused_total', 'Callers that were refused: 429 or 503', budgets('refused'));
  metrics.gauge('policysync_send_queue_bytes', 'What subscribers have not read yet', () => {
    const { totalBytes, largestBytes } = sockets.queued();
    return [
      { labels: { of: 'all' }, value: totalBytes },
      { labels: { of: 'slowest' }, value: largestBytes },
    ];
  });
  metrics.gauge('policysync_clients', 'Clients of this instance, by state', () => {
    const { connected, plain, away, unhealthy, lagging } = sessions();
    return Object.entries({ connected, plain, away, unhealthy, lagging }).map(([state, value]) => ({
      labels: { state },
      value,
    }));
  });
  metrics.gauge(
    'policysync_client_lag_updates',
    'Updates that the connected client that is farthest behind has not applied',
    () => sessions().maxLagUpdates,
  );
  metrics.gauge(
    'policysync_client_lag_seconds',
    'Age of the oldest update that a connected client has not applied',
    () => sessions().maxLagSeconds,
  );
  metrics.gauge('policysync_policy_source_up', '1 while the last refresh of the policy source succeeded', () => {
    const status = readings.policy();
    return status === undefined ? [] : [{ value: Number(status.state === 'following') }];
  });
  metrics.gauge(
    'policysync_policy_source_fetch_seconds',
    'Age of the fetch of the policy source that runs, or 0',
    () => {
      const status = readings.policy();
      if (status === undefined) return [];
      const { fetchingSinceMs } = status;
      return [{ value: fetchingSinceMs === undefined ? 0 : Math.max(0, Date.now() - fetchingSinceMs) / 1000 }];
    },
  );
  metrics.gauge('policysync_policy_awaited', '1 while the source does not show a commit that a webhook named', () => {
    const status = readings.policy();
    return status === undefined ? [] : [{ value: Number(status.awaited !== undefined) }];
  });
  metrics.gauge('policysync_policy_behind', '1 while other instances serve a commit that is not here yet', () => {
    const status = readings.policy();
    return status === undefined ? [] : [{ value: Number(status.wanted !== status.head) }];
  });
}
