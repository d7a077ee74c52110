import { type Metrics, timed } from '../lib/observe/metrics.js';
import { withOverrides } from '../lib/run/with-overrides.js';
import type { SocketServer } from '../pubsub/socket-server.js';
import type { NamedBudget } from './budgets.js';
import type { ChangeStage } from './changes/stages.js';
import type { LogMemory } from './log/log-memory.js';
import type { ClientCounts } from './peers/client-counts.js';
import type { Waiters } from './peers/waiters.js';
import type { PolicyBundles } from './policy/bundle/policy-bundles.js';
import type { PolicySource, PolicySourceStatus } from './policy/source/source.js';

/** The parts that each scrape reads. */
export interface ServerReadings {
  readonly log: { readonly head: number; readonly memory: LogMemory };
  /** Whether the store of the log can be reached, and whether it takes updates. */
  readonly logUp: () => boolean;
  readonly logWrites: () => boolean;
  readonly sockets: Pick<SocketServer, 'connectionCount' | 'queued'>;
  readonly clients: () => ClientCounts;
  readonly policy: () => PolicySourceStatus | undefined;
  readonly budgets: () => readonly NamedBudget[];
}

/** The instruments of a server. */
export type ServerMetrics = ReturnType<typeof createServerMetrics>;

/** Creates the instruments. What they measure tells stages, or is wrapped. */
export function createServerMetrics(metrics: Metrics) {
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
    /** Takes what is counted and timed of changes. */
    stage: (stage: ChangeStage): void => {
      if (stage.of === 'publish') {
        published.inc({ outcome: stage.outcome });
        if (stage.outcome === 'ok') publishing.observe(stage.tookMs / 1000);
      } else if (stage.of === 'delivery') {
        delivering.observe(stage.tookMs / 1000);
        delivered.inc({}, stage.subscribers);
      } else if (stage.of === 'apply') applied.observe(stage.tookMs / 1000);
    },
    bundles: (bundles: Pick<PolicyBundles, 'get'>): Pick<PolicyBundles, 'get'> => ({
      get: (request) => timed(building, () => bundles.get(request)),
    }),
    source: <S extends PolicySource>(source: S): S => {
      const methods: Partial<PolicySource> = { fetch: (signal) => timed(fetching, () => source.fetch(signal)) };
      return withOverrides(source, methods as Partial<S>);
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
  let counted: ClientCounts | undefined;
  const clients = (): ClientCounts => {
    if (counted === undefined) {
      counted = readings.clients();
      setImmediate(() => {
        counted = undefined;
      });
    }
    return counted;
  };
  metrics.gauge('policysync_log_head', 'Last seq of the update log', () => readings.log.head);
  metrics.gauge('policysync_log_up', '1 while the update log can be reached and read, and takes updates', () =>
    Number(readings.logUp() && readings.logWrites()),
  );
  metrics.gauge('policysync_log_writable', '0 from an update that the log refuses until it takes updates again', () =>
    Number(readings.logWrites()),
  );
  const { log } = readings;
  metrics.gauge('policysync_log_entries', 'Live entries of the update log', () => log.memory.entries);
  metrics.gauge(
    'policysync_log_memory_share',
    'What the live entries take of the memory that this server has for them, about: 1 is all of it',
    () => log.memory.bytes / log.memory.limitBytes,
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
    const { connected, plain, away, unhealthy, lagging } = clients();
    return Object.entries({ connected, plain, away, unhealthy, lagging }).map(([state, value]) => ({
      labels: { state },
      value,
    }));
  });
  metrics.gauge(
    'policysync_client_lag_updates',
    'Updates that the connected client that is farthest behind has not applied',
    () => clients().maxLagUpdates,
  );
  metrics.gauge(
    'policysync_client_lag_seconds',
    'Age of the oldest update that a connected client has not applied',
    () => clients().maxLagSeconds,
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
