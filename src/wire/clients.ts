import { z } from 'zod';
import { position } from './session.js';

/**
 * The answer of `GET /clients`, as the server writes it and `sync-server status` reads it. Members that a server or a client
 * of an older version does not know are optional: missing means that nothing is said of it.
 */

const millis = z.number().describe('Milliseconds since 1970');

/** One thing that fails at a client. */
export const clientFailure = z.object({
  path: z.string().describe('The path of the document, or what else fails, such as the data configuration'),
  error: z.string(),
  since: millis.optional().describe('When it began to fail'),
});
export type ClientFailure = z.infer<typeof clientFailure>;

/** A commit that is wanted and that the engine did not take, or that could not be read. */
export const policyFailure = z.object({
  commit: z.string().nullable().describe('The commit that was tried; null where it could not even be read'),
  error: z.string().describe('The reason, with file and line where the engine names them'),
  since: millis.describe('When it was tried first'),
});
export type PolicyFailure = z.infer<typeof policyFailure>;

/** The policy source as a server instance sees it: the same in `GET /healthcheck` (`policy`) and `GET /clients` (`source`). */
export const sourceView = z.object({
  state: z.enum(['none', 'starting', 'following', 'failing']),
  head: z.string().nullish().describe('The commit that is served'),
  wanted: z.string().optional().describe('The commit that the server instances agreed on and that is not here yet'),
  doubted: z.string().optional().describe('A commit that the source shows and that may be an older one'),
  refused: z.string().optional().describe('The head of the source, where it is refused and an older commit is served'),
  error: z.string().nullish().describe('Why the last look failed, or the head is refused'),
  code: z.string().optional().describe('The code of that error: docs/errors.md has what to do'),
  failing_since: millis.optional().describe('When the first look of those that failed in a row was'),
  warnings: z.array(z.string()).optional().describe('What is served and is perhaps not what was meant'),
});
export type SourceView = z.infer<typeof sourceView>;

/** One client of `GET /clients`. */
export const clientView = z.object({
  client_id: z.string(),
  kind: z.enum(['session', 'plain']).describe('plain: an OPAL client; it does not say what it holds'),
  connected: z.boolean(),
  connected_at: millis,
  away_since: millis.nullable(),
  address: z.string(),
  instance: z.string().describe('The server instance that it is, or was, connected to'),
  duplicates: z.number().describe('Other instances that have a client of this id connected, too'),
  topics: z.array(z.string()),
  ready: z.boolean().nullable(),
  healthy: z.boolean().nullable(),
  since: millis.nullable().describe('When its state began'),
  reported_at: millis.nullable(),
  engine: z
    .object({
      kind: z.string(),
      version: z.string().nullable(),
      online: z.boolean(),
      error: z.string().nullish().describe('Why it does not answer'),
    })
    .nullable(),
  policy: z.object({
    wanted: z.string().nullable(),
    held: z.string().nullable(),
    current: z.boolean().nullable(),
    failing: policyFailure.nullish().describe('Why the wanted commit is not held; null: nothing fails'),
  }),
  data: z.object({
    wanted: z.record(z.string(), z.number()).describe('Last seq on each of its topics'),
    held: position.nullable(),
    lag_updates: z.number().nullable(),
    lag_seconds: z.number().nullable(),
    lag_at_least: z.boolean().describe('It may be more than that'),
    blocked: z.array(z.number()),
  }),
  failing: z.array(clientFailure),
  failing_count: z.number().optional().describe('How many entries fail, where `failing` does not list all of them'),
  last_error: clientFailure.omit({ since: true }).extend({ at: millis }).nullable(),
});
export type ClientView = z.infer<typeof clientView>;

/** Answer of `GET /clients`: one page. */
export const clientsAnswer = z.object({
  epoch: z.string(),
  head: z.number(),
  policy_head: z.string().nullable(),
  instance: z.string().describe('The server instance that answers'),
  incomplete: z.string().nullable().describe('Why there may be other clients than these'),
  source: sourceView.optional().describe('The policy source, as this instance sees it'),
  clients: z.array(clientView),
  next: z.string().nullish().describe('There are more clients: the value of `after` for the next page'),
});
export type ClientsAnswer = z.infer<typeof clientsAnswer>;
