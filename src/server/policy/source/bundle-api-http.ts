import { createHash } from 'node:crypto';
import { createWriteStream } from 'node:fs';
import { pipeline } from 'node:stream/promises';
import type { Dispatcher } from 'undici';
import { SyncError } from '../../../lib/errors.js';
import { connectText } from '../../../lib/net/connect-failure.js';
import { followRedirects, type HeaderValues, headerText } from '../../../lib/net/http-response.js';
import { type ProxyServer as HttpProxy, readProxies } from '../../../lib/net/proxy.js';
import { timerMs, withAnySignal } from '../../../lib/run/async.js';
import type { BundleLocation } from './bundle-api-config.js';
import { signGet } from './sigv4.js';

/** More redirects are taken for a loop. */
const MAX_REDIRECTS = 5;
/** Timeout to connect, to respond, and between two chunks of the body. */
const DEFAULT_SILENCE_MS = 30_000;
/** Maximum bytes of an S3 error to read for its code. */
const ERROR_BODY_BYTES = 4_096;
const DISK_ERRORS = ['ENOSPC', 'EDQUOT', 'EROFS', 'EIO', 'EACCES', 'EPERM', 'ENOENT', 'EISDIR'];
/** An entity tag that can be sent back: printable characters, of bounded length. */
const USABLE_ETAG = /^[\x20-\x7e]{1,1024}$/;

/** Options of requests to a bundle server. */
export interface BundleServerOptions {
  location: BundleLocation;
  /** Maximum size of the archive as sent. */
  limitBytes: number;
  /** Timeout of one whole read. */
  timeoutMs: number;
  silenceTimeoutMs?: number | undefined;
  /** Environment with HTTP_PROXY, HTTPS_PROXY and NO_PROXY. */
  env: Readonly<Record<string, string | undefined>>;
}

/** Response of a bundle server; `etag` is the archive's, if it has one. */
export type BundleAnswer =
  /** The archive still has the entity tag of the request. */
  | { outcome: 'unchanged' }
  /** The archive is in the file. */
  | { outcome: 'archive'; etag: string | undefined; sha256: string }
  /** The archive exceeds the limit and was not read to its end. */
  | { outcome: 'too-large'; etag: string | undefined };

/**
 * One archive over HTTP (specification "Bundle server"; opal-protocol P7). Closes the connection
 * after each response: the next request follows seconds or hours later.
 */
export class BundleServer {
  readonly #options: BundleServerOptions;
  readonly #proxy: HttpProxy | undefined;

  /** Throws `config_invalid` for an invalid proxy address. */
  constructor(options: BundleServerOptions) {
    this.#options = options;
    this.#proxy = readProxies(options.env).for(options.location.url);
  }

  /**
   * Downloads the archive to `file`, which it replaces, unless the archive still has `etag`.
   * Follows redirects within the origin only, so that credentials are never sent to another.
   * Rejects with `bundle_server_failed`, `bundle_unwritable`, or the signal's reason.
   */
  async get(etag: string | undefined, file: string, signal: AbortSignal): Promise<BundleAnswer> {
    const { location, silenceTimeoutMs = DEFAULT_SILENCE_MS, timeoutMs } = this.#options;
    const attempt = async (within: AbortSignal): Promise<BundleAnswer> => {
      const dispatcher = await createDispatcher(location.url.origin, silenceTimeoutMs, this.#proxy);
      try {
        return await this.#read(etag, file, dispatcher, within);
      } catch (error) {
        if (signal.aborted) throw signal.reason;
        if (within.aborted) throw this.#failed(`was not read within ${timeoutMs / 1000} s`, error);
        if (error instanceof SyncError) throw error;
        const local = localCode(error);
        if (local !== undefined) throw unwritable(local);
        throw this.#failed(connectText(error, 'NODE_EXTRA_CA_CERTS'), error);
      } finally {
        await dispatcher.destroy();
      }
    };
    return await withAnySignal([signal], attempt, timerMs(timeoutMs));
  }

  async #read(
    etag: string | undefined,
    file: string,
    dispatcher: Dispatcher,
    signal: AbortSignal,
  ): Promise<BundleAnswer> {
    const answer = await this.#ask(etag, dispatcher, signal);
    const { status, headers } = answer;
    if (status === 304 && etag !== undefined) return { outcome: 'unchanged' };
    if (status === 404) throw this.#failed('answered 404: there is no bundle');
    if (status !== 200) throw this.#failed(`answered ${status}${await s3Code(this.#options.location, answer)}`);
    const newTag = usableEtag(headerText(headers.etag));
    // Servers without If-None-Match send the archive again, with the same tag.
    if (etag !== undefined && newTag === etag) return { outcome: 'unchanged' };
    const sha256 = await this.#save(answer, file);
    return sha256 === undefined ? { outcome: 'too-large', etag: newTag } : { outcome: 'archive', etag: newTag, sha256 };
  }

