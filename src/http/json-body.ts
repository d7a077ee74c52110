import type { FastifyInstance, FastifyRequest } from 'fastify';
import type * as z from 'zod';
import { SyncError } from '../lib/errors.js';
import { JsonSyntaxError } from '../lib/json/json-check.js';
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
  app.addContentTypeParser('*', { parseAs: 'buffer' }, async (request: FastifyRequest, body: Buffer) =>
    request.routeOptions.config.rawBody === true ? body : await readJsonBody(request.headers['content-type'], body),
  );
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
