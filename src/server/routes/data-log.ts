import type { FastifyInstance } from 'fastify';
import * as z from 'zod';
import { isPermittedPath } from '../../auth/authorize.js';
import { isDatasource, limitsOf, type Permitted } from '../../auth/caller.js';
import { addRoute } from '../../http/route.js';
import { printJson } from '../../lib/json/json-text.js';
import { type Logger, redactUrl } from '../../lib/observe/log.js';
import { isHttpFetcher, type PeerEntry } from '../../wire/data.js';
import { docPathText, isAtOrBelow, parseDocPath } from '../../wire/doc-path.js';
import { DocumentList, type DocumentsDeps } from '../documents/documents.js';
import { lookThrough, partFor } from '../log/look-through.js';
import type { AuditEntry, AuditRecord, HistoryReader, LogRecord } from '../log/update-log.js';
import type { ServerOptions } from '../options.js';
import { charsOf, docPath, isShown, RESPONSE_PAGE_CHARS } from './paging.js';

export interface DataLogDeps {
  updateLog: HistoryReader;
  log: Logger;
}

/** Updates on a page, and documents on one. */
const UPDATES_LIMIT = 100;
const DOCUMENTS_LIMIT = 200;
const MAX_LIMIT = 1000;
/** Most seqs that the log line of a read of values names. */
const SEQS_LOGGED = 20;

const moment = z
  .string()
  .transform((text) => (/^\d+$/.test(text) ? Number(text) : Date.parse(text)))
  .refine((ms) => Number.isFinite(ms), 'must be an ISO 8601 time, or milliseconds since 1970');

const logQuery = z.object({
  before: z.coerce
    .number()
    .int()
    .min(1)
    .optional()
    .describe('Only updates before this seq; `next` of the previous page'),
  limit: z.coerce.number().int().min(1).max(MAX_LIMIT).default(UPDATES_LIMIT),
  topic: z.string().optional(),
  path: docPath.optional().describe('Only entries at or below this path'),
  since: moment.optional().describe('ISO 8601, or milliseconds since 1970'),
  until: moment.optional(),
  publisher: z.string().optional().describe('Subject of the publisher’s token'),
  include: z.literal('secrets').optional().describe('Include header values and inline data'),
});
type LogQuery = z.infer<typeof logQuery>;

const logAnswer = z.object({
  epoch: z.string(),
  head: z.number(),
  updates: z.array(
    z.looseObject({ seq: z.number(), id: z.string(), time: z.string(), publisher: z.string().nullable() }),
  ),
  next: z.number().nullable().describe('`before` of the next page; null: this is the last one'),
});

/** `GET /data/log`: who published what, when and why, newest first, while the log keeps it. */
export function dataLogRoutes(app: FastifyInstance, { updateLog, log }: DataLogDeps): void {
  addRoute(
    app,
    {
      method: 'GET',
      path: '/data/log',
      access: ['datasource'],
      limited: 'own',
      tag: 'Data',
      scans: true,
      summary: 'Who published what, when and why',
      query: logQuery,
      responses: { 200: { description: 'Updates, newest first', schema: logAnswer } },
    },
    async ({ query, caller, request, reply }) => {
      const fits = fitting(query, caller);
      const { records, next } = await look(updateLog, query, caller, fits);
      if (query.include === 'secrets') {
        const path = query.path === undefined ? null : docPathText(query.path);
        const what = { path, topic: query.topic, updates: records.map(({ seq }) => seq).slice(0, SEQS_LOGGED) };
        const who = { subject: caller.subject, address: request.ip };
        log.info({ ...who, ...what, count: records.length }, 'values and header values of data updates were read');
      }
      const updates = query.include === 'secrets' ? await whole(updateLog, records, fits) : records.map(shownRecord);
      const { epoch, head } = updateLog;
      return reply.type('application/json').send(printJson({ epoch, head, updates, next: next ?? null }));
    },
  );
}

/** Whether an entry is asked for, and the caller may see it. */
type Fits = (entry: Pick<PeerEntry, 'topics' | 'dst_path'>) => boolean;

function fitting({ topic, path }: LogQuery, { permittedTopics, permittedPaths }: Permitted): Fits {
  const wanted = topic === undefined ? undefined : new Set([topic]);
  return ({ topics, dst_path }) =>
    isShown(topics, permittedTopics, wanted) &&
    (permittedPaths === undefined || isPermittedPath(parseDocPath(dst_path), permittedPaths)) &&
    (path === undefined || isAtOrBelow(parseDocPath(dst_path), path));
}

