import { SyncError } from '../../lib/errors.js';
import type { UpdatesPage, UpdatesQuery } from '../../wire/updates.js';

/** Updates of one page; the server may give fewer. */
const PAGE_UPDATES = 1000;

/** From where a client asks for updates. */
export interface PullStart {
  /** The log that it knows; undefined: none. */
  readonly epoch: string | undefined;
  readonly after: number;
  readonly topics: readonly string[];
}

/** One page of updates, and what it means for who asked. */
export interface PulledPage {
  readonly page: UpdatesPage;
  /** It is of another log than was asked about: read from its start. */
  readonly isAnew: boolean;
  /** There is nothing after it: with it all is known up to the head of the log. */
  readonly isLast: boolean;
}

/**
 * One of several instances answered that has not seen yet what another one told: it is asked again. Of a log that has gone
 * back the session tells, and nothing else.
 */
export function behind(head: number, known: number): SyncError {
  const message = `the server has its update log up to ${head} only, and not yet up to ${known}`;
  return new SyncError('server_refused', message, { retryable: true });
}

/**
 * Reads what comes after a position, page by page (design D15, D20, D25): the tail after a short absence, the fold where the
 * server has no tail that goes back so far, or where its log is another one. Throws what `ask` throws; whoever reads goes on
 * from what it was given, so nothing is lost by a failure in between.
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
      // A position of another log means nothing in this one: asked again without it.
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
