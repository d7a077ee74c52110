import * as z from 'zod';
import { sourceView } from './clients.js';
import { fleetInstance } from './fleet.js';
import { insider } from './insider.js';

/**
 * Responses about documents, policy files and server instances, which the page at `/ui` reads.
 * Members may be added.
 */

const millis = z.number();

/**
 * One document of `GET /data/documents`: what a new client would write at a path, without its
 * value.
 */
export const dataDocument = z.object({
  path: z.string(),
  origin: z.enum(['base', 'update']).describe('base: an entry of the data configuration'),
  source: z.string().describe('Where the value comes from: URL without secrets, or "inline"'),
  method: z.string().describe('PUT; PATCH: there is no document of its own at this path'),
  seq: z.number(),
  update_id: z.string().nullable(),
  reason: z.string().nullable(),
  publisher: z.string().nullable().describe('For datasource tokens'),
  bytes: z.number().nullable().describe('Of inline data; null: the server does not fetch it'),
  hash: z.string().nullable().describe('SHA-256 of inline data, in hex'),
  changed_at: millis.nullable(),
  retained_until: millis.nullable().describe('null: as long as nothing replaces it'),
  topics: z.array(z.string()).describe('At most 20'),
  clients: z.number().describe('Clients that subscribe to one of its topics'),
  refused_by: z
    .number()
    .describe('Those of them that fail to write it, or something below it; each client names its first failures'),
  refusal: z
    .object({
      kind: z.string().nullable().describe('refused (by the engine), engine, source; null: the client is older'),
      text: z.string().describe('Why: the kind in words and, for tokens without limits, the message of a client'),
      clients: z.number().describe('How many of refused_by have one of this kind'),
    })
    .nullable()
    .optional()
    .describe('The worst of their failures; null: nobody fails'),
  patches: z.number().describe('Patches on top of the document; it is newer than its source by these'),
  versions: z.number().describe('Documents at this path; more than 1: clients of other topics hold another one'),
});
export type DataDocument = z.infer<typeof dataDocument>;

export const hidingDeletion = z.object({
  path: z.string(),
  seq: z.number(),
  topics: z.array(z.string()).describe('At most 20'),
  hides: z
    .array(z.string())
    .describe('Folders of the served commit with data at, below or above its path; at most 100'),
});
export type HidingDeletion = z.infer<typeof hidingDeletion>;

export const documentsAnswer = z.object({
  epoch: z.string(),
  head: z.number(),
  total: z.number().describe('Documents on all pages'),
  documents: z.array(dataDocument).describe('By path'),
  next: z.string().nullable().describe('The value of `after` for the next page; null: this is the last one'),
  external_source: z.string().nullable().describe('Where clients get their base entries; null: from this server'),
  incomplete: z.string().nullable().describe('Why there may be more clients than those that are counted'),
  deletions: z
    .array(hidingDeletion)
    .optional()
    .describe('Deletions at or below `prefix` that hide data of the policy repository; the first 100. Missing: none'),
});
export type DocumentsAnswer = z.infer<typeof documentsAnswer>;

export const policyCommit = z.object({
  hash: z.string(),
  title: z.string(),
  author: z.string(),
  at: millis.describe('Commit time; of a bundle archive when it was found, 0 if that is not known'),
  state: z
    .string()
    .describe(
      'head: it is served; served: it was; refused; found: it is not served yet; replaced: a later commit came with it, and it was never served; older: than the first that is known to have been served',
    ),
  error: z
    .object({
      message: z.string(),
      code: z.string().optional(),
      file: z.string().optional(),
      line: z.number().optional(),
    })
    .nullable()
    .describe('Why the server refuses it: what is wrong, and where'),
});
export type PolicyCommit = z.infer<typeof policyCommit>;

export const policyFile = z.object({
  path: z.string(),
  kind: z.enum(['policy', 'data']),
  order: z.number().describe('Place in the load order, from 1'),
  listed: z.boolean().describe('A manifest gives it this place'),
  package: z.string().nullable().describe('Package of a module, data path of a data file'),
  bytes: z.number(),
  warning: z.string().nullable().describe('Such as: another data file replaces it'),
});
export type PolicyFile = z.infer<typeof policyFile>;

