import type { FastifyInstance } from 'fastify';
import * as z from 'zod';
import { isPermittedPath } from '../../auth/authorize.js';
import type { Permitted } from '../../auth/caller.js';
import { addRoute } from '../../http/route.js';
import { printJson } from '../../lib/json-text.js';
import { type Logger, redactUrl } from '../../lib/log.js';
import { isHttpFetcher, type PeerEntry } from '../../wire/data.js';
import { docPathText, isAtOrBelow, isDocPath, parseDocPath } from '../../wire/doc-path.js';
import type { AuditRecord, UpdateLog } from '../log/update-log.js';
import { charsOf, isShown, PAGE_CHARS } from './paging.js';

export interface DataLogDeps {
  updateLog: Pick<UpdateLog, 'epoch' | 'head' | 'audit'>;
  log: Logger;
}

const DEFAULT_LIMIT = 100;
const MAX_LIMIT = 1000;
/** Maximum rows that one request scans: a filter that matches nothing must not read the whole log. */
const LOOKED_THROUGH = 20_000;
const ROWS_AT_ONCE = 500;
/** Most seqs that the log line of a read of values names. */
const SEQS_LOGGED = 20;

const moment = z
  .string()
  .transform((text) => (/^\d+$/.test(text) ? Number(text) : Date.parse(text)))
  .refine((ms) => Number.isFinite(ms), 'must be an ISO 8601 time, or milliseconds since 1970');
const docPath = z
  .string()
  .refine(isDocPath, 'must be a path without . and .. segments')
  .transform((text) => parseDocPath(text));

const logQuery = z.object({
  before: z.coerce
    .number()
    .int()
    .min(1)
    .optional()
    .describe('Only updates before this seq; `next` of the previous page'),
  limit: z.coerce.number().int().min(1).max(MAX_LIMIT).default(DEFAULT_LIMIT),
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

/** `GET /data/log`: who published what, when and why, newest first, within the retention of the log. */
export function dataLogRoutes(app: FastifyInstance, { updateLog, log }: DataLogDeps): void {
  addRoute(
    app,
    {
      method: 'GET',
      path: '/data/log',
      access: ['datasource'],
      tag: 'Data',
      summary: 'Who published what, when and why',
      query: logQuery,
      responses: { 200: { description: 'Updates, newest first', schema: logAnswer } },
    },
    async ({ query, caller, request, reply }) => {
      const { records, next } = await look(updateLog, query, caller);
      if (query.include === 'secrets') {
        const path = query.path === undefined ? null : docPathText(query.path);
        const what = { path, topic: query.topic, updates: records.map(({ seq }) => seq).slice(0, SEQS_LOGGED) };
        const who = { subject: caller.subject, address: request.ip };
        log.info({ ...who, ...what, count: records.length }, 'values and header values of data updates were read');
      }
      const print = query.include === 'secrets' ? wholeEntry : shownEntry;
      const updates = records.map(({ timeMs, entries, once: _once, ...record }) => ({
        ...record,
        time: new Date(timeMs).toISOString(),
        entries: entries.map(print),
        callbacks: query.include === 'secrets' ? record.callbacks : record.callbacks.map(shownCallback),
      }));
      const { epoch, head } = updateLog;
      return reply.type('application/json').send(printJson({ epoch, head, updates, next: next ?? null }));
    },
  );
}

async function look(
  log: DataLogDeps['updateLog'],
  query: LogQuery,
  { permittedTopics, permittedPaths }: Permitted,
): Promise<{ records: AuditRecord[]; next: number | undefined }> {
  const records: AuditRecord[] = [];
  const wanted = query.topic === undefined ? undefined : new Set([query.topic]);
  let chars = 0;
  let before = query.before ?? log.head + 1;
  const lowest = before - LOOKED_THROUGH;
  for (;;) {
    const page = await log.audit(before, ROWS_AT_ONCE);
    for (const record of page.records) {
      if (query.since !== undefined && record.timeMs < query.since) return { records, next: undefined };
      if (query.until !== undefined && record.timeMs > query.until) continue;
      if (query.publisher !== undefined && record.publisher !== query.publisher) continue;
      const entries = record.entries.filter(
        (entry) =>
          isShown(entry.topics, permittedTopics, wanted) &&
          (permittedPaths === undefined || isPermittedPath(parseDocPath(entry.dst_path), permittedPaths)) &&
          (query.path === undefined || isAtOrBelow(parseDocPath(entry.dst_path), query.path)),
      );
      if (entries.length === 0) continue;
      records.push({ ...record, entries });
      chars += charsOf({ ...record, entries }, query.include === 'secrets');
      const isFull = records.length >= query.limit || chars >= PAGE_CHARS;
      if (isFull) return { records, next: record.seq > 1 ? record.seq : undefined };
    }
    if (page.next === undefined || page.next <= 1) return { records, next: undefined };
    before = page.next;
    if (before <= lowest) return { records, next: before };
  }
}

function wholeEntry(entry: PeerEntry): object {
  const { url, config, topics, dst_path, save_method, data } = entry;
  return { url, config: config ?? undefined, topics, dst_path, save_method, data: data ?? undefined };
}

/** Returns an entry without possible secrets. */
function shownEntry({ url, config, topics, dst_path, save_method, data }: PeerEntry): object {
  return {
    url: redactUrl(url),
    config: config ? shownConfig(config) : undefined,
    topics,
    dst_path,
    save_method,
    data_bytes: data ? Buffer.byteLength(data.text) : undefined,
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
