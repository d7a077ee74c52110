import { errorText, failureFields, SyncError } from '../../lib/errors.js';
import type { Logger } from '../../lib/observe/log.js';
import { firstOf, timerMs } from '../../lib/run/async.js';
import { HTTP_PROVIDER_NAMES } from '../../wire/data.js';
import { connectChecked } from '../outbound/connect-checked.js';
import { OutboundGate } from '../outbound/gate.js';
import { shownUrl } from './http-rules.js';
import { Limiter, type LimiterOptions } from './limiter.js';
import type { FetchProvider, FetchRequest, FetchResult, FetchSource, Outbound } from './provider.js';
import type { OnLarge, Spool } from './spool.js';

/** Options of {@link createFetcher}. */
export interface FetcherOptions extends Omit<LimiterOptions, 'overdueAfterMs'> {
  /** Timeout of one whole read, without the wait for a slot. */
  totalTimeoutMs: number;
}

/** Reads data source entries, each with the provider of its `config.fetcher`. */
export interface Fetcher {
  /**
   * Waits for a slot and reads one document, once. Resolves when the whole document has arrived and
   * is one JSON value within the limit. Rejects with `fetch_config_invalid`, `fetch_failed`,
   * `fetch_too_large`, `fetch_not_json` or `spool_unwritable`, with `retryable` for transient
   * failures and the `retryAfterSeconds` of the source, or with the signal's reason. `onLarge`
   * receives a large document while it arrives. `segments`: of the path that the document is for.
   */
  fetch(request: FetchRequest, signal: AbortSignal, onLarge?: OnLarge, segments?: number): Promise<FetchResult>;
  /** Closes all connections. */
  close(): Promise<void>;
}

/** A read that takes longer releases its slot: most take a tenth of it. */
const OVERDUE_AFTER_MS = 1000;
/** Time for a provider to end after its signal has aborted, or after `close`. */
const GRACE_MS = 2000;

/**
 * Creates a fetcher. `deps.spool` stores bodies and enforces the size limit. Entries without a
 * provider use HTTP. `deps.gate` restricts destinations. Throws `config_invalid` if two providers
 * have the same name, or one has an invalid `perHost`.
 */
export function createFetcher(
  options: FetcherOptions,
  deps: { providers: readonly FetchProvider[]; spool: Spool; log: Logger; gate?: OutboundGate },
): Fetcher {
  const { spool, log, providers, gate = new OutboundGate() } = deps;
  const outbound: Outbound = {
    addresses: (place) => gate.addresses(place),
    connect: (place, signal) => connectChecked(gate, place, signal),
  };
  const byName = namesOf(providers);
  const limiter = new Limiter({ ...options, overdueAfterMs: OVERDUE_AFTER_MS });

  function providerOf({ url, config }: FetchRequest): FetchProvider {
    const name = config?.fetcher ?? '';
    const provider = byName.get((name === '' ? HTTP_PROVIDER_NAMES[0] : name).toLowerCase());
    if (provider !== undefined) return provider;
    const known = providers.map(({ names }) => names[0]).join(', ');
    throw new SyncError(
      'fetch_config_invalid',
      `${shownUrl(url)}: the fetch provider ${JSON.stringify(name)} is not known; known are ${known}`,
    );
  }

  /** Makes one read within the timeout. */
  async function fetchNow(
    provider: FetchProvider,
    request: FetchRequest,
    signal: AbortSignal,
    { onLarge, segments }: { onLarge: OnLarge | undefined; segments: number | undefined },
  ): Promise<FetchResult> {
    const startedAt = performance.now();
    const stop = createStop();
    const onAbort = (): void => stop.end(signal.reason);
    signal.addEventListener('abort', onAbort, { once: true });
    const timer = setTimeout(() => stop.end(tooLate(request, options.totalTimeoutMs)), timerMs(options.totalTimeoutMs));
    try {
      signal.throwIfAborted();
      const sink = {
        limitBytes: spool.limitBytes,
        take: (source: FetchSource) => spool.spool(source, stop.signal, onLarge, segments),
      };
      const context = { sink, signal: stop.signal, outbound, SyncError };
      const result = await unlessStopped(provider.fetch(request, context), stop);
      stop.signal.throwIfAborted();
      const size = result.outcome === 'body' ? { bytes: result.body.sizeBytes } : {};
      const durationMs = Math.round(performance.now() - startedAt);
      // Evaluated only if the line is logged: it costs as much as the rest of this function.
      const url = { toJSON: () => shownUrl(request.url) };
      log.debug({ url, outcome: result.outcome, ...size, duration_ms: durationMs }, 'fetched');
      return result;
    } catch (error) {
      stop.signal.throwIfAborted(); // an abort is not a failure of the source
      if (error instanceof SyncError) throw error;
      const message = `${shownUrl(request.url)}: ${errorText(error)}`;
      throw new SyncError('fetch_failed', message, { cause: error, retryable: true });
    } finally {
      clearTimeout(timer);
      stop.clear();
      signal.removeEventListener('abort', onAbort);
    }
  }

  return {
    async fetch(request, signal, onLarge, segments) {
      const provider = providerOf(request);
      const host = provider.host?.(request) ?? hostOf(request.url);
      return limiter.run(
        host,
        signal,
        () => fetchNow(provider, request, signal, { onLarge, segments }),
        provider.perHost,
      );
    },
    close: async () => {
      await Promise.all(providers.map((provider) => closeProvider(provider, log)));
    },
  };
}

