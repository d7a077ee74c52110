import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import * as z from 'zod';
import { type Caller, limitsOf } from '../../auth/caller.js';
import { waitTimeout, whileCallerWaits } from '../../http/long-poll.js';
import { addRoute } from '../../http/route.js';
import { SyncError } from '../../lib/errors.js';
import type { Places } from '../../lib/net/places.js';
import { type Logger, redactUrl } from '../../lib/observe/log.js';
import { validTraceparent } from '../../lib/observe/tracing.js';
import { type DataUpdate, dataUpdate } from '../../wire/data.js';
import { updateReport } from '../../wire/report.js';
import { expandTopics } from '../../wire/topics.js';
import type { PeerInstances } from '../peers/peer-instances.js';
import type { WaitAnswer, Waiters } from '../peers/waiters.js';
import { hiddenData } from '../publish/hidden-data.js';
import type { Publisher } from '../publish/publish.js';
import { authorizeUpdate } from '../publish/publish-access.js';

export interface DataRoutesDeps {
  publisher: Publisher;
  log: Logger;
  /** Counts the clients of other instances. */
  countElsewhere: PeerInstances['countConcerned'];
  /** Waits for clients with `?wait=applied`. */
  waitApplied: Waiters['waitApplied'];
  /** Where the served commit has data; undefined while that is not known. */
  dataPlaces: () => Places | undefined;
}

/** Maximum entries of a report to log: the first load of a client may have thousands. */
const LOGGED_REPORTS = 50;

const MAX_KEY_CHARS = 255;

const DEFAULT_WAIT_MS = 5000;

const publishQuery = z.object({
  wait: z.literal('applied').optional().describe('Respond when all concerned clients have applied the update'),
  timeout: waitTimeout.optional().describe('Timeout of the wait: 5s (the default), 500ms, or seconds; at most 60s'),
});

/** Additional members of the response to `?wait=applied`. */
const waitAnswer = z.object({
  applied: z.number().describe('Number of clients that have applied it'),
  lagging: z
    .array(z.object({ client_id: z.string(), reason: z.string() }))
    .describe('Clients that have not; at most 100'),
  lagging_count: z.number(),
  away: z
    .array(z.object({ client_id: z.string(), reason: z.string() }))
    .describe('Clients concerned that are away since before it was recorded, and do not have it; at most 100'),
  away_count: z.number(),
  unknown: z.array(z.string()).describe('Concerned OPAL clients, which do not report what they hold'),
  incomplete: z.string().optional().describe('Why clients may be missing from the lists'),
});

const publishedAnswer = z.object({
  status: z.literal('ok'),
  id: z.string(),
  seq: z.number(),
  epoch: z.string(),
  subscribers: z.number(),
  hides: z
    .array(z.string())
    .optional()
    .describe(
      'Folders of the served commit with data that the update replaces or deletes, in later commits, too; at most 100. Missing: none, or it is not known',
    ),
});

/**
 * `POST /data/config`, `/data/callback_report` and the empty default source `/policy-data`
 * (specification "Sync server"; opal-protocol P2.3).
 */
export function dataRoutes(app: FastifyInstance, deps: DataRoutesDeps): void {
  addRoute(
    app,
    {
      method: 'POST',
      path: '/data/config',
      access: ['datasource'],
      limited: 'own',
      tag: 'Data',
      summary: 'Publish a data update',
      description: 'Responds once the update is in the update log. From then on, every concerned client receives it.',
      query: publishQuery,
      body: dataUpdate,
      responses: {
        200: {
          description:
            'Recorded and delivered. With wait=applied, all concerned clients have applied it but those in `away`',
          schema: publishedAnswer.extend(waitAnswer.partial().shape),
        },
        202: {
          description: 'Recorded and delivered, but with wait=applied not all concerned clients have applied it yet',
          schema: publishedAnswer.extend(waitAnswer.shape),
        },
      },
    },
    async ({ query, body, caller, request, reply }) => {
      authorizeUpdate(body, caller);
      const key = idempotencyKey(request);
      // What the response to a repetition says has to be in the record.
      const once = key === undefined ? undefined : { key, elsewhere: deps.countElsewhere };
      const { replayed, ...published } = await deps.publisher.publish(body, caller.subject, {
        once,
        traceparent: validTraceparent(request.headers.traceparent),
      });
      if (replayed) reply.header('idempotency-replayed', 'true');
      const { seq } = published;
      const topics = new Set(body.entries.flatMap((entry) => expandTopics(entry.topics)));
      const elsewhere = once === undefined ? await deps.countElsewhere(topics) : 0;
      const waited = await waitAsAsked(
        query,
        { update: body, topics, seq },
        { caller, request, reply },
        deps.waitApplied,
      );
      const hides = hiddenData(body.entries, deps.dataPlaces());
      return {
        ...{ status: 'ok', ...published, subscribers: published.subscribers + elsewhere },
        ...(hides.length > 0 && { hides }),
        ...waited,
      };
    },
  );

  addRoute(
    app,
    {
      method: 'POST',
      path: '/data/callback_report',
      access: 'token',
      limited: 'all',
      tag: 'Data',
      summary: 'Accepts the report of a client on an update',
      body: updateReport,
      responses: { 200: { description: 'Logged', schema: z.object({}) } },
    },
    ({ body: report, caller }) => {
      const { update_id, policy_hash, reports } = report;
      const shown = reports.slice(0, LOGGED_REPORTS).map(({ entry, ...outcome }) => ({
        url: redactUrl(entry.url),
        path: entry.dst_path,
        method: entry.save_method,
        ...outcome,
      }));
      deps.log.info(
        { update_id, policy_hash, reported_by: caller.subject, entries: reports.length, reports: shown },
        'update report received',
      );
      return {};
    },
  );

  addRoute(
    app,
    {
      method: 'GET',
      path: '/policy-data',
      access: 'everyone',
      strangers: 'all',
      tag: 'Data',
      summary: 'An empty document: the data source of a server that has none',
      responses: { 200: { description: 'Always {}', schema: z.object({}) } },
    },
    () => ({}),
  );
}

/** The `Idempotency-Key` of a request. Throws `request_invalid`. */
function idempotencyKey({ headers }: FastifyRequest): string | undefined {
  const key = headers['idempotency-key'];
  if (key === undefined) return undefined;
  if (typeof key === 'string' && key !== '' && key.length <= MAX_KEY_CHARS) return key;
  throw new SyncError('request_invalid', `Idempotency-Key must be a text of 1 to ${MAX_KEY_CHARS} characters`);
}

/** Waits if the query asks for it; 202 on a timeout, or if a client refuses the update. */
async function waitAsAsked(
  { wait, timeout = DEFAULT_WAIT_MS }: z.infer<typeof publishQuery>,
  { update, topics, seq }: { update: DataUpdate; topics: ReadonlySet<string>; seq: number },
  { caller, request, reply }: { caller: Caller; request: FastifyRequest; reply: FastifyReply },
  waitApplied: Waiters['waitApplied'],
): Promise<Omit<WaitAnswer, 'done'> | undefined> {
  if (wait === undefined) return undefined;
  const paths = update.entries.map(({ dst_path }) => dst_path);
  const awaited = { seq, topics, paths, isLimited: limitsOf(caller).isLimited };
  const { done, ...answer } = await whileCallerWaits(request, caller, (gone) => waitApplied(awaited, timeout, gone));
  if (!done) reply.code(202);
  return answer;
}
