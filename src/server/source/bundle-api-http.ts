import { createHash } from 'node:crypto';
import { createWriteStream } from 'node:fs';
import { pipeline } from 'node:stream/promises';
import type { Dispatcher } from 'undici';
import { timerMs, withAnySignal } from '../../lib/async.js';
import { connectText } from '../../lib/connect-failure.js';
import { SyncError } from '../../lib/errors.js';
import { followRedirects, type HeaderValues, headerText } from '../../lib/http-response.js';
import { type ProxyServer as HttpProxy, readProxies } from '../../lib/proxy.js';
import type { BundleLocation } from './bundle-api-config.js';
import { signGet } from './sigv4.js';

/** More is taken for a circle. */
const MAX_REDIRECTS = 5;
/** Timeout to connect, to respond, and between two chunks of the body. */
const DEFAULT_SILENCE_MS = 30_000;
/** How much of an S3 error is read for its code. */
const ERROR_BODY_BYTES = 4_096;
const DISK_ERRORS = ['ENOSPC', 'EDQUOT', 'EROFS', 'EIO', 'EACCES', 'EPERM', 'ENOENT', 'EISDIR'];
/** An entity tag that can be sent back: visible characters. Longer ones are not kept. */
const USABLE_ETAG = /^[\x20-\x7e]{1,1024}$/;

/** How a bundle server is asked. */
export interface BundleServerOptions {
  location: BundleLocation;
  /** Most bytes of the archive as it is sent. */
  limitBytes: number;
  /** Longest time for one whole read. */
  timeoutMs: number;
  silenceTimeoutMs?: number | undefined;
  /** Environment to take HTTP_PROXY, HTTPS_PROXY and NO_PROXY from. */
  env: Readonly<Record<string, string | undefined>>;
}

/** Response of a bundle server; `etag` is the archive's, if it has one. */
export type BundleAnswer =
  /** The archive is still the one of the entity tag that was asked with. */
  | { outcome: 'unchanged' }
  /** It is in the file. */
  | { outcome: 'archive'; etag: string | undefined; sha256: string }
  /** It is over the limit and was not read to its end. */
  | { outcome: 'too-large'; etag: string | undefined };

/** One archive over HTTP (specification "Bundle server"; opal-protocol P7). */
export interface BundleServer {
  /**
   * Reads the archive into `file`, which it replaces, unless the archive still has `etag`. Redirects are followed within the
   * origin only: credentials never travel to another. Throws `bundle_server_failed`, `bundle_unwritable`; rejects with the
   * signal's reason when that aborts.
   */
  get(etag: string | undefined, file: string, signal: AbortSignal): Promise<BundleAnswer>;
}

/**
 * A {@link BundleServer}. Connections are closed after each response: the next request comes seconds or hours later. Throws
 * `config_invalid` for a proxy address that is none.
 */