function namesOf(providers: readonly FetchProvider[]): ReadonlyMap<string, FetchProvider> {
  const byName = new Map<string, FetchProvider>();
  for (const provider of providers) {
    const { names, perHost } = provider;
    if (perHost !== undefined && !(Number.isInteger(perHost) && perHost >= 1)) {
      const message = `the fetch provider "${names[0]}" has perHost ${perHost}; it is a whole number, at least 1`;
      throw new SyncError('config_invalid', message);
    }
    for (const name of new Set(names.map((each) => each.toLowerCase()))) {
      if (byName.has(name)) throw new SyncError('config_invalid', `two fetch providers have the name "${name}"`);
      byName.set(name, provider);
    }
  }
  return byName;
}

/** Ends a read: its signal aborts at once, and {@link GRACE_MS} later the read is abandoned. */
interface Stop {
  readonly signal: AbortSignal;
  /** Rejects after the grace period; otherwise never settles. */
  readonly givenUp: Promise<never>;
  end(reason: unknown): void;
  clear(): void;
}

function createStop(): Stop {
  const controller = new AbortController();
  let timer: NodeJS.Timeout | undefined;
  let giveUp: (reason: unknown) => void = () => undefined;
  const givenUp = new Promise<never>((_resolve, reject) => {
    giveUp = reject;
  });
  return {
    signal: controller.signal,
    givenUp,
    end: (reason) => {
      if (controller.signal.aborted) return;
      timer = setTimeout(() => giveUp(reason), GRACE_MS);
      controller.abort(reason);
    },
    clear: () => clearTimeout(timer),
  };
}

/**
 * Returns the result of the read, or rejects after the grace period: a provider that ignores the
 * signal must not keep its slot forever.
 */
async function unlessStopped(reading: Promise<FetchResult>, { signal, givenUp }: Stop): Promise<FetchResult> {
  try {
    const result = await firstOf([reading, givenUp]);
    if (signal.aborted && result.outcome === 'body') await result.body.dispose();
    return result;
  } catch (error) {
    // Dispose of a document that still arrives; ignore any other end.
    reading.then((late) => (late.outcome === 'body' ? late.body.dispose() : undefined)).catch(() => undefined);
    throw error;
  }
}

/** Closes a provider within a timeout: the stop of the client must not depend on it. */
async function closeProvider(provider: FetchProvider, log: Logger): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const tooLong = new Promise<never>((_resolve, reject) => {
    timer = setTimeout(() => reject(new Error(`it did not end within ${GRACE_MS / 1000} s`)), GRACE_MS);
  });
  try {
    await firstOf([provider.close?.(), tooLong]);
  } catch (error) {
    log.error({ provider: provider.names[0], ...failureFields(error) }, 'a fetch provider could not be closed');
  } finally {
    clearTimeout(timer);
  }
}

function hostOf(url: string): string {
  return URL.canParse(url) ? new URL(url).host : '';
}

function tooLate({ url }: FetchRequest, limitMs: number): SyncError {
  return new SyncError('fetch_failed', `${shownUrl(url)} was not read within ${limitMs / 1000} s`, { retryable: true });
}
