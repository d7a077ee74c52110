import { SyncError } from '../../lib/errors.js';
import type { UpdatesPage, UpdatesQuery } from '../../wire/catch-up-page.js';

/** Updates of one page; the server may give fewer. */
const PAGE_UPDATES = 1000;

/** Where a pull begins. */
export interface PullStart {
  /** The log that it knows; undefined: none. */
  readonly epoch: string | undefined;
  readonly after: number;
  readonly topics: readonly string[];
  /** A fold of that log that was read in part: it is read on. */
  readonly fold?: FoldPlace | undefined;
  /** See {@link UpdatesQuery.ended}. */
  readonly ended?: boolean | undefined;
}

/** How far a fold was read. */
export interface FoldPlace {
  /** The head of the log at its first page: what came since may be missing in it. */
  readonly head: number;
  /** The last seq of it. */
  readonly after: number;
}

/** One page of updates. */
export interface PulledPage {
  readonly page: UpdatesPage;
  /** It is of another log than asked for, read from the start of that. */
  readonly isAnew: boolean;
  /** The first page of a fold. */
  readonly beginsFold: boolean;
  /**
   * Where the fold goes on that this page is of; undefined: it ends here, or the page is of no
   * fold.
   */
  readonly fold: FoldPlace | undefined;
  /** Everything up to here is known with this page. */
  readonly through: number;
  /** The last page: everything up to the head of the log is known. */
  readonly isLast: boolean;
}

/**
 * The error for an instance that has not read as much of the log as the client has; it is asked
 * again. Only the session says that a log has gone back.
 */
export function behindError(head: number, known: number): SyncError {
  const message = `the server has its update log up to ${head} only, and not yet up to ${known}`;
  return new SyncError('server_refused', message, { retryable: true });
}

/**
 * Reads what comes after a position, page by page (design D15, D20, D25): the tail after a short
 * absence, the fold where the server's tail does not go back that far or its log is another one,
 * and after a long fold the tail of what came meanwhile. Throws what `ask` throws; the caller
 * continues after the last page that it got.
 */
export async function* pullPages(
  ask: (query: UpdatesQuery, signal: AbortSignal) => Promise<UpdatesPage>,
  start: PullStart,
  signal: AbortSignal,
): AsyncGenerator<PulledPage> {
  const { topics, ended } = start;
  let { epoch, fold } = start;
  let after = fold?.after ?? start.after;
  /** Everything up to here is known. */
  let through = start.after;
  for (;;) {
    const from = fold === undefined ? {} : ({ from: 'fold' } as const);
    const page = await ask({ epoch, after, topics, limit: PAGE_UPDATES, ...from, ...(ended && { ended }) }, signal);
    const isAnew = page.epoch !== epoch;
    const known = fold?.head ?? after;
    if (!isAnew && page.head < known) throw behindError(page.head, known);
    if (isAnew && after > 0) {
      // A position of another log means nothing in this one: ask again without it.
      [epoch, after, through, fold] = [undefined, 0, 0, undefined];
      continue;
    }
    const beginsFold = page.from === 'fold' && fold === undefined;
    const last = page.updates.at(-1)?.seq ?? 0;
    // Of a fold the updates up to here are those that are left now: what is gone shows when all of
    // it is here.
    if (page.from === 'fold') fold = { head: fold?.head ?? page.head, after: last };
    const head = fold?.head ?? page.head;
    if (page.from === 'tail') fold = undefined;
    const isWhole = !page.more;
    if (page.from === 'tail') through = isWhole ? page.head : last;
    else if (isWhole) through = head;
    const isLast = isWhole && through >= page.head;
    yield { page, isAnew, beginsFold, fold: isWhole ? undefined : fold, through, isLast };
    if (isLast) return;
    if (!isWhole && last <= after && !beginsFold) {
      throw new SyncError('server_refused', 'the server has more updates, but gives none', { retryable: true });
    }
    epoch = page.epoch;
    after = isWhole ? through : last;
    if (isWhole) fold = undefined;
  }
}
