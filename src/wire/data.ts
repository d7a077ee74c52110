import * as z from 'zod';
import { isRecord } from '../lib/json/is-record.js';
import { MAX_JSON_DEPTH } from '../lib/json/json-check.js';
import { JsonText } from '../lib/json/json-text.js';
import { isDocPath, isPointer } from './doc-path.js';
import { dict, list, MANY } from './lists.js';

/**
 * Data source entries and data updates: specification "DataSourceEntry" and specification
 * "DataUpdate"; what OPAL adds is in opal-protocol P4.1. Inline data stays text from the request to
 * the engine (design D33), so parse bodies as `inline-data.ts` does.
 */

const docPath = z
  .string()
  .refine(isDocPath, 'must be a path of valid text and percent-escapes, without . and .. segments');

/**
 * Limits of one update: each topic and callback takes memory on every server and client for a long
 * time.
 */
export const UPDATE_LIMITS = {
  entries: 10_000,
  topics: 100,
  callbacks: 20,
  headers: 200,
  idChars: 256,
  reasonChars: 10_000,
} as const;

/** HTTP methods that a fetch may use (opal-protocol P4.8). */
export const FETCH_METHODS = ['get', 'post', 'put', 'patch', 'head', 'delete'] as const;

/**
 * How HTTP fetches (specification data-source-entry.config; members beyond `headers` from
 * opal-protocol P4.8).
 */
export const fetcherConfig = z.looseObject({
  fetcher: z.string().nullish(),
  headers: dict(z.string(), { max: UPDATE_LIMITS.headers }).nullish(),
  method: z.string().toLowerCase().pipe(z.enum(FETCH_METHODS)).optional(),
  data: z.unknown().optional(),
  is_json: z.boolean().nullish(),
});
export type FetcherConfig = z.infer<typeof fetcherConfig>;

/** Names of the built-in provider, which is also the default. Case does not matter. */
export const HTTP_PROVIDER_NAMES = ['HttpFetchProvider', 'http'] as const;

/** True when HTTP fetches an entry with this `config.fetcher`. */
export function isHttpFetcher(fetcher: string | null | undefined): boolean {
  const name = fetcher?.toLowerCase() ?? '';
  return name === '' || HTTP_PROVIDER_NAMES.some((known) => known.toLowerCase() === name);
}

/**
 * `config` of an entry. Where HTTP fetches it has the form of {@link fetcherConfig}; for another
 * provider it is an object that only this provider can judge, on the client (opal-protocol P4.8).
 */
export const entryConfig = z.looseObject({ fetcher: z.string().nullish() }).transform((config, context) => {
  if (!isHttpFetcher(config.fetcher)) return config;
  const parsed = fetcherConfig.safeParse(config);
  if (parsed.success) return parsed.data;
  for (const { message, path } of parsed.error.issues) context.addIssue({ code: 'custom', message, path: [...path] });
  return z.NEVER;
});
export type EntryConfig = z.infer<typeof entryConfig>;

/**
 * The members of `config` that decide which document an entry gets (design D18): of HTTP method and
 * body, of another provider everything. Credentials do not: they may change, and the entry stays
 * the same one.
 */
export function sourceIdentity(config: EntryConfig | null | undefined): unknown[] {
  if (isHttpFetcher(config?.fetcher)) {
    const isText = config?.is_json === false ? ['text'] : [];
    return [config?.method ?? 'get', config?.data ?? null, ...isText];
  }
  const { fetcher, headers, connection_params: params, ...rest } = config ?? {};
  const place = isRecord(params) ? { ...params, user: undefined, password: undefined } : params;
  return [fetcher?.toLowerCase(), sorted({ ...rest, connection_params: place })];
}

/** The same members in one order, at the top level. */
function sorted(value: Record<string, unknown>): unknown {
  return Object.fromEntries(Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1)));
}

/** Ways to save into the engine: PUT, OPAL's PATCH (JSON Patch), and DELETE, which is our own. */
export const SAVE_METHODS = ['PUT', 'PATCH', 'DELETE'] as const;
export type SaveMethod = (typeof SAVE_METHODS)[number];

/**
 * Strict strings are for people (specification versioning.strict-types): what a server or an
 * external API writes is read as it is meant.
 */
function numberAsText(value: unknown): unknown {
  return typeof value === 'number' ? String(value) : value;
}

function withTextHeaders(config: unknown): unknown {
  if (!isRecord(config) || !('headers' in config) || !isRecord(config.headers)) return config;
  const headers = Object.entries(config.headers).map(([name, value]: [string, unknown]) => [name, numberAsText(value)]);
  return { ...config, headers: Object.fromEntries(headers) };
}

/** Inline data as parsers read it, unless it is nested deeper than engines accept. */
const inlineData = z.custom<JsonText>((value) => value instanceof JsonText, {
  error: `must be nested at most ${MAX_JSON_DEPTH} levels deep`,
});

/** Of texts that something is looked for by. */
const NOT_EMPTY = 'must not be empty';

const entryFields = {
  url: z.string(),
  config: entryConfig.nullish(),
  topics: list(z.string().min(1, NOT_EMPTY), { max: UPDATE_LIMITS.topics, empty: 'must name at least one topic' }),
  dst_path: docPath,
  save_method: z.enum(SAVE_METHODS).default('PUT'),
  inline_data: z.boolean().optional(),
  data: inlineData.nullish(),
  periodic_update_interval: z.number().positive().nullish(),
};

