import type { FastifyInstance } from 'fastify';
import * as z from 'zod';
import { addRoute } from '../../http/route.js';
import { SyncError } from '../../lib/errors.js';
import { loggedUpdate, updatesPage } from '../../wire/updates.js';
import { baseIdentity } from '../log/base-entry.js';
import type { FoldedEntry, LogRecord, UpdateLog } from '../log/update-log.js';
import { waitForSeq } from '../log/wait-for-seq.js';
import { type UpdatesText, updatesPageText } from '../update-text.js';
import { charsOf, isShown, PAGE_CHARS, topicsQuery } from './paging.js';

export interface DataUpdatesDeps {
  updateLog: Pick<UpdateLog, 'epoch' | 'head' | 'fold' | 'tail' | 'heads'>;
}

const DEFAULT_LIMIT = 500;
const MAX_LIMIT = 1000;
/** If the tail is longer than this and than the fold, the fold is sent. */
const LONG_TAIL = 1000;

const updatesQuery = z.object({
  epoch: z.string().max(200).optional().describe('Epoch of the position `after`'),
  after: z.coerce.number().int().min(0).default(0).describe('Seq up to which everything is known'),
  topics: topicsQuery.optional().describe('Only updates of these topics; separated by commas'),
  limit: z.coerce.number().int().min(1).max(MAX_LIMIT).default(DEFAULT_LIMIT).describe('Page size'),
});

/** The documented page. Clients ignore the time. */
const shownPage = updatesPage.extend({
  updates: z.array(loggedUpdate.extend({ time: z.string().describe('When it was recorded') })),
});

type PageUpdate = UpdatesText['updates'][number];
type Shown = (topics: readonly string[]) => boolean;

/**
 * `GET /data/updates`: published updates after a position, without base entries. Returns the tail of the log after a short absence,
 * otherwise its fold. A page is never empty while there is more.
 */
export function dataUpdatesRoutes(
  app: FastifyInstance,
  options: { updatesRetained: boolean; isShared: boolean },
  { updateLog }: DataUpdatesDeps,
): void {
  addRoute(
    app,
    {
      method: 'GET',
      path: '/data/updates',
      access: 'token',
      tag: 'Data',
      summary: 'Updates after a position in the log',
      query: updatesQuery,
      responses: { 200: { description: 'A page of them, in order', schema: shownPage } },
    },
    async ({ query, caller, reply }) => {
      if (!options.updatesRetained) {
        throw new SyncError(
          'not_enabled',
          'SYNC_DATA_UPDATES_RETAINED is false: this server does not return past updates',
        );
      }
      const { permittedTopics } = caller;
      const shown: Shown = (topics) => isShown(topics, permittedTopics, query.topics);
      if (options.isShared && query.epoch === updateLog.epoch) await seen(updateLog, query.after);
      const page = await pageOf(updateLog, query, shown);
      const heads = updateLog.heads([...(query.topics ?? permittedTopics ?? [])].filter((topic) => shown([topic])));
      return reply.type('application/json').send(updatesPageText({ ...page, heads }));
    },
  );
}

/** Waits for a seq: a shared log never moves back within an epoch, so a caller with a later position comes from an instance ahead. */
async function seen(log: DataUpdatesDeps['updateLog'], after: number): Promise<void> {
  if (await waitForSeq(log, after)) return;
  throw new SyncError('backbone_unavailable', `this instance has read the log up to ${log.head}, not yet to ${after}`, {
    retryable: true,
    retryAfterSeconds: 2,
  });
}

async function pageOf(
  log: DataUpdatesDeps['updateLog'],
  query: z.infer<typeof updatesQuery>,
  shown: Shown,
): Promise<Omit<UpdatesText, 'heads'>> {
  const { epoch } = log;
  // A head behind the position means another log, despite the same epoch (design D25): a restored file.
  const isKnown = query.epoch === epoch && query.after <= log.head;
  const after = isKnown ? query.after : 0;
  if (isKnown && log.head - after <= Math.max(LONG_TAIL, log.fold().length)) {
    const tail = await tailPage(log, after, query.limit, shown);
    if (tail !== undefined) return { epoch, from: 'tail', ...tail };
  }
  return { epoch, head: log.head, from: 'fold', ...foldPage(log.fold(), after, query.limit, shown) };
}

/** Reads until the page is full or the log ends; undefined if the tail does not reach back that far. */
async function tailPage(
  log: DataUpdatesDeps['updateLog'],
  after: number,
  limit: number,
  shown: Shown,
): Promise<Pick<UpdatesText, 'updates' | 'more' | 'head'> | undefined> {
  const page = new Page(limit);
  for (let at = after; ; ) {
    const tail = await log.tail(at, limit);
    if (tail === undefined) return undefined;
    for (const record of tail.records) {
      const entries = record.entries.filter(({ topics }) => shown(topics));
      if (entries.length > 0 && !page.add({ ...record, entries })) {
        return { updates: page.updates, more: true, head: log.head };
      }
    }
    // Not the current head: updates appended since are not in the page and would count as read.
    if (!tail.more) return { updates: page.updates, more: false, head: tail.through };
    at = tail.through;
  }
}

/** Returns the live updates after a position, without those that repeat a base entry. */
function foldPage(
  fold: readonly FoldedEntry[],
  after: number,
  limit: number,
  shown: Shown,
): { updates: PageUpdate[]; more: boolean } {
  const base = new Set(fold.filter(({ origin }) => origin === 'base').map(({ entry }) => baseIdentity(entry)));
  const page = new Page(limit);
  let current: (PageUpdate & { entries: LogRecord['entries'][number][] }) | undefined;
  for (const { seq, origin, entry, update } of fold) {
    const isPart = origin === 'update' && seq > after && shown(entry.topics);
    if (!isPart || (base.size > 0 && base.has(baseIdentity(entry)))) continue;
    if (current?.seq === seq) {
      current.entries.push(entry);
      continue;
    }
    if (current !== undefined && !page.add(current)) return { updates: page.updates, more: true };
    const { id = '', reason = null, timeMs = 0 } = update ?? {};
    current = { id, seq, timeMs, reason, entries: [entry], callbacks: [] };
  }
  const isWhole = current === undefined || page.add(current);
  return { updates: page.updates, more: !isWhole };
}

/** Collects updates until it is full; the first always fits. */
class Page {
  readonly updates: PageUpdate[] = [];
  readonly #limit: number;
  #chars = 0;

  constructor(limit: number) {
    this.#limit = limit;
  }

  /** Returns false if the update does not fit. */
  add(update: PageUpdate): boolean {
    const chars = charsOf(update);
    const isFull = this.updates.length >= this.#limit || this.#chars + chars > PAGE_CHARS;
    if (isFull && this.updates.length > 0) return false;
    this.updates.push(update);
    this.#chars += chars;
    return true;
  }
}
