import * as z from 'zod';
import type { Audience, Holders } from '../auth/caller.js';
import { jsonSchemaOf } from '../wire/lists.js';
import type { DeclaredRoute, ResponseDeclaration } from './declared-route.js';

/** What the document says of the program itself. */
export interface ApiInfo {
  readonly title: string;
  readonly version: string;
  readonly description: string;
}

type JsonObject = Record<string, unknown>;

const ERROR_SCHEMA = 'Error';

/**
 * The OpenAPI 3.1 document of routes, made from the same declarations and schemas that requests are
 * checked against. Paths are in the form of OpenAPI (`/callbacks/{key}`); every operation has an
 * `operationId` of method and path. `isGuarded`: authentication is on; without it no operation has
 * anything to do with tokens.
 */
export async function openApiDocument(
  routes: readonly DeclaredRoute[],
  info: ApiInfo,
  isGuarded: boolean,
): Promise<JsonObject> {
  const paths: Record<string, JsonObject> = {};
  for (const route of routes) {
    const path = route.path.replace(/:(\w+)/g, '{$1}');
    paths[path] = { ...paths[path], [route.method.toLowerCase()]: await operation(route, isGuarded) };
  }
  return {
    openapi: '3.1.0',
    info,
    paths,
    components: {
      schemas: { [ERROR_SCHEMA]: jsonSchema(errorAnswer, 'output') },
      ...(isGuarded && { securitySchemes: { bearer: BEARER } }),
    },
  };
}

const BEARER = {
  type: 'http',
  scheme: 'bearer',
  bearerFormat: 'JWT',
  description: 'A token of the sync server.',
} as const;

async function operation(route: DeclaredRoute, isGuarded: boolean): Promise<JsonObject> {
  const { query, body, responses = {}, description, access } = route;
  const takesBody = body !== undefined;
  const declared = Object.entries(responses).map(
    async ([status, one]) => [status, await response(status, one)] as const,
  );
  return {
    operationId: `${route.method.toLowerCase()}${route.path.replace(/[^\w]+(\w?)/g, (_match, next: string) => next.toUpperCase())}`,
    tags: [route.tag],
    summary: route.summary,
    description: [description, audienceText(route)].filter((text) => text !== undefined).join('\n\n'),
    security: isGuarded ? securityOf(route) : [],
    parameters: [...pathParameters(route.path), ...(query === undefined ? [] : queryParameters(query))],
    ...(takesBody && {
      requestBody: { required: true, content: { 'application/json': { schema: jsonSchema(body, 'input') } } },
    }),
    responses: {
      ...(isGuarded &&
        access !== 'everyone' && { 401: failure('The token is missing, not valid or of the wrong kind') }),
      ...(takesBody && { 413: failure('The body is too large') }),
      ...((takesBody || query !== undefined) && { 422: failure('The request is not as documented') }),
      ...Object.fromEntries(await Promise.all(declared)),
      ...(declared.length === 0 && { 200: { description: 'Done' } }),
      default: failure('Another failure: the header x-sync-error has its code, see docs/reference/errors.md'),
    },
  };
}

/** None; or one that is not needed and shows more; or one that is needed. */
function securityOf(audience: Audience): object[] {
  if (audience.access !== 'everyone') return [{ bearer: [] }];
  return audience.strangers === 'all' ? [] : [{}, { bearer: [] }];
}

const LIMITED = {
  all: '',
  own: ' One that is limited to topics or paths gets its part, without texts of failures.',
  nothing: ' None that is limited to topics or paths.',
} as const;

function audienceText(audience: Audience): string {
  if (audience.access === 'everyone') {
    if (audience.strangers === 'all') return 'Open to everyone.';
    return `Open to everyone. With authentication on, texts of failures, addresses and names are for ${holdersText(audience.insiders)} without limits.`;
  }
  const { access, limited } = audience;
  return `With authentication on: ${holdersText(access)}.${LIMITED[limited]}`;
}

function holdersText(holders: Holders): string {
  return holders === 'token' ? 'any valid token' : `a token of peer type ${holders.join(' or ')}`;
}

/** The body that `error-handler.ts` sends for an error. */
const errorAnswer = z.union([
  z.object({ detail: z.unknown().describe('What is wrong: a sentence, an object with `error`, or a list of fields') }),
  z.object({ error: z.string() }).describe('A mistake of the server'),
]);

function failure(description: string): JsonObject {
  return { description, content: { 'application/json': { schema: { $ref: `#/components/schemas/${ERROR_SCHEMA}` } } } };
}

async function response(
  status: string,
  { description, schema, contentType, events }: ResponseDeclaration,
): Promise<JsonObject> {
  if (Number(status) >= 400 && schema === undefined) return failure(description);
  if (contentType !== undefined && events !== undefined) {
    // OpenAPI 3.1 has no words for the events of a stream.
    const shapes = Object.entries(await events()).map(([name, shape]) => [name, jsonSchema(shape, 'output')]);
    return { description, content: { [contentType]: { 'x-events': Object.fromEntries(shapes) } } };
  }
  if (schema === undefined)
    return { description, ...(contentType !== undefined && { content: { [contentType]: {} } }) };
  const loaded = typeof schema === 'function' ? await schema() : schema;
  return { description, content: { 'application/json': { schema: jsonSchema(loaded, 'output') } } };
}

function pathParameters(path: string): JsonObject[] {
  return [...path.matchAll(/:(\w+)/g)].map(([, name]) => ({
    name,
    in: 'path',
    required: true,
    schema: { type: 'string' },
  }));
}

function queryParameters(query: z.ZodType): JsonObject[] {
  const { properties = {}, required = [] } = jsonSchema(query, 'input') as {
    properties?: Record<string, JsonObject>;
    required?: string[];
  };
  return Object.entries(properties).map(([name, { description, ...schema }]) => ({
    name,
    in: 'query',
    required: required.includes(name),
    ...(description !== undefined && { description }),
    schema,
  }));
}

/** What a schema cannot say in JSON Schema (a check by code) is left open. */
function jsonSchema(schema: z.ZodType, io: 'input' | 'output'): JsonObject {
  const { $schema, ...rest } = jsonSchemaOf(schema, { io, reused: 'inline' });
  return withoutFalse(rest) as JsonObject;
}

/**
 * Nothing follows the items of a tuple: its length says the same as the schema `false`, which not
 * all generators of clients read.
 */
function withoutFalse(schema: unknown): unknown {
  if (Array.isArray(schema)) return schema.map(withoutFalse);
  if (typeof schema !== 'object' || schema === null) return schema;
  const members = Object.entries(schema).map(([name, value]) => [name, withoutFalse(value)]);
  const { items, ...rest } = Object.fromEntries(members) as JsonObject;
  if (items !== false || !Array.isArray(rest.prefixItems)) return items === undefined ? rest : { ...rest, items };
  const { length } = rest.prefixItems;
  return { ...rest, minItems: length, maxItems: length };
}
