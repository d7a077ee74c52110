import * as z from 'zod';
import { commitProblem } from './commit-problem.js';
import { insider } from './insider.js';
import { refusedFromBytes } from './refused-updates.js';
import { position } from './session.js';

/**
 * The response of `GET /clients`, as the server writes it and `policysync status` reads it. Members
 * that an older server or client does not know are optional; a missing one says nothing.
 */

const millis = z.number().describe('Milliseconds since 1970');

/** One thing that fails at a client. */
export const clientFailure = z.object({
  path: z.string().describe('The path of the document, or what else fails, such as the data configuration'),
  error: z.string(),
  kind: z.string().optional().describe('source, engine, refused or config'),
  since: millis.optional().describe('When it began to fail'),
});
export type ClientFailure = z.infer<typeof clientFailure>;

/** Why a commit is not held, with the place in the repository where the engine names one. */
export const policyError = z.object({ message: z.string(), file: z.string().nullable(), line: z.number().nullable() });
export type PolicyError = z.infer<typeof policyError>;

/**
 * The policy source as a server instance sees it: the same in `GET /healthcheck` (`policy`) and
 * `GET /clients` (`policy_source`).
 */
export const sourceView = z.object({
  state: z.enum(['none', 'starting', 'following', 'failing']),
  fetching: insider(z.string()).describe('How far the first fetch of the repository is'),
  fetching_since: z.iso
    .datetime()
    .optional()
    .describe('When the fetch began that runs, where that takes long: whether there is a newer commit is not known'),
  head: z.string().nullish().describe('The commit that is served'),
  wanted: z.string().optional().describe('The commit that the server instances agreed on and that is not here yet'),
  doubted: z.string().optional().describe('A commit that the source shows and that may be an older one'),
  awaited: z
    .object({
      commit: z.string(),
      since: z.iso.datetime().describe('When the webhook came'),
      given_up: z.iso.datetime().optional().describe('When the server stopped looking for it'),
    })
    .optional()
    .describe('A commit that a webhook named and that the source does not show'),
  refused: z
    .string()
    .optional()
    .describe('The head of the source, where that is refused and an older commit is served'),
  checking: z.string().optional().describe('A commit of the source that is being checked, and not served yet'),
  problems: insider(z.array(commitProblem)).describe(
    'What is wrong with the refused commit, the first five, each with file and line where they are known',
  ),
  error: insider(z.string().nullable()).describe('Why the last look failed, or why its commit is refused'),
  code: z.string().optional().describe('The code of that error (docs/reference/errors.md)'),
  failing_since: z.iso
    .datetime()
    .optional()
    .describe('When the first of the looks was that failed since the last good one'),
  warnings: insider(z.array(z.string())).describe(
    'What is to know of the served commit: data files that another one replaces, lines of manifests that do not count',
  ),
});
export type SourceView = z.infer<typeof sourceView>;

/** One client of `GET /clients`. */
export const clientView = z.object({
  client_id: z.string().describe('Its name in this list: its id, unless that belongs to the holder of another token'),
  own_id: z.string().nullish().describe('What it calls itself, where that is not its name in this list'),
  subject: z.string().nullish().describe('Subject of its token; null: it has none, or the caller may not see it'),
  kind: z.enum(['session', 'plain']).describe('plain: an OPAL client; it does not say what it holds'),
  connected: z.boolean(),
  connected_at: millis,
  away_since: millis.nullable(),
  away_reason: z
    .string()
    .optional()
    .describe('Why it is away, as its server knows; missing: not known, or it is connected'),
  address: z.string(),
  instance: z.string().describe('The server instance that it is, or was, connected to'),
  duplicates: z.number().describe('Other instances that have this client connected, too'),
  topics: z.array(z.string()).describe('At most 100'),
  topics_left_out: z.number().optional(),
  labels: z
    .record(z.string(), z.string())
    .optional()
    .describe('SYNC_CLIENT_LABELS of the client: it says so, nothing proves it'),
  ready: z.boolean().nullable(),
  healthy: z.boolean().nullable(),
  since: millis.nullable().describe('When its state began'),
  reported_at: millis.nullable(),
  clock_ahead_ms: z
    .number()
    .optional()
    .describe(
      'How far its clock is ahead of (less than 0: behind) that of the server, by its last report, less the way of that; missing: it does not say',
    ),
  engine: z
    .object({
      kind: z.string(),
      version: z.string().nullable(),
      online: z.boolean(),
      error: z.string().nullish().describe('Why it does not respond'),
      since: millis.optional().describe('Since when it responds, or does not'),
    })
    .nullable(),
  policy: z.object({
    wanted: z.string().nullable(),
    held: z.string().nullable(),
    current: z.boolean().nullable(),
    error: policyError.nullish().describe('Why the newest commit is not held; null: nothing fails'),
    since: millis.nullish().describe('Since when that fails, or the commit is held'),
    missing_directories: z
      .array(z.string())
      .optional()
      .describe('Directories that it subscribes to and that the commit does not have: they count as empty'),
  }),
  data: z.object({
    newest: z.number().optional().describe('Last seq on any of its topics'),
    applied: z.number().nullish().describe('How far it is on its topics: never more than `newest`'),
    wanted: z.record(z.string(), z.number()).describe('Last seq on each topic that is listed'),
    held: position.nullable().describe('Its position in the update log: that counts rows of all kinds and topics'),
    lag_updates: z.number().nullable(),
    lag_seconds: z.number().nullable(),
    lag_at_least: z.boolean().describe('It may be more than that'),
    blocked: z.array(z.number()),
  }),
  failing: z.array(clientFailure),
  failing_total: z.number().optional().describe('How many entries fail, where `failing` does not list all of them'),
  last_error: clientFailure.omit({ since: true }).extend({ at: millis }).nullable(),
});
export type ClientView = z.infer<typeof clientView>;

/** Response of `GET /clients`: one page. */
export const clientsAnswer = z.object({
  epoch: z.string(),
  head: z.number(),
  policy_head: z.string().nullable(),
  instance: z.string().describe('The server instance that responds'),
  now: millis
    .optional()
    .describe('By the clock of that instance, as all times of the response; an older server does not say'),
  clock: z
    .string()
    .optional()
    .describe('How the clock of that instance and that of the backbone differ, where they do'),
  incomplete: z.string().nullable().describe('Why there may be other clients than these'),
  policy_source: sourceView.optional().describe('How the server instance that responds follows the policy source'),
  log_refuses: z
    .object({ since: millis, reason: insider(z.string()), from_bytes: refusedFromBytes })
    .optional()
    .describe('The update log refuses updates, as the server instance that responds knows; missing: it takes them'),
  total: z.number().optional().describe('Clients on all pages'),
  clients: z.array(clientView).describe('By name'),
  next: z.string().nullish().describe('There are more clients: the value of `after` for the next page'),
});
export type ClientsAnswer = z.infer<typeof clientsAnswer>;