export function createBundleServer(options: BundleServerOptions): BundleServer {
  const { location } = options;
  const proxy = readProxies(options.env).for(location.url);
  const fail = (why: string, cause?: unknown): SyncError =>
    new SyncError('bundle_server_failed', `${location.display}: ${why}`, { cause, retryable: true });

  async function ask(etag: string | undefined, dispatcher: Dispatcher, signal: AbortSignal): Promise<ServerAnswer> {
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
          throw fail(
            `answered ${answer.status} to ${to.origin}; only redirects within the origin are followed, set SYNC_POLICY_BUNDLE_URL${regionHint(answer)}`,
          );
        },
        fail: (_request, why, answer) => fail(`${why}${regionHint(answer)}`),
      },
    );
    return response;
  }

  /** The hash of the archive, now in the file; undefined when it is over the limit. */
  async function save(answer: ServerAnswer, file: string): Promise<string | undefined> {
    const limit = options.limitBytes;
    if (Number(answer.headers['content-length']) > limit) return undefined;
    const sha256 = createHash('sha256');
    let size = 0;
    async function* withinLimit(chunks: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
      for await (const chunk of chunks) {
        size += chunk.length;
        if (size > limit) return; // which ends the read too
        sha256.update(chunk);
        yield chunk;
      }
    }
    await pipeline(answer.body, withinLimit, createWriteStream(file, { mode: 0o600 }));
    return size > limit ? undefined : sha256.digest('hex');
  }

  async function read(
    etag: string | undefined,
    file: string,
    dispatcher: Dispatcher,
    signal: AbortSignal,
  ): Promise<BundleAnswer> {
    const answer = await ask(etag, dispatcher, signal);
    const { status, headers } = answer;
    if (status === 304 && etag !== undefined) return { outcome: 'unchanged' };
    if (status === 404) throw fail('answered 404: there is no bundle');
    if (status !== 200) throw fail(`answered ${status}${await s3Code(location, answer)}`);
    const newTag = usableEtag(headerText(headers.etag));
    // Servers that do not know If-None-Match send the archive again, under the same tag.
    if (etag !== undefined && newTag === etag) return { outcome: 'unchanged' };
    const sha256 = await save(answer, file);
    return sha256 === undefined ? { outcome: 'too-large', etag: newTag } : { outcome: 'archive', etag: newTag, sha256 };
  }

  return {
    get: (etag, file, signal) => {
      const attempt = async (within: AbortSignal): Promise<BundleAnswer> => {
        const dispatcher = await createDispatcher(options.silenceTimeoutMs ?? DEFAULT_SILENCE_MS, proxy);
        try {
          return await read(etag, file, dispatcher, within);
        } catch (error) {
          if (signal.aborted) throw signal.reason;
          if (within.aborted) throw fail(`was not read within ${options.timeoutMs / 1000} s`, error);
          if (error instanceof SyncError) throw error;
          const local = localCode(error);
          if (local !== undefined) throw unwritable(local);
          throw fail(connectText(error, 'NODE_EXTRA_CA_CERTS'), error);
        } finally {
          await dispatcher.destroy();
        }
      };
      return withAnySignal([signal], attempt, timerMs(options.timeoutMs));
    },
  };
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

/** The region of a bucket elsewhere, which S3 names in a redirect. */
function regionHint({ headers }: ServerAnswer): string {
  const region = headerText(headers['x-amz-bucket-region']);
  return region === undefined ? '' : `; the bucket is in region ${JSON.stringify(region)}`;
}

/** What is sent to one place: each request is signed for itself. */
async function requestOf({ auth }: BundleLocation, url: URL, etag: string | undefined): Promise<ArchiveRequest> {
  const headers = {
    accept: 'application/gzip, application/octet-stream;q=0.9, */*;q=0.5',
    // The archive is compressed already; its bytes are what is hashed.
    'accept-encoding': 'identity',
    'user-agent': 'policysync',
    ...(etag === undefined ? {} : { 'if-none-match': etag }),
  };
  if (auth.kind === 'header') return { url, headers: { ...headers, authorization: auth.value.reveal() } };
  if (auth.kind === 'none') return { url, headers };
  const signed = await signGet(url, auth, new Date());
  return { url: signed.url, headers: { ...headers, ...signed.headers } };
}

/** Loaded when first needed: a server that follows git has no use for undici. */
async function createDispatcher(silence: number, proxy: HttpProxy | undefined): Promise<Dispatcher> {
  const [{ default: undici }, { httpConnector }] = await Promise.all([
    import('undici'),
    import('../../lib/connect.js'),
  ]);
  const connect = httpConnector({ timeoutMs: silence }, proxy);
  return new undici.Agent({ headersTimeout: silence, bodyTimeout: silence, connect });
}

/** The code of an S3 error, ` (NoSuchKey)`. The rest of the response may repeat what was sent, and is not shown. */
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

/** The code of a disk error, without the path: the health response is public. */
function localCode(error: unknown): string | undefined {
  const code = error instanceof Error && 'code' in error ? String(error.code) : '';
  return DISK_ERRORS.includes(code) ? code : undefined;
}

function unwritable(code: string): SyncError {
  return new SyncError('bundle_unwritable', `the bundle archive cannot be written to the policy folder: ${code}`, {
    retryable: true,
  });
}
