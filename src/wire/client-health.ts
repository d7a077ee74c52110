import * as z from 'zod';
import { policyError } from './clients.js';
import { insider } from './insider.js';
import { FAILURE_KINDS } from './session.js';

/**
 * What a client tells of itself over its API, as the client writes it and
 * `policysync status client` reads it. Times are ISO 8601.
 */

/** Why OPA's Go code answers a path at which there is nothing to compile. */
export const NO_RULE = 'the policy has no rule at this path';

const embeddedFacts = z.object({
  decisions: z
    .object({ compiled: z.number(), go: z.number(), failed: z.number() })
    .describe('Since the start, by what answered: compiled policy, or OPA in Go; failed: with an error'),
  restarts: z.number().describe('Threads that ended by a time or memory limit, or by a failure'),
  compiler_loaded: z.boolean().describe('Whether the Go part is in memory'),
  memory_bytes: z.number().describe('Memory of WebAssembly'),
  compiled: z.number().describe('Paths that are compiled'),
  with_go: insider(z.array(z.object({ path: z.string(), reason: z.string() }))).describe(
    'Paths that Go answers, and why: the first 50',
  ),
});

const engineFacts = z.object({
  kind: z
    .enum(['inline', 'external', 'embedded'])
    .describe('inline: a child process; external: run by somebody else; embedded: inside the package'),
  policy_mode: insider(z.string()),
  access: z
    .enum(['token', 'open', 'own', 'external', 'embedded'])
    .describe(
      'token: this client alone writes; open: everybody does; own: by the configuration of OPA; external: not ours; embedded: nobody can write over REST',
    ),
  version: insider(z.string().nullable()).describe('Of an inline OPA, once it was found, or of the embedded one'),
  rego: z
    .object({ mode: z.enum(['auto', 'v0', 'v1']), v0: z.number(), v1: z.number() })
    .nullable()
    .describe('How many modules of an inline OPA are read as which version of Rego'),
  getting: insider(z.string().nullable()).describe(
    'What is done to get the OPA program, with its progress; null once it is there',
  ),
  embedded: embeddedFacts.optional().describe('Of an embedded engine'),
});

const lastTransaction = z
  .object({
    id: insider(z.string()),
    success: z.boolean(),
    error: insider(z.string()),
    actions: insider(z.array(z.string())),
    at: z.string(),
  })
  .nullable();

/**
 * `GET /healthy` of a client: the same for healthy and unhealthy, beside the fields that OPAL's
 * users read.
 */
export const clientHealth = z.object({
  now: z.string().describe('By the clock of the client, as all times of the response'),
  ready: z.boolean(),
  draining: z.literal(true).optional().describe('It was asked to stop: GET /ready is 503'),
  healthy: z.boolean(),
  policy: z.object({
    hash: z.string().nullable().describe('The commit that the engine holds'),
    wanted: z.string().nullable().describe('The newest commit that the client has heard of'),
    error: insider(policyError.nullable()).describe('Why the wanted commit is not in'),
    since: z.string().nullable().describe('Since when that fails, or the commit is held'),
    awaiting_data: z
      .object({ total: z.number(), paths: insider(z.array(z.string())) })
      .optional()
      .describe(
        'The first policy is here, and becomes active with the documents of the first load: those that are missing, as far as the load was read. The first 100 paths',
      ),
    missing_directories: insider(z.array(z.string())).describe(
      'Subscribed directories that the commit does not have: they count as empty. The first 50',
    ),
    last_transaction: lastTransaction,
  }),
  data: z.object({
    last_transaction: lastTransaction,
    failing: z
      .array(
        z.object({
          ...{ path: insider(z.string()), error: insider(z.string()) },
          ...{ kind: z.enum(FAILURE_KINDS), since: z.string() },
        }),
      )
      .describe('The oldest 50, with texts of at most 500 characters'),
    failing_total: z.number(),
    awaiting_policy: z
      .object({ total: z.number(), paths: insider(z.array(z.string())) })
      .optional()
      .describe('Documents that are here and are written with the first policy, not before: the first 100 paths'),
    /**
     * Documents that no log and no configuration has any more; POST /orphans/prune removes them.
     */
    orphaned: insider(z.array(z.string())),
    epoch: z.string().nullable(),
    applied_through: z.number().nullable(),
    unresolved: z.number(),
    drift: z
      .object({
        checked_at: z.string().nullable(),
        documents: z.number(),
        repaired: z.number(),
        error: insider(z.string().nullable()),
      })
      .nullable(),
  }),
  engine: z.object({
    ...{ online: z.boolean(), error: insider(z.string().nullable()), since: z.string() },
    ...engineFacts.shape,
  }),
  server: z.object({
    connected: z.boolean(),
    error: insider(z.string().nullable()),
    code: z.string().nullable().describe('The code of that error (docs/reference/errors.md)'),
    since: z.string(),
    cut_off_since: z
      .string()
      .nullable()
      .describe('Since when the server is cut off from its backbone: what was published elsewhere since is missing'),
  }),
  connectivity: z.object({
    sync_server_connectivity_disabled: z.boolean(),
    offline_mode_enabled: z.boolean(),
    backup: z
      .object({
        ...{ saved_at: z.string().nullable(), age_seconds: z.number().nullable() },
        error: insider(z.string().nullable()),
      })
      .nullable(),
  }),
  reports: z.object({
    enabled: z.boolean(),
    registered: z.number(),
    queued: z.number(),
    delivered: z.number(),
    failed: z.number(),
    dropped: z.number(),
    last_error: insider(z.string().nullable()),
  }),
  health_document: z.object({ written: z.boolean(), error: insider(z.string().nullable()) }).optional(),
});
export type ClientHealth = z.infer<typeof clientHealth>;

/** `GET /position` of a client. */
export const clientPosition = z.object({
  epoch: z.string().nullable(),
  topics: z.array(z.string()).describe('For a limited token those that it permits'),
  applied_through: z.number(),
  applied_beyond: insider(z.array(z.number())),
  unresolved: insider(z.array(z.number())),
});
