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
   * The host that the request goes to: requests for one host share a limit, so that a host that hangs does not block
   * the others. Default: host and port of the URL. Throws as `fetch` does for what can never be fetched.
   */
  host?(request: FetchRequest): string;
  /** Concurrent reads of one host, where SYNC_FETCH_PER_HOST is more. Default: that. */
  readonly perHost?: number;
  /**
   * Reads one document, once, and hands its bytes to `context.sink`. Throws `SyncError`s: `fetch_config_invalid` for an
   * entry that cannot be fetched as it is written, else `fetch_failed` with `retryable` (it may pass by itself) and
   * `retryAfterSeconds`; anything else that it throws counts as `fetch_failed`, retryable. Texts must not have secrets.
   * Ends when `context.signal` aborts, with any error.
   */
  fetch(request: FetchRequest, context: FetchContext): Promise<FetchResult>;
  /** Closes connections. Nothing is fetched after that. */
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

/** Validators of a document, sent back to ask for a newer one. */
export interface Validators {
  etag?: string | undefined;
  lastModified?: string | undefined;
}

/** What a provider works with during one read. */
export interface FetchContext {
  readonly sink: FetchSink;
  /** Aborts when the client stops, the entry ends, or the read takes too long. */
  readonly signal: AbortSignal;
  /** Checks and opens connections to addresses that an entry names. */
  readonly outbound: Outbound;
  /** The class of the errors to throw, for a module in a folder that knows no `policysync`; another copy of it counts as no SyncError. */
  readonly SyncError: typeof SyncError;
}

/**
 * Enforces SYNC_FETCH_ALLOW and SYNC_FETCH_DENY, and that no entry reaches the engine or the client itself. Both methods throw
 * `address_refused`; if that is not `retryable`, the entry is not retried until it changes.
 */
export interface Outbound {
  /** The addresses that a connection to `place` may go to. Connect to these: another look-up of the name may give others. */
  addresses(place: Endpoint): Promise<readonly CheckedAddress[]>;
  /** A TCP connection to `place`, opened. The caller ends it. */
  connect(place: Endpoint, signal: AbortSignal): Promise<Socket>;
}

/** The bytes of a document, in pieces. */
export type FetchSource = AsyncIterable<Uint8Array> | Iterable<Uint8Array>;

/** Stores the document. */
export interface FetchSink {
  /** Largest document that is accepted. */
  readonly limitBytes: number;
  /**
   * Reads `source` to its end, as fast as the disk takes it. Throws `fetch_too_large` beyond the limit, `fetch_not_json`
   * unless the bytes are exactly one JSON value, `spool_unwritable`, and whatever `source` throws.
   */
  take(source: FetchSource): Promise<OwnedBody>;
}

/** Result of a read: a document that the caller disposes of, or that the caller's copy is still the newest. */
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

/** True for a value with the required members of a provider. */
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
