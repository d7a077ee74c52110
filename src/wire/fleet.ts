import * as z from 'zod';
import { policyError, sourceView } from './clients.js';
import { traceConvergence } from './trace.js';

/**
 * The fleet as `GET /ui/events` streams it: a snapshot, then what changed. The server writes it;
 * the page at `/ui` and `policysync status --watch` read it. Times are milliseconds since 1970 by
 * the clock of the server. Members may be added.
 */

const millis = z.number();

/** How a client stands to the policy that is served. */
export const POLICY_STATES = {
  acknowledged: 'its engine holds the served commit',
  told: 'it has heard of the commit, and does not hold it yet',
  not_told: 'it is connected, and has not been heard of since the commit was announced',
  refused: 'its engine refuses the commit',
  away: 'it is not connected',
  does_not_say: 'an OPAL client: it never says what it holds',
  none: 'it subscribes to no policy, or none is served',
} as const;
export type PolicyStanding = keyof typeof POLICY_STATES;

/** How a client stands to the data of its topics. */
export const DATA_STATES = {
  at_head: 'it has dealt with every update of its topics',
  behind: 'updates are missing (of an older server: or fail)',
  failing: 'a document fails, and is tried again: its source does not give it, or the engine cannot be written',
  blocked: 'its engine, or a rule, refuses an update',
  away: 'it is not connected',
  does_not_say: 'an OPAL client: it never says what it holds',
  none: 'it subscribes to no data',
} as const;
export type DataStanding = keyof typeof DATA_STATES;

/** How a client is, apart from what it holds. */
export const HEALTH_STATES = {
  healthy: 'all that it should do works',
  not_ready: 'its engine never had everything yet',
  unhealthy: 'it was ready, and something fails',
  new: 'it is connected and has not reported yet',
  was_healthy: 'it is away, and was healthy',
  was_unhealthy: 'it is away, and was not healthy',
  does_not_say: 'an OPAL client',
} as const;
export type HealthStanding = keyof typeof HEALTH_STATES;

const meaning = (states: Readonly<Record<string, string>>): string =>
  Object.entries(states)
    .map(([name, text]) => `${name}: ${text}`)
    .join('; ');

/** Why a client needs a look: the worst of its errors. */
const rowError = z.object({
  kind: z.string().describe('away, policy, blocked, engine, or a kind of failure: source, engine, refused, config'),
  place: z.string().describe('file, file:line, path of a document, or empty'),
  text: z.string(),
  since: millis.nullable(),
});

export const fleetRow = z.object({
  id: z.string().describe('Its name, as in GET /clients'),
  kind: z.enum(['session', 'plain']),
  connected: z.boolean(),
  labels: z.record(z.string(), z.string()).describe('SYNC_CLIENT_LABELS of the client'),
  address: z.string(),
  instance: z.string().describe('The server instance that it is, or was, connected to'),
  topics: z.array(z.string()).describe('At most 20; see GET /clients/{id} for all of them'),
  engine: z.string().nullable().describe('Kind and version, such as "opa 1.22.0"'),
  policy: z.object({
    state: z.string().describe(meaning(POLICY_STATES)),
    held: z.string().nullable(),
    behind: z
      .number()
      .nullable()
      .describe('Served commits after the one that it holds; null: not known, or it holds none'),
    since: millis.nullable().describe('When this state began'),
    error: policyError.nullable(),
  }),
  data: z.object({
    state: z.string().describe(meaning(DATA_STATES)),
    at: z.number().nullable().describe('How far it is on its topics'),
    newest: z.number().describe('The last seq on its topics'),
    behind: z.number().nullable().describe('Updates that are missing'),
    at_least: z.boolean().describe('It may be more than that'),
    lag_seconds: z.number().nullable().describe('Age of the oldest of them at the time of the event'),
  }),
  health: z.object({ state: z.string().describe(meaning(HEALTH_STATES)), since: millis.nullable() }),
  error: rowError.nullable(),
  connected_at: millis,
  away_since: millis.nullable(),
  reported_at: millis.nullable(),
});
export type FleetRow = z.infer<typeof fleetRow>;

/** A policy commit or data update, with how far it came. The same in `GET /changes`. */
export const fleetChange = z.object({
  kind: z.enum(['policy', 'data']),
  id: z.string().describe('The commit, or the seq of the update as text: what GET /trace/{id} takes'),
  update_id: z.string().nullable().describe('Id of a data update'),
  title: z
    .string()
    .describe(
      'First line of the commit message; the reason of an update; at most 300 characters; empty: neither is known',
    ),
  by: z.string().nullable().describe('Author of the commit; publisher of the update, for datasource tokens'),
  at: millis.describe('When it was recorded, or found'),
  topics: z.array(z.string()).describe('At most 20'),
  size: z.number().nullable().describe('Files that the commit changed, entries of the update; null: not known'),
  paths: z.array(z.string()).describe('Of an update: at most 20, each of at most 300 characters'),
  state: z
    .string()
    .describe('served, under_way, replaced, refused; found: the source has the commit, and it is not served yet'),
  error: z
    .object({
      message: z.string(),
      code: z.string().optional(),
      file: z.string().nullish(),
      line: z.number().nullish(),
      clients: z.number().optional().describe('Clients that say so; missing: it is the server that refused the commit'),
    })
    .nullable()
    .describe(
      'Why the server refused the commit, else what most of the clients say that refuse the change or fail with it; `file`: of an update the path of the document',
    ),
  counts: z
    .record(z.string(), z.number())
    .describe('Clients concerned by state, as in GET /trace: applied, refused, failing, pending, not_heard, away, ...'),
  total: z.number().describe('Clients concerned'),
  convergence: traceConvergence
    .nullable()
    .describe('null: no times are in memory, or only those of a start of the server with this commit'),
});
export type FleetChange = z.infer<typeof fleetChange>;

