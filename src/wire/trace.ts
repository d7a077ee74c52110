import * as z from 'zod';

/**
 * The response of `GET /trace/{id}`, as the server writes it and `policysync trace` reads it: what
 * became of one change. Times are milliseconds since 1970 by the clock of the server instance that
 * responds, as well as that is known. Members may be added.
 */

const millis = z.number();

/** One step of a change at a server instance. */
export const traceStage = z.object({
  stage: z
    .string()
    .describe(
      'Of an update: received, recorded (the time in the log), durable, announced. Of a commit: found, refused, checked, agreed, served, announced',
    ),
  at: millis,
  instance: z.string().nullable().describe('The server instance; null: the log'),
  subscribers: z.number().optional().describe('Connections that it was announced to, for tokens without limits'),
});
export type TraceStage = z.infer<typeof traceStage>;

/** How a client stands to the change. */
export const TRACE_STATES = {
  applied: 'its engine holds the change, or a later one in its place',
  refused: 'its engine refuses it',
  failing: 'a data source does not give it, or the engine cannot be written: it tries again',
  pending: 'it has heard of the change, or reported since, and does not hold it yet',
  not_heard: 'it is connected and has said nothing since the change was announced',
  away: 'it is not connected',
  replaced:
    'of a commit: it holds another one by now, and whether it ever held this one is not known; of an update: a later one took its place before the engine got any of it',
  unknown: 'an OPAL client: it does not say what it holds',
} as const;
export type TraceState = keyof typeof TRACE_STATES;

export const traceClient = z.object({
  client_id: z.string().describe('Its name as in GET /clients'),
  kind: z.enum(['session', 'plain']),
  connected: z.boolean(),
  away_since: millis.optional().describe('Missing: it is connected'),
  instance: z.string().describe('The server instance that it is, or was, connected to'),
  state: z.string().describe(
    Object.entries(TRACE_STATES)
      .map(([name, meaning]) => `${name}: ${meaning}`)
      .join('; '),
  ),
  reason: z.string().nullable().describe('Why it does not hold it, without the place'),
  file: z.string().nullish().describe('The file that the engine refuses; of an update the path of the document'),
  line: z.number().nullish(),
  was_there: z.boolean().describe('It was connected when the change was announced: it counts for `convergence`'),
  heard_at: millis
    .nullable()
    .describe('As the client says, counted back from the arrival of its report, like the next three'),
  fetched_at: millis.nullable(),
  applied_at: millis.nullable(),
  refused_at: millis.nullable(),
  applied_seen_at: millis.nullable().describe('When the report of that arrived'),
  refused_seen_at: millis.nullable(),
  reported_at: millis.nullable().describe('Its last report of all'),
});
export type TraceClient = z.infer<typeof traceClient>;

/** How fast the clients that were there came to hold the change. */
export const traceConvergence = z.object({
  from: millis.describe('The first stage of the change'),
  clients: z.number().describe('Clients that report and were connected when the change was announced'),
  first: millis.nullable().describe('When the first of them held it; null: not yet, or not known'),
  half: millis.nullable(),
  p99: millis.nullable(),
  last: millis.nullable(),
  curve: z.array(z.object({ at: millis, applied: z.number() })).describe('At most 100 points'),
});
export type TraceConvergence = z.infer<typeof traceConvergence>;

export const traceAnswer = z.object({
  kind: z.enum(['update', 'commit']),
  id: z.string().describe('Id of the update, or the commit'),
  seq: z.number().optional().describe('Of an update: its place in the log'),
  epoch: z.string(),
  publisher: z.string().nullish().describe('Of an update, for datasource tokens'),
  reason: z.string().nullish().describe('Of an update, for datasource tokens'),
  topics: z.array(z.string()).optional().describe('Of an update: at most 100'),
  topics_total: z
    .number()
    .optional()
    .describe('How many topics it has that the caller may see; an older server does not say'),
  paths: z.array(z.string()).optional().describe('Of an update: at most 20'),
  state: z.string().optional().describe('Of a commit: served, refused, replaced (a later one is served), or found'),
  error: z
    .object({
      message: z.string(),
      code: z.string().optional(),
      file: z.string().optional(),
      line: z.number().optional(),
    })
    .optional()
    .describe('Why the server refuses a commit: what is wrong, and where'),
  now: millis,
  instance: z.string().describe('The server instance that responds'),
  stages: z.array(traceStage),
  in_memory: z
    .boolean()
    .describe(
      'false: no times are in memory any more, and the answer follows from the log and from what clients hold now',
    ),
  notes: z.array(z.string()).describe('What limits this answer'),
  counts: z.record(z.string(), z.number()).describe('Clients by state, on all pages'),
  convergence: traceConvergence.nullable().describe('null: not known, as of a commit that the server started with'),
  total: z.number().describe('Clients on all pages'),
  clients: z.array(traceClient).describe('By name'),
  next: z.string().nullable().describe('The value of `after` for the next page; null: this is the last one'),
});
export type TraceAnswer = z.infer<typeof traceAnswer>;
