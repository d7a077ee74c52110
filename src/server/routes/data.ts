import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import * as z from 'zod';
import { bearerToken } from '../../auth/caller.js';
import { tokenRefused } from '../../auth/claims.js';
import { addRoute, type Call } from '../../http/route.js';
import { SyncError } from '../../lib/errors.js';
import { type Logger, redactUrl } from '../../lib/log.js';
import { dataUpdate, peerDataConfig, type ServerDataSources } from '../../wire/data.js';
import { PROTOCOL_HEADER, PROTOCOL_VERSION } from '../../wire/frames.js';
import { updateReport } from '../../wire/report.js';
import { expandTopics } from '../../wire/topics.js';
import { authorizeUpdate } from '../authorize-update.js';
import { ByteCache } from '../bundle/byte-cache.js';
import { baseIdentity } from '../log/base-entry.js';
import type { FoldedEntry, UpdateLog } from '../log/update-log.js';
import type { Publisher } from '../publish.js';
import type { Sessions } from '../sessions/sessions.js';
import { type ConfigPosition, extendedConfigText, opalConfigText } from '../update-text.js';
import { isShown, topicsQuery } from './paging.js';
import { publishQuery, waitAnswer, waitAsAsked } from './wait.js';

/** What the data routes need. */
export interface DataRoutesDeps {
  publisher: Publisher;
  updateLog: Pick<UpdateLog, 'epoch' | 'head' | 'fold'>;
  log: Logger;
  /** Counts the clients of other instances, and waits for clients with `?wait=applied`. */
  sessions?: Pick<Sessions, 'waitApplied' | 'countElsewhere'> | undefined;
}

/** The settings that the data routes depend on. */
export interface DataRoutesOptions {
  /** SYNC_DATA_CONFIG_SOURCES. */
  dataSources: ServerDataSources | undefined;
  /** SYNC_DATA_UPDATES_RETAINED. */
  updatesRetained: boolean;
}

/** Entries of one report that the log shows: a client's first load may have thousands. */
const LOGGED_REPORTS = 50;

/** Longest `Idempotency-Key`. */
const MAX_KEY_CHARS = 255;

/** Query of `GET /data/config`. */
const configQuery = z.object({
  origin: z.enum(['base', 'update']).optional().describe('base: the base entries alone; update: the updates alone'),
  topics: topicsQuery.optional().describe('Entries of these topics alone; separated by commas'),
});
type ConfigQuery = z.infer<typeof configQuery>;

const publishedAnswer = z.object({
  status: z.literal('ok'),
  id: z.string(),
  seq: z.number(),
  epoch: z.string(),
  subscribers: z.number(),
});

/** `/data/config`, `/data/callback_report` and the empty default source `/policy-data` (specification "Sync server"; opal-protocol P2.3). */
export function dataRoutes(app: FastifyInstance, options: DataRoutesOptions, deps: DataRoutesDeps): void {
  const configTexts = new ConfigTexts(options, deps.updateLog);

  addRoute(
    app,
    {
      method: 'POST',
      path: '/data/config',
      access: ['datasource'],
      tag: 'Data',
      summary: 'Publish a data update',
      description: 'Answers once the update is in the update log: from then on it reaches every client concerned.',
      query: publishQuery,
      body: dataUpdate,
      answers: {
        200: { description: 'Recorded and delivered', schema: publishedAnswer.extend(waitAnswer.partial().shape) },
        202: {
          description: 'Recorded and delivered; with wait=applied: not all clients concerned have applied it yet',
          schema: publishedAnswer.extend(waitAnswer.shape),
        },
      },
    },
    async ({ query, body, caller, request, reply }) => {
      authorizeUpdate(body, caller);
      const { replayed, ...published } = await deps.publisher.publish(body, caller.subject, {
        idempotencyKey: idempotencyKey(request),
      });
      if (replayed) reply.header('idempotency-replayed', 'true');
      const { seq } = published;
      const topics = [...new Set(body.entries.flatMap((entry) => expandTopics(entry.topics)))];
      const elsewhere = replayed ? 0 : ((await deps.sessions?.countElsewhere(topics)) ?? 0);
      const waited = await waitAsAsked(query, { update: body, topics, seq }, { caller, request, reply }, deps.sessions);
      return { status: 'ok', ...published, subscribers: published.subscribers + elsewhere, ...waited };
    },
  );

  addRoute(
    app,
    {
      method: 'GET',
      path: '/data/config',
      access: 'token',
      tag: 'Data',
      summary: 'Base entries and retained updates, in order',
      query: configQuery,
      answers: {
        200: { description: 'The entries', schema: peerDataConfig },
        307: { description: 'To the external data source API, with the token of the caller' },
      },
    },
    (call) => {
      const { request, reply, query } = call;
      const { dataSources } = options;
      // The API knows nothing of what was published here.
      if (dataSources !== undefined && 'external_source_url' in dataSources && query.origin !== 'update') {
        return redirectToSource(dataSources.external_source_url, call);
      }
      const extended = speaksOurs(request);
      if (extended) reply.header(PROTOCOL_HEADER, String(PROTOCOL_VERSION));
      return reply.type('application/json').send(configTexts.get(extended, call.caller.permittedTopics, query));
    },
  );

  addRoute(
    app,
    {
      method: 'POST',
      path: '/data/callback_report',
      access: 'token',
      tag: 'Data',
      summary: 'Takes the report of a client on an update',
      body: updateReport,
      answers: { 200: { description: 'Logged', schema: z.object({}) } },
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
      tag: 'Data',
      summary: 'An empty document: the data source of a server that has none',
      answers: { 200: { description: 'Always {}', schema: z.object({}) } },
    },
    () => ({}),
  );
}