const counts = z.record(z.string(), z.number());

export const fleetSummary = z.object({
  total: z.number().describe('Clients that the caller sees'),
  policy: z.object({
    head: z.string().nullable().describe('The served commit; null: none'),
    counts: counts.describe('Clients by policy.state'),
  }),
  data: z.object({
    head: z.number().describe('The last data update that the caller sees'),
    counts: counts.describe('Clients by data.state'),
    slowest_behind: z.number().describe('Most updates that a connected client is behind'),
    at_least: z.boolean(),
  }),
  health: counts.describe('Clients by health.state'),
  needing: z.number().describe('Clients that need a look: refused, blocked, away, unhealthy, not ready'),
  under_way: fleetChange
    .nullable()
    .describe(
      'A change that is on its way, else one that the last client has just taken, else one that is held up, else the newest; ' +
        'of several the served commit, else the newest',
    ),
  others_held_up: z
    .number()
    .optional()
    .describe('Other changes that some client refuses, or that fail there; an older server does not say'),
  incomplete: z.string().nullable().describe('Why there may be other clients than these'),
  limited: z
    .boolean()
    .describe('The token is limited to topics or paths: figures cover the clients of its topics, at all paths'),
});
export type FleetSummary = z.infer<typeof fleetSummary>;

/** One server instance; figures of the last minute and since its start. */
export const fleetInstance = z.object({
  name: z.string().describe('Host name, for people'),
  instance: z.string().describe('Its id, new on each start'),
  here: z.boolean().describe('It is the one that responds'),
  version: z.string().nullable(),
  started_at: millis.nullable(),
  state: z.string().describe('in_step, behind, slow_backbone, refuses_updates, backbone_away, draining, silent'),
  seen_at: millis.describe('When it last said something'),
  clients: z.number(),
  log_at: z.number().describe('Last seq that it has seen'),
  behind: z.number(),
  backbone_ms: z.number().nullable().describe('Round trip to the backbone; null: there is none, or not known'),
  loop_delay_ms: z.number().nullable().describe('p99 of the event loop delay in the last minute'),
  memory_bytes: z.number().nullable(),
  source: z.string().nullable().describe('State of the policy source there: following, failing, starting, none'),
});
export type FleetInstance = z.infer<typeof fleetInstance>;

/** All that a page shows of the fleet at one time. */
export const fleetSnapshot = z.object({
  at: millis,
  epoch: z.string(),
  instance: z.string(),
  environment: z.string().optional().describe('SYNC_ENVIRONMENT of the server; missing: it has none'),
  head: z.number(),
  summary: fleetSummary,
  source: sourceView.nullable().describe('null: no policy source is configured'),
  clients: z.array(fleetRow),
  changes: z.array(fleetChange).describe('The newest 50, newest first'),
  instances: z.array(fleetInstance),
});
export type FleetSnapshot = z.infer<typeof fleetSnapshot>;

/** What changed since the event before; a missing member has not changed. */
export const fleetDelta = z.object({
  at: millis,
  head: z.number().optional(),
  summary: fleetSummary.optional(),
  source: sourceView.nullable().optional(),
  clients: z.array(fleetRow).optional().describe('New or changed, whole'),
  gone: z.array(z.string()).optional().describe('Ids of clients that are no longer listed'),
  changes: z.array(fleetChange).optional().describe('New or changed; the 50 newest are kept'),
  instances: z.array(fleetInstance).optional().describe('All of them'),
});
export type FleetDelta = z.infer<typeof fleetDelta>;

/** Why the server ends a stream; the reader does what the text says. */
export const fleetEnd = z.object({
  reason: z.string().describe('expired: the token has ended, sign in again; draining: the server stops, reconnect'),
});
export type FleetEnd = z.infer<typeof fleetEnd>;

/**
 * Names of the events of the stream, with what their data is. While somebody watches there is a
 * delta at least every 10 seconds, if only with `at`: a reader that hears nothing for longer takes
 * the stream for dead.
 */
export const FLEET_EVENTS = { snapshot: fleetSnapshot, delta: fleetDelta, end: fleetEnd } as const;

/** Response of `GET /changes`. */
export const changesAnswer = z.object({
  epoch: z.string(),
  changes: z.array(fleetChange).describe('Newest first'),
  next: z.string().nullable().describe('The value of `before` for the next page; null: this is the last one'),
});
export type ChangesAnswer = z.infer<typeof changesAnswer>;

/** Response of `GET /ui/session`: who looks, and what it may do. */
export const uiSession = z.object({
  signed_in: z.boolean(),
  authentication: z.boolean().describe('false: the server has none, and the page is open on loopback names'),
  role: z.enum(['listener', 'datasource']).nullable().describe('datasource: may act, and see values'),
  subject: z.string().nullable(),
  topics: z.array(z.string()).nullable().describe('The topics that the token is limited to; null: any'),
  paths: z.array(z.string()).nullable(),
  ends_at: millis.nullable().describe('When the session ends; null: never'),
  version: z.string(),
  environment: z.string().optional().describe('SYNC_ENVIRONMENT of the server; missing: it has none'),
});
export type UiSession = z.infer<typeof uiSession>;
