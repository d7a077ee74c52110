import type { FastifyInstance } from 'fastify';
import type { z } from 'zod';
import { SyncError } from '../lib/errors.js';
import { parseKeepingData } from '../wire/data.js';
import { type FieldProblem, fieldProblems } from '../wire/error-body.js';

/** `application/json` and every `application/*+json`, with or without parameters. */
const JSON_MEDIA_TYPE = /^application\/([\w.!#$&^-]+\+)?json$/i;

/**
 * Makes the app read request bodies as JSON only: where Content-Type is JSON or absent; any other type is a 422 at
 * `["body"]` (protocol-facts 0.3). Inline data stays text, so its numbers survive as written (design 9.9).
 */
export function useJsonBodies(app: FastifyInstance): void {
  app.removeAllContentTypeParsers();
  app.addContentTypeParser('*', { parseAs: 'buffer' }, (request, body: Buffer, done) => {
    try {
      if (request.routeOptions.config.rawBody === true) done(null, body);
      else done(null, readJsonBody(request.headers['content-type'], body));
    } catch (error) {
      done(error as Error);
    }
  });
}

/** The parsed body, `undefined` when there is none. Throws `request_invalid` with the `detail` of the answer. */
export function readJsonBody(contentType: string | undefined, body: Buffer): unknown {
  const mediaType = contentType?.split(';', 1)[0]?.trim() ?? '';
  if (mediaType !== '' && !JSON_MEDIA_TYPE.test(mediaType)) {
    throw invalidRequest('the body must be JSON with Content-Type application/json', [
      { loc: ['body'], msg: 'value is not a valid dict: send it as application/json', type: 'type_error.dict' },
    ]);
  }
  let text: string;
  try {
    text = new TextDecoder('utf-8', { fatal: true }).decode(body);
  } catch (cause) {
    throw jsonInvalid('the body is not UTF-8', 0, cause);
  }
  if (text.trim() === '') return undefined;
  try {
    return parseKeepingData(text);
  } catch (cause) {
    const message = cause instanceof Error ? cause.message : String(cause);
    throw jsonInvalid(message, jsonErrorOffset(message, text), cause);
  }
}

/** A body that follows the schema. Throws `request_invalid` (422) that names every field that does not. */
export function parseBody<S extends z.ZodType>(schema: S, body: unknown): z.infer<S> {
  if (body === undefined) {
    throw invalidRequest('a JSON body is required', [
      { loc: ['body'], msg: 'field required', type: 'value_error.missing' },
    ]);
  }
  const parsed = schema.safeParse(body);
  if (!parsed.success) {
    const problems = fieldProblems(parsed.error);
    throw invalidRequest(problems.map((problem) => `${problem.loc.join('.')}: ${problem.msg}`).join('; '), problems);
  }
  return parsed.data;
}

/** A query that follows the schema. Throws `request_invalid` (422) that names every parameter that does not. */
export function parseQuery<S extends z.ZodType>(schema: S, query: unknown): z.infer<S> {
  const parsed = schema.safeParse(query);
  if (parsed.success) return parsed.data;
  const problems = fieldProblems(parsed.error, 'query');
  throw invalidRequest(problems.map((problem) => `${problem.loc.join('.')}: ${problem.msg}`).join('; '), problems);
}

/** A 422 whose `detail` lists fields. */
export function invalidRequest(message: string, problems: readonly FieldProblem[]): SyncError {
  return new SyncError('request_invalid', message, { detail: problems });
}

/** The form that a body has which is not JSON at all (protocol-facts 0.3); the offset is in characters. */
function jsonInvalid(message: string, offset: number, cause: unknown): SyncError {
  const detail = [
    { type: 'json_invalid', loc: ['body', offset], msg: 'JSON decode error', input: {}, ctx: { error: message } },
  ];
  return new SyncError('request_invalid', `the body is not JSON: ${message}`, { detail, cause });
}

/** Where the parser stopped, as far as its message says so: some messages quote the text and name no place. */
function jsonErrorOffset(message: string, text: string): number {
  const position = /at position (\d+)/.exec(message)?.[1];
  if (position !== undefined) return Number(position);
  return /unexpected end|unterminated/i.test(message) ? text.length : 0;
}