  async #ask(etag: string | undefined, dispatcher: Dispatcher, signal: AbortSignal): Promise<ServerAnswer> {
    const { location } = this.#options;
    const { response } = await followRedirects<ArchiveRequest, ServerAnswer>(
      await requestOf(location, location.url, etag),
      {
        max: MAX_REDIRECTS,
        send: async ({ url, headers }) => {
          const path = `${url.pathname}${url.search}`;
          const answer = await dispatcher.request({ origin: url.origin, path, method: 'GET', headers, signal });
          answer.body.on('error', () => undefined); // the reader of the body gets its error
          return { status: answer.statusCode, headers: answer.headers, body: answer.body };
        },
        next: ({ url }, to, answer) => {
          if (to.origin === url.origin) return requestOf(location, to, etag);
          throw this.#failed(
            `answered ${answer.status} to ${to.origin}; only redirects within the origin are followed, set SYNC_POLICY_BUNDLE_URL${regionHint(answer)}`,
          );
        },
        fail: (_request, why, answer) => this.#failed(`${why}${regionHint(answer)}`),
      },
    );
    return response;
  }

  /** Saves the archive and returns its hash; undefined if it exceeds the limit. */
  async #save(answer: ServerAnswer, file: string): Promise<string | undefined> {
    const limit = this.#options.limitBytes;
    if (Number(answer.headers['content-length']) > limit) return undefined;
    const sha256 = createHash('sha256');
    let size = 0;
    async function* withinLimit(chunks: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
      for await (const chunk of chunks) {
        size += chunk.length;
        if (size > limit) return; // this ends the read too
        sha256.update(chunk);
        yield chunk;
      }
    }
    await pipeline(answer.body, withinLimit, createWriteStream(file, { mode: 0o600 }));
    return size > limit ? undefined : sha256.digest('hex');
  }

  #failed(why: string, cause?: unknown): SyncError {
    return new SyncError('bundle_server_failed', `${this.#options.location.display}: ${why}`, {
      cause,
      retryable: true,
    });
  }
}

interface ArchiveRequest {
  readonly url: URL;
  readonly headers: Readonly<Record<string, string>>;
}

interface ServerAnswer {
  readonly status: number;
  readonly headers: HeaderValues;
  readonly body: Dispatcher.ResponseData['body'];
}

/** The region of the bucket, which S3 names in a redirect. */
function regionHint({ headers }: ServerAnswer): string {
  const region = headerText(headers['x-amz-bucket-region']);
  return region === undefined ? '' : `; the bucket is in region ${JSON.stringify(region)}`;
}

/** Builds the request to one URL: each redirect is signed separately. */
async function requestOf({ auth }: BundleLocation, url: URL, etag: string | undefined): Promise<ArchiveRequest> {
  const headers = {
    accept: 'application/gzip, application/octet-stream;q=0.9, */*;q=0.5',
    // The archive is compressed already, and its bytes are hashed.
    'accept-encoding': 'identity',
    'user-agent': 'policysync',
    ...(etag === undefined ? {} : { 'if-none-match': etag }),
  };
  if (auth.kind === 'header') return { url, headers: { ...headers, authorization: auth.value.reveal() } };
  if (auth.kind === 'none') return { url, headers };
  const signed = await signGet(url, auth, new Date());
  return { url: signed.url, headers: { ...headers, ...signed.headers } };
}

/** Loads undici on first use: a server that follows git does not need it. */
async function createDispatcher(origin: string, silence: number, proxy: HttpProxy | undefined): Promise<Dispatcher> {
  const [{ default: undici }, { httpConnector, proxiedPool }] = await Promise.all([
    import('undici'),
    import('../../../lib/net/connect.js'),
  ]);
  // Redirects lead to the same origin.
  if (proxy !== undefined) return proxiedPool(origin, proxy, { timeoutMs: silence, silenceTimeoutMs: silence });
  const connect = httpConnector({ timeoutMs: silence });
  return new undici.Agent({ headersTimeout: silence, bodyTimeout: silence, connect });
}

/**
 * Returns the code of an S3 error, ` (NoSuchKey)`. The rest of the response is not shown: it may
 * repeat the request.
 */
async function s3Code({ auth }: BundleLocation, answer: ServerAnswer): Promise<string> {
  if (auth.kind !== 's3') return '';
  let start = '';
  for await (const chunk of answer.body as AsyncIterable<Buffer>) {
    start += chunk.toString('latin1');
    if (start.length > ERROR_BODY_BYTES) break;
  }
  const code = /<Code>([A-Za-z0-9.]{1,64})<\/Code>/.exec(start)?.[1];
  return code === undefined ? '' : ` (${code})`;
}

function usableEtag(etag: string | undefined): string | undefined {
  return etag !== undefined && USABLE_ETAG.test(etag) ? etag : undefined;
}

/** Returns the code of a disk error, without the path: the health response is public. */
function localCode(error: unknown): string | undefined {
  const code = error instanceof Error && 'code' in error ? String(error.code) : '';
  return DISK_ERRORS.includes(code) ? code : undefined;
}

function unwritable(code: string): SyncError {
  return new SyncError('bundle_unwritable', `the bundle archive cannot be written to the policy folder: ${code}`, {
    retryable: true,
  });
}