async function look(
  log: DataLogDeps['updateLog'],
  query: LogQuery,
  permitted: Permitted,
  fits: Fits,
): Promise<{ records: AuditRecord[]; next: number | undefined }> {
  const records: AuditRecord[] = [];
  const { topic, publisher, since, until, limit } = query;
  const part = partFor(log, { ...permitted, topic, publisher });
  if (part === undefined) return { records, next: undefined };
  let chars = 0;
  let next: number | undefined;
  const rest = await lookThrough(log, query.before ?? log.head + 1, part, (record) => {
    if (since !== undefined && record.timeMs < since) return false;
    if (until !== undefined && record.timeMs > until) return true;
    if (publisher !== undefined && record.publisher !== publisher) return true;
    const entries = record.entries.filter(fits);
    if (entries.length === 0) return true;
    records.push({ ...record, entries });
    chars += charsOf({ ...record, entries }, query.include === 'secrets');
    const isFull = records.length >= limit || chars >= RESPONSE_PAGE_CHARS;
    if (isFull && record.seq > 1) next = record.seq;
    return !isFull;
  });
  return { records, next: rest?.next ?? next };
}

function shownRecord({ timeMs, entries, once: _once, ...record }: AuditRecord): object {
  return {
    ...record,
    time: new Date(timeMs).toISOString(),
    entries: entries.map(shownEntry),
    callbacks: record.callbacks.map(shownCallback),
  };
}

/** The records with all that they have. One that was dropped meanwhile is left out. */
async function whole(log: HistoryReader, records: readonly AuditRecord[], fits: Fits): Promise<readonly object[]> {
  const found: LogRecord[] = [];
  for (const { seq } of records) {
    const record = await log.record(seq);
    if (record !== undefined) found.push(record);
  }
  return found.map(({ timeMs, entries, once: _once, ...record }) => ({
    ...record,
    time: new Date(timeMs).toISOString(),
    entries: entries.filter(fits).map(wholeEntry),
  }));
}

function wholeEntry(entry: PeerEntry): object {
  const { url, config, topics, dst_path, save_method, data } = entry;
  return { url, config: config ?? undefined, topics, dst_path, save_method, data: data ?? undefined };
}

/** Returns an entry without possible secrets. */
function shownEntry({ url, config, topics, dst_path, save_method, dataBytes }: AuditEntry): object {
  return {
    url: redactUrl(url),
    config: config ? shownConfig(config) : undefined,
    topics,
    dst_path,
    save_method,
    data_bytes: dataBytes,
  };
}

function shownConfig(config: NonNullable<PeerEntry['config']>): object {
  const { fetcher, method, headers } = config;
  if (!isHttpFetcher(fetcher)) return { fetcher };
  const names = typeof headers === 'object' && headers !== null ? Object.keys(headers) : [];
  return { fetcher: fetcher ?? undefined, method, headers: Object.fromEntries(names.map((name) => [name, '***'])) };
}

function shownCallback(callback: unknown): unknown {
  const url: unknown = Array.isArray(callback) ? callback[0] : callback;
  return typeof url === 'string' ? redactUrl(url) : null;
}

const documentsQuery = z.object({
  prefix: docPath.optional().describe('Only documents at or below this path'),
  after: docPath.optional().describe('Only documents whose paths come after this one: `next` of the previous page'),
  limit: z.coerce.number().int().min(1).max(MAX_LIMIT).default(DOCUMENTS_LIMIT).describe('Page size'),
});

/**
 * `GET /data/documents`: what a new client would write, path by path, without the values
 * (docs/reference/fleet-api.md).
 */
export function documentsRoute(
  app: FastifyInstance,
  { dataSources, updatesRetained }: Pick<ServerOptions, 'dataSources' | 'updatesRetained'>,
  deps: Omit<DocumentsDeps, 'updatesRetained' | 'externalSource'>,
): void {
  const isExternal = dataSources !== undefined && 'external_source_url' in dataSources;
  const externalSource = isExternal ? dataSources.external_source_url : undefined;
  const documents = new DocumentList({ ...deps, updatesRetained, externalSource });
  addRoute(
    app,
    {
      method: 'GET',
      path: '/data/documents',
      access: ['datasource', 'listener'],
      limited: 'own',
      tag: 'Data',
      scans: true,
      summary: 'The documents that a new client would write, by path',
      description:
        'Without their values: `GET /data/log?path=...&include=secrets` has those of inline data, for datasource tokens.',
      query: documentsQuery,
      responses: {
        200: {
          description: 'A page of the documents, by path',
          schema: async () => (await import('../../wire/fleet-views.js')).documentsAnswer,
        },
      },
    },
    async ({ query, caller }) =>
      await documents.page({ ...query, limits: limitsOf(caller), seesPublisher: isDatasource(caller) }),
  );
}