/** Response of `GET /policy/source`. */
export const policySourceAnswer = z.object({
  type: z.enum(['GIT', 'API', 'none']),
  source: insider(z.string().nullable()).describe('The address without secrets'),
  branch: z.string().nullable(),
  status: sourceView.nullable(),
  last_look: millis.nullable(),
  last_look_result: z.string().nullable().describe('new, same, failed'),
  commits: z.array(policyCommit).describe('The newest 50 of the branch as the server has it, newest first'),
});
export type PolicySourceAnswer = z.infer<typeof policySourceAnswer>;

/** Response of `GET /policy/files`. */
export const policyFilesAnswer = z.object({
  hash: z.string(),
  files: z.array(policyFile).describe('In load order; at most 5000'),
  total: z.number(),
  manifests: z.array(z.string()),
  ignored: z.number().describe('Files of the commit that are no policy and no data, or are ignored'),
  warnings: z.array(z.object({ file: z.string(), text: z.string() })).describe('Whole sentences, with the file'),
});
export type PolicyFilesAnswer = z.infer<typeof policyFilesAnswer>;

export const diffLine = z.object({
  kind: z.enum(['same', 'added', 'removed']),
  old: z.number().nullable(),
  new: z.number().nullable(),
  text: z.string(),
});

export const fileDiff = z.object({
  path: z.string(),
  change: z.enum(['added', 'removed', 'modified']),
  added: z.number(),
  removed: z.number(),
  binary: z.boolean(),
  truncated: z.boolean(),
  hunks: z.array(z.object({ header: z.string(), lines: z.array(diffLine) })),
});
export type FileDiff = z.infer<typeof fileDiff>;

/** Response of `GET /policy/diff`. */
export const policyDiffAnswer = z.object({
  from: z.string().nullable().describe('null: against nothing'),
  to: z.string(),
  files: z.array(fileDiff).describe('At most 200 files and 20,000 lines'),
  total: z
    .number()
    .describe(
      'Files of bundles that differ; what else the repository has is not shown. At least so many where there are tens of thousands',
    ),
});
export type PolicyDiffAnswer = z.infer<typeof policyDiffAnswer>;

/** One minute of one instance. */
export const minutePoint = z.object({
  at: millis.describe('Its beginning'),
  publishes: z.number(),
  publish_refused: z.number().describe('Publishes that were refused or failed'),
  publish_p50_ms: z.number().nullable(),
  publish_p99_ms: z.number().nullable(),
  deliveries: z.number().describe('Publications handed to subscribers, each once for each of them'),
  backbone_ms: z.number().nullable().describe('Round trip: the last of the minute'),
  clients: z.number(),
  latency: z.array(z.number()).describe('Applied updates per bucket of LATENCY_BUCKETS, and what took longer'),
});
export type MinutePoint = z.infer<typeof minutePoint>;

/** Response of `GET /instances`. */
export const instancesAnswer = z.object({
  backbone: z.string().describe('none (a file of this server), postgres, redis, nats'),
  durability: z.object({ kind: z.string().describe('durable, weak'), text: insider(z.string()) }),
  instances: z.array(fleetInstance).describe('As in GET /ui/events: the one that responds, then the others by name'),
  incomplete: z.string().nullable().describe('Why there may be more instances'),
  log: z.object({
    epoch: z.string(),
    head: z.number(),
    begins_at: z.number().describe('Seq of the oldest row that is kept; 0: the backbone is away'),
    documents: z.number().describe('Entries that a new client writes'),
    bytes: z.number().nullable().describe('Of the log in its store; null: the store cannot tell cheaply'),
  }),
  buckets: z.array(z.number()),
  budgets: z
    .array(
      z.object({
        of: z
          .string()
          .describe('responses and bodies: bytes under way; scans: requests worked on; sockets; topics: subscriptions'),
        used: z.number(),
        limit: z.number(),
        per_token: z.number().describe('Limit of one token'),
        per_address: z.number().describe('Limit of one address'),
        refused: z.number().describe('Refusals since the start: 429 or 503'),
      }),
    )
    .describe('What callers of the instance that responds have at the moment, and may have; none for a limited token'),
  hours: z
    .array(z.object({ instance: z.string(), name: z.string(), points: z.array(minutePoint) }))
    .describe(
      'The last hour of each instance, oldest minute first, and the current minute of the one that responds; no points for a limited token',
    ),
});
export type InstancesAnswer = z.infer<typeof instancesAnswer>;
