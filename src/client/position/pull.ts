import { SyncError } from '../../lib/errors.js';
import type { UpdatesPage, UpdatesQuery } from '../../wire/updates.js';

/** Updates of one page; the server may give fewer. */
const PAGE_UPDATES = 1000;

/** Where a pull begins. */
export interface PullStart {
  /** The log that it knows; undefined: none. */
  readonly epoch: string | undefined;
  readonly after: number;
  readonly topics: readonly string[];
}

/** One page of updates. */
export interface PulledPage {
  readonly page: UpdatesPage;
  /** It is of another log than asked for, read from the start of that. */
  readonly isAnew: boolean;
  /** The last page: everything up to the head of the log is known. */
  readonly isLast: boolean;
}

/**
 * The error for an instance that has not read as much of the log as the client has; it is asked again. Only the session says
 * that a log has gone back.
 */
export function behind(head: number, known: number): SyncError {
  const message = `the server has its update log up to ${head} only, and not yet up to ${known}`;
  return new SyncError('server_refused', message, { retryable: true });
}

/**
 * Reads what comes after a position, page by page (design D15, D20, D25): the tail after a short absence, the fold where the
 * server's tail does not go back that far or its log is another one. Throws what `ask` throws; the caller continues after the
 * last page that it got.
 */
export async function* pullPages(
  ask: (query: UpdatesQuery, signal: AbortSignal) => Promise<UpdatesPage>,
  start: PullStart,
  signal: AbortSignal,
): AsyncGenerator<PulledPage> {
  const { topics } = start;
  let { epoch, after } = start;
  for (;;) {
    const page = await ask({ epoch, after, topics, limit: PAGE_UPDATES }, signal);
    const isAnew = page.epoch !== epoch;
    if (!isAnew && page.head < after) throw behind(page.head, after);
    if (isAnew && after > 0) {
      // A position of another log means nothing in this one: ask again without it.
      epoch = undefined;
      after = 0;
      continue;
    }
    yield { page, isAnew, isLast: !page.more };
    if (!page.more) return;
    const last = page.updates.at(-1)?.seq ?? 0;
    if (last <= after) {
      throw new SyncError('server_refused', 'the server has more updates, but gives none', { retryable: true });
    }
    epoch = page.epoch;
    after = last;
  }
}
