import type { FastifyInstance } from 'fastify';
import * as z from 'zod';
import { addRoute } from '../../http/route.js';
import { SyncError } from '../../lib/errors.js';
import { loggedUpdate, updatesPage } from '../../wire/catch-up-page.js';
import type { FoldedEntry, FoldReader, LogRecord, LogTail, ShowsTopics } from '../log/update-log.js';
import { waitForSeq } from '../log/wait-for-seq.js';
import { type UpdatesText, updatesPageText } from '../publish/update-text.js';
import { charsOf, isShown, PageTexts, RESPONSE_PAGE_CHARS, topicsQuery } from './paging.js';

export interface DataUpdatesDeps {
  updateLog: FoldReader & LogTail;
}

const DEFAULT_LIMIT = 500;
const MAX_LIMIT = 1000;
/** If the tail is longer than this and than what the caller sees of the fold, that is sent. */
const LONG_TAIL = 1000;
/** Characters of rows of a tail that one request looks through. */
const LOOKED_CHARS = 64 * 1024 * 1024;

const updatesQuery = z.object({
  epoch: z.string().max(200).optional().describe('Epoch of the position `after`'),
  after: z.coerce.number().int().min(0).default(0).describe('Seq up to which everything is known'),
  topics: topicsQuery.optional().describe('Only updates of these topics; separated by commas'),
  from: z.literal('fold').optional().describe('Go on with the fold after the seq `after`, as a page of it says'),
  ended: z
    .enum(['true', 'false'])
    .optional()
    .describe('true: the fold with late deletions that remove nothing of it, for engines that were filled before'),
  limit: z.coerce.number().int().min(1).max(MAX_LIMIT).default(DEFAULT_LIMIT).describe('Page size'),
});

/** The documented page. Clients ignore the time. */
const shownPage = updatesPage.extend({
  updates: z.array(loggedUpdate.extend({ time: z.string().describe('When it was recorded') })),
});

type PageUpdate = UpdatesText['updates'][number];
/** What a caller sees of the log. */
interface Sight {
  readonly shows: ShowsTopics;
  /** The topics that it sees; undefined: all. */
  readonly topics: readonly string[] | undefined;
  /** Last seq of an update that it sees; the topics alone tell. */
  newest(): number;
}

/**
 * `GET /data/updates`: published updates after a position, without base entries. Returns the tail
 * of the log after a short absence, otherwise its fold. A page is never empty while there is more.
 */
export function dataUpdatesRoutes(
  app: FastifyInstance,
  options: { updatesRetained: boolean; isShared: boolean },
  { updateLog }: DataUpdatesDeps,
): void {
  const texts = new PageTexts(updateLog);
  addRoute(
    app,
    {
      method: 'GET',
      path: '/data/updates',
      access: 'token',
      limited: 'own',
      tag: 'Data',
      summary: 'Updates after a position in the log',
      query: updatesQuery,
      responses: { 200: { description: 'A page of them, in order', schema: shownPage } },
    },
    async ({ query, caller, request, reply }) => {
      if (!options.updatesRetained) {
        throw new SyncError(
          'not_enabled',
          'SYNC_DATA_UPDATES_RETAINED is false: this server does not return past updates',
        );
      }
      const { permittedTopics } = caller;
      const shows: ShowsTopics = (topics) => isShown(topics, permittedTopics, query.topics);
      const named = query.topics ?? permittedTopics;
      const topics = named === undefined ? undefined : [...named].filter((topic) => shows([topic]));
      const newest = (): number =>
        topics === undefined ? Number.MAX_SAFE_INTEGER : largest(Object.values(updateLog.heads(topics)));
      if (options.isShared && query.epoch === updateLog.epoch) await seen(updateLog, query.after);
      const print = async (): Promise<string> => {
        const page = await pageOf(updateLog, query, { shows, topics, newest });
        return updatesPageText({ ...page, heads: updateLog.heads(topics ?? []) });
      };
      const listed = [...(permittedTopics ?? [])].sort();
      const key = JSON.stringify([query, [...(query.topics ?? [])], permittedTopics && listed]);
      const text = await texts.get(key, app.turnOf(request), print);
      return reply.type('application/json').send(text);
    },
  );
}

