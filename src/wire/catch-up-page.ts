import * as z from 'zod';
import { checkJson, parseJson } from '../lib/json/json.js';
import { MAX_READ_DEPTH } from '../lib/json/json-check.js';
import { elements, jsonKind, members, objectText } from '../lib/json/json-text.js';
import { peerUpdate } from './data.js';
import { parseKeepingData } from './inline-data.js';
import { dict, list, MANY } from './lists.js';

/** Query of `GET /data/updates`: what our own clients read to catch up (design D15, D20). */
export interface UpdatesQuery {
  /** The log that `after` is a position in; undefined: none. */
  readonly epoch: string | undefined;
  readonly after: number;
  readonly topics: readonly string[];
  readonly limit: number;
  /** Goes on with the fold, whose entries up to `after` are here. */
  readonly from?: 'fold' | undefined;
  /**
   * The fold with deletions that end nothing any more in it: for an engine that may hold what
   * nobody knows of.
   */
  readonly ended?: boolean | undefined;
}

const seq = z.number().int().nonnegative();

/**
 * One update of the log: as it was notified, with its place and the seq before it on each of its
 * topics.
 */
export const loggedUpdate = peerUpdate.extend({ seq });

/**
 * Response of `GET /data/updates`, a page in the order of seqs. `tail`: all updates after the
 * position; `fold`: those that nothing newer replaces, from the beginning of the log whatever the
 * position (design D15). `more`: request the next page after the last seq, with `from=fold` after a
 * page of the fold.
 */
export const updatesPage = z.object({
  epoch: z.string(),
  head: seq,
  from: z.enum(['tail', 'fold']),
  more: z.boolean(),
  heads: dict(seq, { max: MANY }).default({}),
  updates: list(loggedUpdate, { max: MANY }),
});
export type UpdatesPage = z.infer<typeof updatesPage>;

/**
 * Parses the text of an {@link updatesPage}; inline data stays text (design D33). Throws
 * `SyntaxError` for no JSON.
 */
export function parseKeepingUpdates(text: string): unknown {
  checkJson(text, MAX_READ_DEPTH);
  const trimmed = text.trim();
  const updates = jsonKind(trimmed) === 'object' ? members(trimmed).get('updates') : undefined;
  if (updates === undefined || jsonKind(updates) !== 'array') return parseJson(text);
  const rest = [...members(trimmed)].filter(([name]) => name !== 'updates');
  return { ...(parseJson(objectText(rest)) as object), updates: elements(updates).map(parseKeepingData) };
}
