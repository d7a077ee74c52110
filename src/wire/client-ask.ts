import * as z from 'zod';
import type { ClientDetails } from './client-details.js';
import { dict, list } from './lists.js';
import type { AskKind } from './session.js';

/**
 * What the server asks a client of ours over the socket of its session, and what the client
 * answers. The server calls {@link ASK_METHOD} and expects no response; the client calls
 * {@link ANSWER_METHOD} with the id of the ask. Nothing is asked that the client did not list in
 * its `subscribe`: older versions list nothing, and OPAL's peers have no session.
 */

export const ASK_METHOD = 'ask';
export const ANSWER_METHOD = 'answer';

/** Levels that may be asked for: a log is never switched off from afar. */
export const ASKED_LEVELS = ['debug', 'info', 'warn', 'error'] as const;

/** Longest answer, in bytes. */
export const MAX_ANSWER_BYTES = 64 * 1024;
/** Longest text of an answer, and longest path, error or reason in it. */
export const MAX_ANSWER_TEXT = 1000;
/** Most lines of each list of details. */
export const MAX_ORPHANED = 50;
export const MAX_TRANSACTIONS = 20;
export const MAX_WROTE = 5;
const MAX_CANNOT = 16;

const askId = z.string().min(1).max(64);

/** Arguments of the server's call. */
export const ask = z.discriminatedUnion('kind', [
  z.object({ id: askId, kind: z.enum(['details', 'refresh', 'prune', 'drift_check']) }),
  z.object({ id: askId, kind: z.literal('log_level'), level: z.enum(ASKED_LEVELS) }),
]);
export type Ask = z.infer<typeof ask>;
/** An ask that has no id yet. */
export type AskRequest =
  | { readonly kind: Exclude<AskKind, 'log_level'> }
  | { readonly kind: 'log_level'; readonly level: (typeof ASKED_LEVELS)[number] };

const text = z.string().max(MAX_ANSWER_TEXT);
const name = z.string().max(300);
const count = z.number().int().nonnegative();
const millis = z.number().nonnegative();

/** {@link ClientDetails} within the limits of an answer. */
const boundedDetails = z.object({
  now: millis.optional(),
  version: name,
  log_level: name,
  started_at: millis,
  orphaned: list(z.object({ path: text, reason: text, since: millis.nullable() }), { max: MAX_ORPHANED }),
  orphaned_total: count,
  transactions: list(
    z.object({
      kind: z.enum(['policy', 'data']),
      id: name,
      seq: count.nullable(),
      outcome: z.string().max(40),
      at: millis,
      took_ms: millis.nullable(),
      wrote: list(text, { max: MAX_WROTE }),
      wrote_total: count,
      error: text.nullable(),
    }),
    { max: MAX_TRANSACTIONS },
  ),
  rego: z.object({ mode: name, v0: count, v1: count }).nullable(),
  drift: z.object({ checked_at: millis.nullable(), repaired: count, error: text.nullable() }).nullable(),
  cannot: dict(text, { max: MAX_CANNOT }).optional(),
}) satisfies z.ZodType<ClientDetails>;

/**
 * Arguments of the client's call. `done`: it did what was asked; `text` says what happened, for
 * people.
 */
export const answer = z.object({
  id: askId,
  done: z.boolean(),
  text,
  /** Of an ask for details. */
  details: boundedDetails.optional(),
});
export type AskAnswer = z.infer<typeof answer>;
export type AnswerArguments = z.input<typeof answer>;

/** A text that an answer may have. */
export function boundedAnswer(given: string): string {
  return given.length > MAX_ANSWER_TEXT ? `${given.slice(0, MAX_ANSWER_TEXT - 3)}...` : given;
}

/** The details with as many lines of each list, the first ones, as an answer has room for. */
export function fittingDetails(details: ClientDetails): ClientDetails {
  for (let share = 1; ; share /= 2) {
    const part = {
      ...details,
      orphaned: details.orphaned.slice(0, Math.floor(MAX_ORPHANED * share)),
      transactions: details.transactions.slice(0, Math.floor(MAX_TRANSACTIONS * share)),
    };
    const isSmall = Buffer.byteLength(JSON.stringify(part)) < MAX_ANSWER_BYTES - 2000;
    if (isSmall || (part.orphaned.length === 0 && part.transactions.length === 0)) return part;
  }
}
