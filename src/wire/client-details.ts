import * as z from 'zod';
import { clientView } from './clients.js';

/**
 * `GET /clients/{id}` and `POST /clients/{id}/actions`: one client in full, and what it can be
 * asked to do. Members may be added.
 */

const millis = z.number();

/** One transaction of policy or data at a client, as in its log. */
export const clientTransaction = z.object({
  kind: z.enum(['policy', 'data']),
  id: z.string().describe('The commit, or the id of the update'),
  seq: z.number().nullable(),
  outcome: z.string().describe('applied, refused, withheld, failing, unchanged, superseded'),
  at: millis.describe('When it ended'),
  took_ms: z.number().nullable(),
  wrote: z.array(z.string()).describe('Paths or files, at most 5'),
  wrote_total: z.number(),
  error: z.string().nullable(),
});
export type ClientTransaction = z.infer<typeof clientTransaction>;

/** What a connected client answers when it is asked. */
export const clientDetails = z.object({
  now: millis.optional().describe('When it answered; older clients do not say it'),
  version: z.string(),
  log_level: z.string(),
  started_at: millis,
  orphaned: z
    .array(z.object({ path: z.string(), reason: z.string(), since: millis.nullable() }))
    .describe('Documents that it holds and the log does not know; at most 50'),
  orphaned_total: z.number(),
  transactions: z.array(clientTransaction).describe('The last 20, newest first'),
  rego: z.object({ mode: z.string(), v0: z.number(), v1: z.number() }).nullable(),
  drift: z.object({ checked_at: millis.nullable(), repaired: z.number(), error: z.string().nullable() }).nullable(),
  cannot: z
    .record(z.string(), z.string())
    .optional()
    .describe('Actions that it can do nothing with as it is set up, each with the reason; older clients do not say it'),
});
export type ClientDetails = z.infer<typeof clientDetails>;

/** Response of `GET /clients/{id}`. */
export const clientAnswer = z.object({
  now: millis,
  epoch: z.string(),
  head: z.number(),
  policy_head: z.string().nullable(),
  client: clientView,
  topics: z
    .array(
      z.object({
        topic: z.string(),
        wanted: z.number().nullable().describe('Last seq; null: a topic of policy'),
        held: z.number().nullable(),
        behind: z.number().nullable(),
        last: z.string().nullable().describe('Reason of the last update, for datasource tokens'),
      }),
    )
    .describe('At most 100'),
  details: clientDetails.nullable().describe('null: see `details_missing`'),
  details_missing: z
    .string()
    .nullable()
    .describe('away; plain: an OPAL client; old: a version that cannot be asked; no_answer; limited: the token is'),
  actions: z
    .array(z.string())
    .optional()
    .describe('What the caller may ask it to do now, of POST /clients/{id}/actions; an operator may have closed that'),
  source: z
    .object({
      file: z.string(),
      line: z.number(),
      first: z.number().describe('Number of the first of `lines`'),
      lines: z.array(z.string()),
    })
    .nullable()
    .describe('Where the policy error of the client is, for tokens without limits'),
  same_error: z.number().describe('Clients with the same policy error, this one included'),
});
export type ClientAnswer = z.infer<typeof clientAnswer>;

/** Response of `POST /clients/{id}/actions`. */
export const actionAnswer = z.object({
  done: z.boolean(),
  text: z.string().describe('What happened, for people'),
});
export type ActionAnswer = z.infer<typeof actionAnswer>;