/** An entry as people send it: strict types, `topics` and `dst_path` required (design D37). */
export const dataSourceEntry = z.object(entryFields);
export type DataSourceEntry = z.infer<typeof dataSourceEntry>;

/** An entry as an OPAL peer sends it: defaults where it leaves fields out (opal-protocol P4.1). */
export const peerEntry = z.object({
  ...entryFields,
  topics: list(z.coerce.string(), { max: MANY }).default(['policy_data']),
  dst_path: z.preprocess(numberAsText, docPath.default('')),
  config: z.preprocess(withTextHeaders, entryConfig.nullish()),
  save_method: z.preprocess(
    (value) => (value === 'PUT' || value === 'DELETE' || value === undefined ? value : 'PATCH'),
    entryFields.save_method,
  ),
  periodic_update_interval: z.coerce.number().positive().nullish().catch(null),
  /**
   * Our own servers add the place in the update log (extension; never sent to peers that did not
   * ask).
   */
  seq: z.number().int().nonnegative().optional(),
  /** With `seq`: whether the operator configured it, or somebody published it. */
  origin: z.enum(['base', 'update']).optional(),
  /**
   * Pointers to objects of `data` that patches have made on their way: one goes with the last of
   * its members.
   */
  implied: list(z.string().refine(isPointer), { max: MANY }).optional(),
  /**
   * Of a DELETE: it removes what updates and base entries have put there, and hides nothing of any
   * commit (design D48).
   */
  only_removes: z.boolean().optional(),
});
export type PeerEntry = z.infer<typeof peerEntry>;

/** One callback: a URL, or a URL with how it is called. */
export const callbackItem = z.union([z.string(), z.tuple([z.string(), fetcherConfig])]);

/** One-time callbacks of an update (specification "UpdateCallbackConfig"). */
export const updateCallback = z.object({ callbacks: list(callbackItem, { max: UPDATE_LIMITS.callbacks }).default([]) });

const updateFields = {
  id: z.string().nullish(),
  reason: z.string().nullish(),
  callback: updateCallback.optional(),
};

/** Longest time that an update may be retained, unless for ever: 10 years. */
const MAX_RETAIN_SECONDS = 10 * 365 * 24 * 60 * 60;

/** Body of `POST /data/config` (specification "DataUpdate"). */
export const dataUpdate = z.object({
  ...updateFields,
  id: z.string().min(1, `${NOT_EMPTY}: leave it out, and the server makes one`).max(UPDATE_LIMITS.idChars).nullish(),
  reason: z.string().max(UPDATE_LIMITS.reasonChars).nullish(),
  /**
   * Whether clients that connect later get it too, or for how many seconds (design D17). Default:
   * the server's setting.
   */
  retain: z.union([z.boolean(), z.number().min(0).max(MAX_RETAIN_SECONDS)]).optional(),
  entries: list(dataSourceEntry, { max: UPDATE_LIMITS.entries, empty: 'must have at least one entry' }),
});
export type DataUpdate = z.infer<typeof dataUpdate>;

/**
 * A data update as it arrives over pub/sub. `seq`, `epoch` and `prev` come from our own servers
 * only.
 */
export const peerUpdate = z.object({
  id: z.string().nullish(),
  reason: z.coerce.string().nullish(),
  /** Items are read one by one: an invalid one must not fail the update. */
  callback: z
    .object({ callbacks: list(z.unknown(), { max: MANY }).default([]) })
    .nullish()
    .catch(null),
  entries: list(peerEntry, { max: MANY }),
  seq: z.number().int().nonnegative().optional(),
  epoch: z.string().optional(),
  /** The seq of the update before it on each of its topics; 0: there was none. */
  prev: dict(z.number().int().nonnegative(), { max: MANY }).optional(),
  /** The span that announced it (W3C); never a reason to reject an update. */
  traceparent: z.string().optional().catch(undefined),
});
export type PeerUpdate = z.infer<typeof peerUpdate>;

/**
 * Response of `GET /data/config`: the desired entries in order. `epoch`, `head` only where the
 * client negotiated them.
 */
export const peerDataConfig = z.object({
  entries: list(peerEntry, { max: MANY }).default([]),
  epoch: z.string().optional(),
  head: z.number().int().nonnegative().optional(),
  /**
   * True when the operator set base entries (also to an empty list); only then may missing ones be
   * pruned (design D11).
   */
  base_set: z.boolean().optional(),
});
export type PeerDataConfig = z.infer<typeof peerDataConfig>;

/**
 * SYNC_DATA_CONFIG_SOURCES: exactly one of an inline configuration and the URL of an external API
 * (specification "DataSourceConfig"). OPAL's model prints the other one as null.
 */
export const serverDataSources = z.union([
  z
    .strictObject({
      config: z.object({
        entries: list(peerEntry.omit({ implied: true, only_removes: true }), { max: MANY }).default([]),
      }),
      external_source_url: z.null().optional(),
    })
    .transform(({ config }) => ({ config })),
  z
    .strictObject({ config: z.null().optional(), external_source_url: z.url({ protocol: /^https?$/ }) })
    .transform(({ external_source_url }) => ({ external_source_url })),
]);
export type ServerDataSources = z.infer<typeof serverDataSources>;
