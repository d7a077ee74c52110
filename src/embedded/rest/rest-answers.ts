import { promisify } from 'node:util';
import { constants, gunzip, gzip } from 'node:zlib';
import { MAX_JSON_VALUES } from '../../lib/json/json.js';
import { MAX_DIGITS } from '../../lib/json/json-check.js';

/** A response of a front; the texts are those of OPA. */
export interface RestAnswer {
  readonly status: number;
  /** Names and values, one after the other. */
  readonly headers: readonly string[];
  readonly body: string | Uint8Array;
}

const JSON_TYPE: readonly string[] = ['Content-Type', 'application/json'];
/** OPA's data API may compress. */
const DATA: readonly string[] = [...JSON_TYPE, 'Vary', 'Accept-Encoding'];
const WARNING = '"warning":{"code":"api_usage_warning","message":"\'input\' key missing from the request"}';

/** The response to `/v1/data`. */
export function dataAnswer(result: string | undefined, warns: boolean): RestAnswer {
  const members = result === undefined ? '' : `"result":${result}`;
  const warning = warns ? `${members === '' ? '' : ','}${WARNING}` : '';
  return { status: 200, headers: DATA, body: `{${members}${warning}}\n` };
}

/** The response to `/v0/data` and `/`. */
export function bareAnswer(result: string): RestAnswer {
  return { status: 200, headers: DATA, body: `${result}\n` };
}

/** An error in OPA's form. `more`: further headers. */
export function errorAnswer(status: number, code: string, message: string, more: readonly string[] = []): RestAnswer {
  const body = `${JSON.stringify({ code, message }, undefined, 2)}\n`;
  return { status, headers: [...JSON_TYPE, ...more], body };
}

/** The response to whatever is not for the caller, as of OPA with an authorization policy. */
export const REFUSED = errorAnswer(401, 'unauthorized', 'request rejected by administrative policy');

/** The response of Go to a request that it cannot read. */
export const BAD_REQUEST: RestAnswer = {
  status: 400,
  headers: ['Content-Type', 'text/plain; charset=utf-8', 'Connection', 'close'],
  body: '400 Bad Request',
};

/** The response to a body beyond the limit. */
export const TOO_LARGE = errorAnswer(400, 'invalid_parameter', 'request body too large');

/** The response to a compressed body beyond the limit. */
export const INFLATES_TOO_LARGE = errorAnswer(
  400,
  'invalid_parameter',
  'could not decompress the body: gzip payload too large',
);

/** The response to a body whose values would keep OPA busy for longer than a decision may take. */
export const TOO_MANY_VALUES = errorAnswer(
  400,
  'invalid_parameter',
  `request body has more than ${MAX_JSON_VALUES} values`,
);

/** The response to a number that would keep OPA busy as long. */
export const TOO_MANY_DIGITS = errorAnswer(
  400,
  'invalid_parameter',
  `the request has a number of more than ${MAX_DIGITS} digits`,
);

/** The response of `/health`; with a problem it is unhealthy. */
export function healthAnswer(problem: string | undefined): RestAnswer {
  return problem === undefined
    ? { status: 200, headers: JSON_TYPE, body: '{}\n' }
    : { status: 500, headers: JSON_TYPE, body: `${JSON.stringify({ error: problem })}\n` };
}

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
 * Unpacks a body, to at most `limitBytes`: `too large` beyond. Undefined if it is not exactly gzip;
 * what is wrong with it OPA finds within as many bytes.
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
