import type { Socket } from 'node:net';
import { resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { errorText, SyncError } from '../../lib/errors.js';
import type { Endpoint } from '../../lib/net/tls.js';
import type { EntryConfig } from '../../wire/data.js';
import type { CheckedAddress } from '../outbound/gate.js';
import type { OwnedBody } from './spool.js';

/**
 * The interface of data source providers. `config.fetcher` of an entry names the provider
 * (opal-protocol P4.8); HTTP and Postgres are built in, programs can add others.
 */
export interface FetchProvider {
  /**
   * Values of `config.fetcher` that select this provider; case-insensitive. Messages show the first
   * one.
   */
  readonly names: readonly string[];
  /**
   * Returns the host of a request: requests for one host share a limit, so that a hanging host does
   * not block others. Default: host and port of the URL. Throws like `fetch` for an invalid
   * request.
   */
  host?(request: FetchRequest): string;
  /**
   * Maximum concurrent reads per host, if less than SYNC_FETCH_PER_HOST. Default:
   * SYNC_FETCH_PER_HOST.
   */
  readonly perHost?: number;
  /**
   * Reads one document, once, and passes its bytes to `context.sink`. Rejects with a `SyncError`:
   * `fetch_config_invalid` for an invalid entry, otherwise `fetch_failed` with `retryable` (the
   * failure is transient) and `retryAfterSeconds`; any other error counts as `fetch_failed`,
   * retryable. Messages must not contain secrets. Must end, with any error, when `context.signal`
   * aborts.
   */
  fetch(request: FetchRequest, context: FetchContext): Promise<FetchResult>;
  /** Closes connections. No fetch follows. */
  close?(): Promise<void>;
}

/** One document to read. */
export interface FetchRequest {
  url: string;
  /** The entry's `config`; null and absent mean the defaults. */
  config?: EntryConfig | null;
  /** Validators of the document that the caller still has. */
  previous?: Validators;
}

/** Validators of a document, for a conditional request. */
export interface Validators {
  etag?: string | undefined;
  lastModified?: string | undefined;
}

/** The context of one read. */
export interface FetchContext {
  readonly sink: FetchSink;
  /** Aborts when the client stops, the entry ends, or the read takes too long. */
  readonly signal: AbortSignal;
  /** Checks addresses of entries, and opens connections to them. */
  readonly outbound: Outbound;
  /**
   * The error class to throw, for a module that cannot import `policysync`; another copy of the
   * class is not recognized.
   */
  readonly SyncError: typeof SyncError;
}

/**
 * Enforces SYNC_FETCH_ALLOW and SYNC_FETCH_DENY, and that no entry reaches the engine or the client
 * itself. Both methods reject with `address_refused`; if that is not `retryable`, the entry is not
 * retried until it changes.
 */
export interface Outbound {
  /**
   * Returns the allowed addresses of `place`. Connect only to these: another lookup of the name may
   * return others.
   */
  addresses(place: Endpoint): Promise<readonly CheckedAddress[]>;
  /** Opens a TCP connection to `place`. The caller closes it. */
  connect(place: Endpoint, signal: AbortSignal): Promise<Socket>;
}

/** The bytes of a document, in pieces. */
export type FetchSource = AsyncIterable<Uint8Array> | Iterable<Uint8Array>;

/** Stores the document. */
export interface FetchSink {
  /** Maximum size of a document. */
  readonly limitBytes: number;
  /**
   * Reads `source` to its end, with back pressure of the disk. Rejects with `fetch_too_large`
   * beyond the limit, `fetch_not_json` unless the bytes are exactly one JSON value,
   * `spool_unwritable`, or the error of `source`.
   */
  take(source: FetchSource): Promise<OwnedBody>;
}

/**
 * Result of a read: a document, which the caller disposes of; `unchanged`: the caller's copy is
 * current.
 */
export type FetchResult = ({ outcome: 'body'; body: OwnedBody } & Validators) | { outcome: 'unchanged' };

/**
 * Loads fetch providers from ES modules (SYNC_FETCH_PROVIDER_MODULES): file paths, relative to the
 * working directory, or `file:` URLs. Rejects with `config_invalid` for a module that cannot be
 * loaded or has no provider as default export.
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

/** Whether a value has the required members of a provider. */
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
