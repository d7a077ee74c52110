import { promisify } from 'node:util';
import { constants, gunzip, gzip } from 'node:zlib';
import type { RestAnswer } from './rest-answers.js';

/** OPA compresses responses from this size on. */
const MIN_LENGTH = 1024;

const compress = promisify(gzip);

/** Whether a request accepts gzip, as OPA reads it: by the first item of that name. */
export function acceptsGzip(header: string | undefined): boolean {
  if (header === undefined) return false;
  for (const item of header.split(',')) {
    const [coding, ...parameters] = item.split(';').map((part) => part.trim().toLowerCase());
    if (coding !== 'gzip') continue;
    const weight = parameters.find((parameter) => parameter.startsWith('q='));
    return weight === undefined || Number(weight.slice(2)) > 0;
  }
  return false;
}

/** Whether OPA would compress this response for a caller that accepts it. */
export function isWorthGzip({ body }: RestAnswer): boolean {
  // A text has at least as many bytes as characters.
  return body.length >= MIN_LENGTH || Buffer.byteLength(body) >= MIN_LENGTH;
}

/** The response, compressed. */
export async function gzipped(answer: RestAnswer): Promise<RestAnswer> {
  const body = await compress(answer.body, { level: constants.Z_BEST_COMPRESSION });
  return { ...answer, headers: ['Content-Encoding', 'gzip', ...answer.headers], body };
}

/**
 * Unpacks a body, to at most `limitBytes`: `too large` beyond. Undefined if it is not exactly gzip; what is wrong with it OPA finds
 * within as many bytes.
 */
export function inflated(bytes: Buffer, limitBytes: number): Promise<Buffer | 'too large' | undefined> {
  return new Promise((resolve) => {
    const done = (error: NodeJS.ErrnoException | null, result: Buffer | { buffer: Buffer; engine: unknown }): void => {
      if (error !== null) {
        resolve(error.code === 'ERR_BUFFER_TOO_LARGE' ? 'too large' : undefined);
        return;
      }
      if (Buffer.isBuffer(result)) resolve(result);
      // Node ignores what follows; OPA refuses it.
      else
        resolve((result.engine as { bytesWritten: number }).bytesWritten === bytes.length ? result.buffer : undefined);
    };
    gunzip(bytes, { maxOutputLength: limitBytes, info: true } as object, done);
  });
}
