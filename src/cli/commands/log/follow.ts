import { passing, repeat } from '../../live/repeat.js';
import type { LogListing, LogQuery } from './pages.js';

/** Maximum updates that one look reads: what comes in 2 s. */
const AT_ONCE = 100_000;

/** What a look has found. */
export interface News {
  /** Newest first; empty: nothing new. */
  readonly part: LogListing;
  readonly isFirst: boolean;
}

/** How far a log was read. */
export interface ReadPosition {
  readonly epoch: string;
  /**
   * The head in the last response. An update that came while the server looked may be below it and
   * not in the response.
   */
  readonly head: number;
  /** Every update up to this seq was in a response, or is not wanted. */
  readonly after: number;
}

/**
 * The place after one more response: what is at or below the head of the response before it has
 * been looked at by now.
 */
export function placeAfter({ epoch, head, updates }: LogListing, before?: ReadPosition): ReadPosition {
  return { epoch, head, after: Math.max(before?.head ?? 0, before?.after ?? 0, updates[0]?.seq ?? 0) };
}

/** Where it is shown: updates on one stream, remarks on the other. */
interface Streams {
  readonly stdout: Parameters<typeof repeat>[1] & { write(text: string): unknown };
  readonly stderr: { write(text: string): unknown };
}

/**
 * Reads what `first` asks for, then what comes, until it is stopped. `print` makes the text. A
 * server that is away is waited for.
 */
export async function follow(
  read: (query: LogQuery) => Promise<LogListing>,
  first: LogQuery,
  print: (news: News) => string,
  { stdout, stderr }: Streams,
): Promise<void> {
  let place: ReadPosition | undefined;
  let isAway = false;
  await repeat(async (signal) => {
    const query = place === undefined ? first : { ...first, limit: AT_ONCE, after: place.after };
    const part = await read(query).catch((error: unknown) => {
      const { message } = passing(error);
      if (!isAway) stderr.write(`${message}; waiting for it\n`);
      isAway = true;
      return undefined;
    });
    if (part === undefined || signal.aborted) return;
    isAway = false;
    if (place !== undefined && place.epoch !== part.epoch) {
      stderr.write('the server has another update log than before: this is what it has\n');
      place = undefined; // the next look reads it from its start
      return;
    }
    const isFirst = place === undefined;
    place = placeAfter(part, place);
    if (isFirst || part.updates.length > 0) stdout.write(print({ part, isFirst }));
  }, stdout);
}