function largest(seqs: readonly number[]): number {
  return seqs.reduce((found, seq) => Math.max(found, seq), 0);
}

/** Waits for a seq: in one epoch a caller with a later position comes from an instance ahead. */
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
  sight: Sight,
): Promise<Omit<UpdatesText, 'heads'>> {
  const { epoch } = log;
  // A head behind the position means another log, despite the same epoch (design D25): a restored
  // file.
  const isKnown = query.epoch === epoch && query.after <= log.head;
  const goesOn = isKnown && query.from === 'fold';
  if (isKnown && !goesOn && isTailBest(log, query.after, sight)) {
    const tail = await tailPage(log, query.after, query.limit, sight);
    if (tail !== undefined) return { epoch, from: 'tail', ...tail };
  }
  // From its beginning: what was deleted since a position shows by a comparison with all that is
  // left (design D48).
  const fold = query.ended === 'true' ? withEnded(seenFold(log, sight), log.ended()) : seenFold(log, sight);
  const page = foldPage(log, fold, { after: goesOn ? query.after : 0, limit: query.limit, shows: sight.shows });
  return { epoch, head: log.head, from: 'fold', ...page };
}

/** Both in order. */
export function withEnded(fold: readonly FoldedEntry[], ended: readonly FoldedEntry[]): readonly FoldedEntry[] {
  return ended.length === 0 ? fold : [...fold, ...ended].sort((a, b) => a.seq - b.seq);
}

/** Of a short tail nothing else is looked at. */
function isTailBest(log: DataUpdatesDeps['updateLog'], after: number, sight: Sight): boolean {
  const length = log.head - after;
  return length <= LONG_TAIL || length <= seenFold(log, sight).length;
}

function seenFold(log: DataUpdatesDeps['updateLog'], { topics }: Sight): readonly FoldedEntry[] {
  return topics === undefined ? log.fold() : log.foldOn(topics);
}

/** Reads a page; undefined if the tail begins later, or there is too much to look through. */
async function tailPage(
  log: DataUpdatesDeps['updateLog'],
  after: number,
  limit: number,
  { shows, newest }: Sight,
): Promise<Pick<UpdatesText, 'updates' | 'more' | 'head'> | undefined> {
  const page = new Page(limit);
  let chars = 0;
  for (let at = after; ; ) {
    const [head, last] = [log.head, newest()];
    if (at >= last) return { updates: page.updates, more: false, head };
    if (chars > LOOKED_CHARS)
      return page.updates.length === 0 ? undefined : { updates: page.updates, more: true, head };
    const tail = await log.tail(at, Math.min(limit, last - at), shows);
    if (tail === undefined) return undefined;
    for (const record of tail.records) {
      const entries = record.entries.filter(({ topics }) => shows(topics));
      if (entries.length > 0 && !page.add({ ...record, entries })) {
        return { updates: page.updates, more: true, head: log.head };
      }
    }
    // Not the current head: updates appended since are not in the page and would count as read.
    if (!tail.more) return { updates: page.updates, more: false, head: tail.through };
    at = tail.through;
    chars += tail.chars ?? 0;
  }
}

/** Returns the live updates after a seq, without those that repeat a base entry. */
function foldPage(
  log: DataUpdatesDeps['updateLog'],
  fold: readonly FoldedEntry[],
  { after, limit, shows }: { after: number; limit: number; shows: ShowsTopics },
): { updates: PageUpdate[]; more: boolean } {
  const page = new Page(limit);
  let current: (PageUpdate & { entries: LogRecord['entries'][number][] }) | undefined;
  for (const { seq, origin, entry, update } of fold) {
    const isPart = origin === 'update' && seq > after && shows(entry.topics);
    if (!isPart || log.repeatsBase(entry)) continue;
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
    const isFull = this.updates.length >= this.#limit || this.#chars + chars > RESPONSE_PAGE_CHARS;
    if (isFull && this.updates.length > 0) return false;
    this.updates.push(update);
    this.#chars += chars;
    return true;
  }
}
