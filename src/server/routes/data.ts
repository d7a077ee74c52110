import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { z } from 'zod';
import { bearerToken } from '../../auth/caller.js';
import { tokenRefused } from '../../auth/claims.js';
import { permitTopics } from '../../auth/permit.js';
import { addRoute, type Call } from '../../http/route.js';
import { type Logger, redactUrl } from '../../lib/log.js';
import { dataUpdate, peerDataConfig, type ServerDataSources } from '../../wire/data.js';
import { PROTOCOL_HEADER, PROTOCOL_VERSION } from '../../wire/frames.js';
import { updateReport } from '../../wire/report.js';
import { ByteCache } from '../bundle/byte-cache.js';
import type { FoldedEntry, UpdateLog } from '../log/update-log.js';
import type { Publisher } from '../publish.js';
import { type ConfigPosition, extendedConfigText, opalConfigText } from '../update-text.js';

/** What the data routes need. */
export interface DataRoutesDeps {
  publisher: Publisher;
  updateLog: Pick<UpdateLog, 'epoch' | 'head' | 'fold'>;
  log: Logger;
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

const publishedAnswer = z.object({
  status: z.literal('ok'),
  id: z.string(),
  seq: z.number(),
  epoch: z.string(),
  subscribers: z.number(),
});

/** `/data/config`, `/data/callback_report` and the empty default source `/policy-data` (spec Endpoints; protocol-facts 2.3). */
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
      body: dataUpdate,
      answers: { 200: { description: 'Recorded and delivered', schema: publishedAnswer } },
    },
    async ({ body, caller }) => {
      permitTopics(
        body.entries.flatMap((entry) => entry.topics),
        caller.permittedTopics,
      );
      return { status: 'ok', ...(await deps.publisher.publish(body, caller.subject)) };
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
      answers: {
        200: { description: 'The entries', schema: peerDataConfig },
        307: { description: 'To the external data source API, with the token of the caller' },
      },
    },
    (call) => {
      const { request, reply } = call;
      if (options.dataSources !== undefined && 'external_source_url' in options.dataSources) {
        return redirectToSource(options.dataSources.external_source_url, call);
      }
      const extended = speaksOurs(request);
      if (extended) reply.header(PROTOCOL_HEADER, String(PROTOCOL_VERSION));
      return reply.type('application/json').send(configTexts.get(extended, call.caller.permittedTopics));
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
      answers: { 200: { description: 'Logged' } },
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

/** True when the caller offered our extensions. Other peers never get a field that they did not ask for (design 4). */
function speaksOurs(request: FastifyRequest): boolean {
  const offered = request.headers[PROTOCOL_HEADER];
  return typeof offered === 'string' && Number(offered) >= PROTOCOL_VERSION;
}

/** Memory for the answers to callers that are limited to topics. */
const LIMITED_TEXTS_BYTES = 32 * 1024 * 1024;

/**
 * The answer of `GET /data/config`, printed once per position of the log: after a restart of the server all clients ask
 * in the same moment. Callers that may see the same topics get the same text.
 */
class ConfigTexts {
  readonly #options: DataRoutesOptions;
  readonly #log: DataRoutesDeps['updateLog'];
  #head = -1;
  readonly #texts = new Map<boolean, string>();
  #limited = limitedTexts();

  constructor(options: DataRoutesOptions, log: DataRoutesDeps['updateLog']) {
    this.#options = options;
    this.#log = log;
  }

  /** `permitted`: the topics that the caller is limited to; entries of other topics are not in its answer. */
  get(extended: boolean, permitted: ReadonlySet<string> | undefined): string {
    if (this.#head !== this.#log.head) {
      this.#texts.clear();
      this.#limited = limitedTexts();
      this.#head = this.#log.head;
    }
    if (permitted !== undefined) return this.#limitedText(extended, permitted);
    let text = this.#texts.get(extended);
    if (text === undefined) {
      text = this.#print(extended, this.#fold());
      this.#texts.set(extended, text);
    }
    return text;
  }

  #limitedText(extended: boolean, permitted: ReadonlySet<string>): string {
    const key = JSON.stringify([extended, ...[...permitted].sort()]);
    const known = this.#limited.get(key);
    if (known !== undefined) return known.text;
    const fold = this.#fold().filter(({ entry }) => entry.topics.some((topic) => permitted.has(topic)));
    const text = this.#print(extended, fold);
    this.#limited.set(key, { text, bytes: 2 * (text.length + key.length) });
    return text;
  }

  #print(extended: boolean, fold: readonly FoldedEntry[]): string {
    return extended ? extendedConfigText(fold, this.#position()) : opalConfigText(fold);
  }

  #fold(): readonly FoldedEntry[] {
    const fold = this.#log.fold();
    return this.#options.updatesRetained ? fold : fold.filter(({ origin }) => origin === 'base');
  }

  #position(): ConfigPosition {
    const baseSet = this.#options.dataSources !== undefined;
    // An answer without the updates is not a complete fold. With no epoch a client compares nothing and so removes
    // nothing (design 9.3).
    if (!this.#options.updatesRetained) return { baseSet };
    return { epoch: this.#log.epoch, head: this.#log.head, baseSet };
  }
}

function limitedTexts(): ByteCache<{ text: string; bytes: number }> {
  return new ByteCache(LIMITED_TEXTS_BYTES, ({ bytes }) => bytes);
}

/**
 * 307 to the operator's API with the caller's token set as `token` (spec Authentication 3). The API identifies the caller
 * by it, so without one there is nothing to redirect to: 401.
 */
function redirectToSource(sourceUrl: string, { request, reply }: Call<unknown, unknown>): FastifyReply {
  const token = bearerToken(request.headers.authorization);
  if (token === undefined) {
    throw tokenRefused('access token was not provided');
  }
  const target = new URL(sourceUrl);
  target.searchParams.set('token', token);
  return reply.code(307).header('location', target.href).send();
}
