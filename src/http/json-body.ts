import type { FastifyInstance, FastifyRequest, RequestPayload } from 'fastify';
import type * as z from 'zod';
import { SyncError } from '../lib/errors.js';
import { JsonSyntaxError } from '../lib/json/json-check.js';
import { Pieces } from '../lib/net/pieces.js';
import { inSteps } from '../lib/run/async.js';
import { type FieldProblem, fieldProblems } from '../wire/field-problems.js';
import { keepingData, TooManyValues } from '../wire/inline-data.js';
import { asUtf8 } from './body-charset.js';

/** `application/json` and every `application/*+json`, with or without parameters. */
const JSON_MEDIA_TYPE = /^application\/([\w.!#$&^-]+\+)?json$/i;

/**
 * Makes the app read request bodies as JSON only: where Content-Type is JSON or absent; any other
 * type is a 422 at `["body"]` (opal-protocol P0.3). Inline data stays text, so its numbers survive
 * as written (design D33).
 */
export function useJsonBodies(app: FastifyInstance): void {
  app.removeAllContentTypeParsers();
  app.addContentTypeParser('*', async (request: FastifyRequest, payload: RequestPayload) => {
    const body = await bodyBytes(request, payload);
    if (request.routeOptions.config.rawBody === true) return body;
    return await readJsonBody(request.headers['content-type'], body);
  });
}

/**
 * The body of a request, as far as its route takes one. Fastify would keep each chunk as its caller
 * has cut it, and a caller can cut a body into bytes. Rejects as Fastify does.
 */
function bodyBytes({ headers, routeOptions }: FastifyRequest, payload: RequestPayload): Promise<Buffer> {
  const limit = routeOptions.bodyLimit;
  if (Number(headers['content-length']) > limit) return Promise.reject(tooLarge());
  return new Promise((resolve, reject) => {
    const pieces = new Pieces();
    const over = (): void => void payload.off('data', onData).off('end', onEnd).off('error', onError);
    const onData = (piece: Buffer): void => {
      pieces.push(piece);
      if (pieces.bytes <= limit) return;
      over();
      reject(tooLarge());
    };
    const onEnd = (): void => {
      over();
      resolve(pieces.join());
    };
    const onError = (error: Error): void => {
      over();
      // A body that does not arrive is no fault of ours; an error of ours has its own status.
      reject(Object.assign(error, { statusCode: 400 }));
    };
    payload.on('data', onData).on('end', onEnd).on('error', onError).resume();
  });
}

/** As Fastify says it. */
function tooLarge(): Error {
  return Object.assign(new Error('Request body is too large'), {
    statusCode: 413,
    code: 'FST_ERR_CTP_BODY_TOO_LARGE',
  });
}

/**
 * The parsed body, `undefined` when there is none, in the charset that its content type names.
 * Yields the event loop in between: a body may be large. Rejects with `request_invalid` that has
 * the `detail` of the response.
 */
export async function readJsonBody(contentType: string | undefined, body: Buffer): Promise<unknown> {
  const mediaType = contentType?.split(';', 1)[0]?.trim() ?? '';
  if (mediaType !== '' && !JSON_MEDIA_TYPE.test(mediaType)) {
    throw invalidRequest(
      [{ loc: ['body'], msg: 'value is not a valid dict: send it as application/json', type: 'type_error.dict' }],
      'the body must be JSON with Content-Type application/json',
    );
  }
  const utf8 = asUtf8(contentType, body);
  const json = utf8.subarray(0, BOM.length).equals(BOM) ? utf8.subarray(BOM.length) : utf8;
  if (isBlank(json)) return undefined;
  try {
    return await inSteps(keepingData(json));
  } catch (cause) {
    if (cause instanceof TooManyValues) throw tooManyValues(cause);
    if (!(cause instanceof JsonSyntaxError)) throw cause;
    throw jsonInvalid(cause.message, json.toString('utf8', 0, cause.offset).length, cause);
  }
}

/** The byte order mark, which some callers send. */
const BOM = Buffer.from('\uFEFF');

function isBlank(json: Buffer): boolean {
  return json.every((byte) => byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09);
}

/**
 * Returns a body that follows the schema. Throws `request_invalid` (422) that names every wrong
 * field.
 */
export function parseBody<S extends z.ZodType>(schema: S, body: unknown): z.infer<S> {
  if (body === undefined) {
    throw invalidRequest(
      [{ loc: ['body'], msg: 'field required', type: 'value_error.missing' }],
      'a JSON body is required',
    );
  }
  const parsed = schema.safeParse(body);
  if (!parsed.success) {
    throw invalidRequest(fieldProblems(parsed.error));
  }
  return parsed.data;
}

/**
 * Returns a query that follows the schema. Throws `request_invalid` (422) that names every wrong
 * parameter.
 */
export function parseQuery<S extends z.ZodType>(schema: S, query: unknown): z.infer<S> {
  const parsed = schema.safeParse(query);
  if (parsed.success) return parsed.data;
  throw invalidRequest(fieldProblems(parsed.error, 'query'));
}

function tooManyValues({ message: msg }: TooManyValues): SyncError {
  return invalidRequest([{ loc: ['body'], msg, type: 'value_error.too_big' }]);
}

/**
 * A 422 whose `detail` lists fields. Without a message of its own it says what is wrong with each.
 */
export function invalidRequest(
  problems: readonly FieldProblem[],
  message = problems.map(({ loc, msg }) => `${loc.join('.')}: ${msg}`).join('; '),
): SyncError {
  return new SyncError('request_invalid', message, { detail: problems });
}

/**
 * The error for a body that is not JSON at all (opal-protocol P0.3); the offset is in characters.
 */
function jsonInvalid(message: string, offset: number, cause: unknown): SyncError {
  const detail = [
    { type: 'json_invalid', loc: ['body', offset], msg: 'JSON decode error', input: {}, ctx: { error: message } },
  ];
  return new SyncError('request_invalid', `the body is not JSON: ${message}`, { detail, cause });
}
