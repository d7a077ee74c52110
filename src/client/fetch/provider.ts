import type { Socket } from 'node:net';
import { resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { errorText, SyncError } from '../../lib/errors.js';
import type { Endpoint } from '../../lib/tls.js';
import type { EntryConfig } from '../../wire/data.js';
import type { CheckedAddress } from '../outbound/gate.js';
import type { OwnedBody } from './spool.js';

/**
 * The seam behind which data sources are read. `config.fetcher` of an entry names the provider (opal-protocol P4.8); HTTP
 * and Postgres are built in, programs add their own.
 */
export interface FetchProvider {
  /** What `config.fetcher` may be for this provider to fetch the entry; case does not matter. The first one is shown. */
  readonly names: readonly string[];
  /**
   * The host that the request goes to: requests for one host share a limit, so that one that hangs does not take the turns
   * of the others. Default: host and port of the URL. Throws as `fetch` does for what can never be fetched.
   */
  host?(request: FetchRequest): string;
  /** Reads of one host at the same time at most, where SYNC_FETCH_PER_HOST is more. Default: what that says. */
  readonly perHost?: number;
  /**
   * Reads one document, once, and hands its bytes to `context.sink`. Throws `SyncError`s: `fetch_config_invalid` for an
   * entry that cannot be fetched as it is written, else `fetch_failed` with `retryable` (it may pass by itself) and
   * `retryAfterSeconds`; anything else that it throws counts as `fetch_failed`, retryable. Texts must not have secrets.
   * Ends when `context.signal` aborts, with any error.
   */
  fetch(request: FetchRequest, context: FetchContext): Promise<FetchResult>;
  /** Lets go of connections. Nothing is fetched after that. */
  close?(): Promise<void>;
}

/** One document to read. */
export interface FetchRequest {
  url: string;
  /** The entry's `config`; null and absent mean the defaults. */
  config?: EntryConfig | null;
  /** Of the document that the caller still has. */
  previous?: Validators;
}

/** What a source said of the version of its document; sent back to ask whether there is a newer one. */
export interface Validators {
  etag?: string;
  lastModified?: string;
}

/** What a provider works with during one read. */
export interface FetchContext {
  readonly sink: FetchSink;
  /** Aborts when the client stops, the entry goes, or the read has taken too long. */
  readonly signal: AbortSignal;
  /** The way to a place that an entry names. */
  readonly outbound: Outbound;
  /** The class of the errors to throw, for a module in a folder that knows no `policysync`; another copy of it counts as no SyncError. */
  readonly SyncError: typeof SyncError;
}

/**
 * What SYNC_FETCH_ALLOW and SYNC_FETCH_DENY say, and what they cannot: nothing that an entry names is sent to the engine or to the
 * client itself. Both throw `address_refused`; where that is not `retryable` it ends the tries of an entry until it changes.
 */
export interface Outbound {
  /** The addresses that a connection to `place` may go to. Connect to these: another look-up of the name may give others. */
  addresses(place: Endpoint): Promise<readonly CheckedAddress[]>;
  /** A TCP connection to `place`, opened. The caller ends it. */
  connect(place: Endpoint, signal: AbortSignal): Promise<Socket>;
}

/** The bytes of a document, in pieces. */
export type FetchSource = AsyncIterable<Uint8Array> | Iterable<Uint8Array>;

/** Takes the document in. */
export interface FetchSink {
  /** Largest document that is taken. */
  readonly limitBytes: number;
  /**
   * Reads `source` to its end, as fast as the disk takes it. Throws `fetch_too_large` beyond the limit, `fetch_not_json`
   * unless the bytes are exactly one JSON value, `spool_unwritable`, and whatever `source` throws.
   */
  take(source: FetchSource): Promise<OwnedBody>;
}

/** What a read gave: a document that the caller disposes of, or that the caller's copy is still the newest. */
export type FetchResult = ({ outcome: 'body'; body: OwnedBody } & Validators) | { outcome: 'unchanged' };

/**
 * Loads fetch providers from ES modules (SYNC_FETCH_PROVIDER_MODULES): file paths, relative ones from the working folder,
 * or `file:` URLs. Throws `config_invalid` that names the module which cannot be loaded or has no provider as default
 * export.
 */
export async function loadProviderModules(paths: readonly string[]): Promise<FetchProvider[]> {
  const providers: FetchProvider[] = [];
  for (const path of paths) {
    const url = path.startsWith('file:') ? path : pathToFileURL(resolve(path)).href;
    let loaded: unknown;
    try {
      loaded = await import(url);
    } catch (cause) {
      throw invalid(path, `cannot be loaded: ${errorText(cause)}`, cause);
    }
    const exported = isObject(loaded) ? loaded.default : undefined;
    if (!isProvider(exported)) {
      throw invalid(path, 'has no fetch provider as default export: an object with `names` and `fetch`');
    }
    providers.push(exported);
  }
  return providers;
}

/** True for what has the members of a provider that must be there. */
function isProvider(value: unknown): value is FetchProvider {
  if (!isObject(value)) return false;
  const { names, fetch } = value;
  const areNames = Array.isArray(names) && names.length > 0 && names.every((name) => typeof name === 'string' && name);
  return areNames && typeof fetch === 'function';
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null;
}

function invalid(path: string, why: string, cause?: unknown): SyncError {
  return new SyncError('config_invalid', `SYNC_FETCH_PROVIDER_MODULES: the module ${path} ${why}`, { cause });
}
