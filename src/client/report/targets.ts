import { createHash } from 'node:crypto';
import { validateHeaderName, validateHeaderValue } from 'node:http';
import * as z from 'zod';
import { callbackItem, FETCH_METHODS, type FetcherConfig, fetcherConfig, isHttpFetcher } from '../../wire/data.js';
import { pythonJson } from './python-json.js';

/**
 * The configuration of a callback, complete: member names, order and defaults are OPAL's (opal-protocol P2.6), except
 * that the method is POST wherever none is named (specification callback-config.pair; OPAL sends GET).
 */
export const completeCallbackConfig = z.object({
  fetcher: z.string().nullable(),
  headers: z.record(z.string(), z.string()).nullable(),
  is_json: z.boolean(),
  process_data: z.boolean(),
  method: z.enum(FETCH_METHODS),
  data: z.null().describe('The body of a callback is the report'),
});
export type CallbackConfig = z.infer<typeof completeCallbackConfig>;

/** Where reports go, and how. */
export interface CallbackTarget {
  readonly url: string;
  readonly config: CallbackConfig;
}

/** The URL of a callback. */
export const callbackUrl = z
  .string()
  .max(2048)
  .refine((text) => URL.canParse(text) && /^https?:$/.test(new URL(text).protocol), 'must be an http or https URL');

/** A configuration that a callback can be called with. */
export const callbackConfig = fetcherConfig
  .refine(({ fetcher }) => isHttpFetcher(fetcher), {
    path: ['fetcher'],
    message: 'callbacks are called over HTTP: leave it out',
  })
  .refine(({ headers }) => Object.entries(headers ?? {}).every(isSendable), {
    path: ['headers'],
    message: 'a name or value is not one that HTTP can carry',
  });

/** SYNC_DEFAULT_UPDATE_CALLBACKS (specification "UpdateCallbackConfig"). */
export const configuredCallbacks = z.strictObject({
  callbacks: z.array(z.union([callbackUrl, z.tuple([callbackUrl, callbackConfig])])),
});

/** SYNC_DEFAULT_UPDATE_CALLBACK_CONFIG where it is not set. */
export const DEFAULT_CALLBACK_CONFIG: CallbackConfig = {
  fetcher: null,
  headers: { 'content-type': 'application/json' },
  is_json: true,
  process_data: false,
  method: 'post',
  data: null,
};

/** A configuration that somebody gave, completed. */
export function completeConfig(given: FetcherConfig): CallbackConfig {
  return {
    fetcher: given.fetcher ?? null,
    headers: given.headers ?? null,
    is_json: given.is_json !== false,
    process_data: given.process_data !== false,
    method: given.method ?? 'post',
    data: null,
  };
}

/**
 * The target of one item: a plain URL takes the default configuration, a pair exactly its own. Undefined for an item that
 * no report can be sent to: a peer may have sent anything, and the update itself must not suffer.
 */
export function readTarget(item: unknown, defaults: CallbackConfig): CallbackTarget | undefined {
  const parsed = callbackItem.safeParse(item);
  if (!parsed.success) return undefined;
  const [url, given] = typeof parsed.data === 'string' ? [parsed.data, undefined] : parsed.data;
  const isUsable =
    callbackUrl.safeParse(url).success && (given === undefined || callbackConfig.safeParse(given).success);
  if (!isUsable) return undefined;
  return { url, config: given === undefined ? defaults : completeConfig(given) };
}

/** What identifies a target (opal-protocol P2.6): hex SHA-256 of its URL and of its configuration as Python prints it. */
export function targetKey({ url, config }: CallbackTarget): string {
  const { fetcher, headers, is_json, process_data, method, data } = config;
  const printed = pythonJson(JSON.stringify({ fetcher, headers, is_json, process_data, method, data }));
  return createHash('sha256')
    .update(url + printed)
    .digest('hex');
}

function isSendable([name, value]: [string, string]): boolean {
  try {
    validateHeaderName(name);
    validateHeaderValue(name, value);
    return true;
  } catch {
    return false; // the schema's message says it, without the value
  }
}
