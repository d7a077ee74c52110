import { createHash } from 'node:crypto';
import { open } from 'node:fs/promises';
import { type Dispatcher, request } from 'undici';
import { errorText, SyncError } from '../../../lib/errors.js';
import { followRedirects, isRedirect } from '../../../lib/net/http-response.js';
import { createDispatcher } from '../../outbound/dispatcher.js';
import type { Env } from './opa-version.js';

/** Timeouts of a download, in milliseconds. */
export interface DownloadTimeouts {
  /** To connect: short, so that a machine without internet access quickly tries the next way. */
  connectMs: number;
  /** Timeout of the response, and between two chunks of the body. */
  silenceMs: number;
}

/** One file to download. */
export interface DownloadOptions {
  url: string;
  /** Hex SHA-256 that the whole file must have. */
  sha256: string;
  /** Target file; must not exist. The caller removes it if the download fails. */
  file: string;
  /** Environment with HTTPS_PROXY, HTTP_PROXY and NO_PROXY (`lib/net/proxy.ts`). */
  env: Env;
  timeouts?: Partial<DownloadTimeouts>;
  /** Maximum file size. Default 500 MB: an OPA is about 60 MB. */
  limitBytes?: number;
  signal?: AbortSignal;
  /** `totalBytes` is undefined if the server does not send it. */
  onProgress?: (receivedBytes: number, totalBytes: number | undefined) => void;
}

/**
 * Downloads a file, following up to five redirects. Resolves when all bytes are synced to disk and
 * their SHA-256 matches. Rejects with `engine_download_failed` and the reason.
 */
export async function download(options: DownloadOptions): Promise<void> {
  try {
    await using agent = agentFor(options);
    await fetchVerified(options, agent);
  } catch (cause) {
    options.signal?.throwIfAborted();
    throw new SyncError('engine_download_failed', `download of ${options.url} failed: ${errorText(cause)}`, { cause });
  }
}

function agentFor({ env, timeouts }: DownloadOptions): Dispatcher & AsyncDisposable {
  const { connectMs, silenceMs } = { connectMs: 5_000, silenceMs: 30_000, ...timeouts };
  const agent = createDispatcher(silenceMs, env, { connectTimeoutMs: connectMs });
  return Object.assign(agent, { [Symbol.asyncDispose]: () => agent.destroy() });
}

async function fetchVerified(options: DownloadOptions, agent: Dispatcher): Promise<void> {
  const { url, signal, limitBytes = 500_000_000 } = options;
  const { response: answer } = await followRedirects(
    { url: new URL(url), headers: {} },
    {
      max: 5,
      send: async (at) => {
        const response = await request(at.url, { dispatcher: agent, ...(signal === undefined ? {} : { signal }) });
        const { statusCode: status, headers, body } = response;
        if (isRedirect(status)) await body.dump();
        return { status, headers, body };
      },
      next: (at, to) => ({ ...at, url: to }),
      fail: (_at, why) => new Error(`the server ${why}`),
    },
  );
  if (answer.status !== 200) throw new Error(`the server answers ${answer.status}`);
  const totalBytes = lengthOf(answer.headers['content-length']);
  const hash = createHash('sha256');
  let receivedBytes = 0;
  await using out = await open(options.file, 'wx', 0o600);
  for await (const chunk of answer.body) {
    if (!(chunk instanceof Uint8Array)) throw new Error('the body is not bytes');
    receivedBytes += chunk.byteLength;
    if (receivedBytes > limitBytes) throw new Error(`the file is larger than ${limitBytes} bytes`);
    hash.update(chunk);
    await out.writeFile(chunk);
    options.onProgress?.(receivedBytes, totalBytes);
  }
  if (totalBytes !== undefined && receivedBytes !== totalBytes) {
    throw new Error(`only ${receivedBytes} of ${totalBytes} bytes arrived`);
  }
  const actual = hash.digest('hex');
  if (actual !== options.sha256) {
    throw new Error(`the file has SHA-256 ${actual}, expected is ${options.sha256}; it was thrown away`);
  }
  await out.sync();
}

function lengthOf(header: string | string[] | undefined): number | undefined {
  return typeof header === 'string' && /^\d+$/.test(header) ? Number(header) : undefined;
}