/** True when the caller offered our extensions. Other peers never get a field that they did not ask for (design D29). */
function speaksOurs(request: FastifyRequest): boolean {
  const offered = request.headers[PROTOCOL_HEADER];
  return typeof offered === 'string' && Number(offered) >= 1;
}

/** The `Idempotency-Key` of a request. Throws `request_invalid`. */
function idempotencyKey({ headers }: FastifyRequest): string | undefined {
  const key = headers['idempotency-key'];
  if (key === undefined) return undefined;
  if (typeof key === 'string' && key !== '' && key.length <= MAX_KEY_CHARS) return key;
  throw new SyncError('request_invalid', `Idempotency-Key must be a text of 1 to ${MAX_KEY_CHARS} characters`);
}

/** Memory for the answers to callers that see or want only some of it. */
const LIMITED_TEXTS_BYTES = 32 * 1024 * 1024;

/**
 * The answer of `GET /data/config`, printed once per state of the log: after a restart of the server all clients ask in
 * the same moment. Callers that may see the same topics, and want the same, get the same bytes: a text would be copied for
 * each of them, and kept until it has read it.
 */
class ConfigTexts {
  readonly #options: DataRoutesOptions;
  readonly #log: DataRoutesDeps['updateLog'];
  #head = -1;
  #shown: readonly FoldedEntry[] = [];
  readonly #texts = new Map<boolean, Buffer>();
  #limited = limitedTexts();

  constructor(options: DataRoutesOptions, log: DataRoutesDeps['updateLog']) {
    this.#options = options;
    this.#log = log;
  }

  /** `permitted`: the topics that the caller is limited to; entries of other topics are not in its answer. */
  get(extended: boolean, permitted: ReadonlySet<string> | undefined, { topics, origin }: ConfigQuery): Buffer {
    // The fold may change without the head: updates leave it when their time is up.
    const fold = this.#log.fold();
    if (this.#head !== this.#log.head || this.#shown !== fold) {
      this.#texts.clear();
      this.#limited = limitedTexts();
      this.#head = this.#log.head;
      this.#shown = fold;
    }
    if (permitted !== undefined || topics !== undefined || origin !== undefined) {
      return this.#limitedText(extended, permitted, topics, origin);
    }
    let text = this.#texts.get(extended);
    if (text === undefined) {
      text = this.#print(extended, this.#fold());
      this.#texts.set(extended, text);
    }
    return text;
  }

  #limitedText(
    extended: boolean,
    permitted: ReadonlySet<string> | undefined,
    topics: ReadonlySet<string> | undefined,
    origin: ConfigQuery['origin'],
  ): Buffer {
    const listed = (names: ReadonlySet<string> | undefined): string[] | null => (names ? [...names].sort() : null);
    const key = JSON.stringify([extended, listed(permitted), listed(topics), origin ?? null]);
    const known = this.#limited.get(key);
    if (known !== undefined) return known.text;
    const fold = this.#fold().filter(
      (folded) => (origin === undefined || folded.origin === origin) && isShown(folded.entry.topics, permitted, topics),
    );
    const text = this.#print(extended, fold);
    this.#limited.set(key, { text, bytes: text.length + 2 * key.length });
    return text;
  }

  #print(extended: boolean, fold: readonly FoldedEntry[]): Buffer {
    return Buffer.from(extended ? extendedConfigText(fold, this.#position()) : opalConfigText(fold));
  }

  /** An update that says the same as a base entry is not repeated. */
  #fold(): readonly FoldedEntry[] {
    const base = new Set(this.#shown.filter(({ origin }) => origin === 'base').map(({ entry }) => baseIdentity(entry)));
    if (base.size === 0 && this.#options.updatesRetained) return this.#shown;
    return this.#shown.filter(
      ({ origin, entry }) => origin === 'base' || (this.#options.updatesRetained && !base.has(baseIdentity(entry))),
    );
  }

  #position(): ConfigPosition {
    const baseSet = this.#options.dataSources !== undefined;
    // An answer without the updates is not a complete fold. With no epoch a client compares nothing and so removes
    // nothing (design D11).
    if (!this.#options.updatesRetained) return { baseSet };
    return { epoch: this.#log.epoch, head: this.#log.head, baseSet };
  }
}

function limitedTexts(): ByteCache<{ text: Buffer; bytes: number }> {
  return new ByteCache(LIMITED_TEXTS_BYTES, ({ bytes }) => bytes);
}

/**
 * 307 to the operator's API with the caller's token set as `token` (specification authentication.3). The API identifies the caller
 * by it, so without one there is nothing to redirect to: 401.
 */
function redirectToSource(sourceUrl: string, { request, reply }: Call<ConfigQuery, unknown>): FastifyReply {
  const token = bearerToken(request.headers.authorization);
  if (token === undefined) {
    throw tokenRefused('access token was not provided');
  }
  const target = new URL(sourceUrl);
  target.searchParams.set('token', token);
  return reply.code(307).header('location', target.href).send();
}
