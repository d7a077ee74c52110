import * as z from 'zod';
import type { Access } from '../auth/caller.js';
import { jsonSchemaOf } from '../wire/lists.js';
import type { ResponseDeclaration, RouteDeclaration } from './route.js';

/** What the document says of the program itself. */
export interface ApiInfo {
  readonly title: string;
  readonly version: string;
  readonly description: string;
}

type JsonObject = Record<string, unknown>;

const ERROR_SCHEMA = 'Error';

/**
 * The OpenAPI 3.1 document of routes, made from the same declarations and schemas that requests are checked against.
 * Paths are in the form of OpenAPI (`/callbacks/{key}`); every operation has an `operationId` of method and path.
 */
export function openApiDocument(routes: readonly RouteDeclaration[], info: ApiInfo): JsonObject {
  const paths: Record<string, JsonObject> = {};
  for (const route of routes) {
    const path = route.path.replace(/:(\w+)/g, '{$1}');
    paths[path] = { ...paths[path], [route.method.toLowerCase()]: operation(route) };
  }
  return {
    openapi: '3.1.0',
    info,
    paths,
    components: {
      schemas: { [ERROR_SCHEMA]: jsonSchema(errorAnswer, 'output') },
      securitySchemes: {
        bearer: {
          type: 'http',
          scheme: 'bearer',
          bearerFormat: 'JWT',
          description: 'A token of the sync server. Needed where authentication is on.',
        },
      },
    },
  };
}

function operation(route: RouteDeclaration): JsonObject {
  const { query, body, responses = {}, description, access } = route;
  const takesBody = body !== undefined;
  return {
    operationId: `${route.method.toLowerCase()}${route.path.replace(/[^\w]+(\w?)/g, (_match, next: string) => next.toUpperCase())}`,
    tags: [route.tag],
    summary: route.summary,
    description: [description, accessText(access)].filter((text) => text !== undefined).join('\n\n'),
    security: access === 'everyone' ? [] : [{ bearer: [] }],
    parameters: [...pathParameters(route.path), ...(query === undefined ? [] : queryParameters(query))],
    ...(takesBody && {
      requestBody: { required: true, content: { 'application/json': { schema: jsonSchema(body, 'input') } } },
    }),
    responses: {
      ...(access !== 'everyone' && { 401: failure('The token is missing, not valid or of the wrong kind') }),
      ...(takesBody && { 413: failure('The body is too large') }),
      ...((takesBody || query !== undefined) && { 422: failure('The request is not as documented') }),
      ...Object.fromEntries(Object.entries(responses).map(([status, one]) => [status, response(status, one)])),
      ...(Object.keys(responses).length === 0 && { 200: { description: 'Done' } }),
      default: failure('Another failure: the header x-sync-error has its code, see errors.md'),
    },
  };
}

function accessText(access: Access): string {
  if (access === 'everyone') return 'Open to everyone.';
  if (access === 'token') return 'With authentication on: any valid token.';
  return `With authentication on: a token of peer type ${access.join(' or ')}.`;
}

/** The body that `error-handler.ts` sends for an error. */
const errorAnswer = z.union([
  z.object({ detail: z.unknown().describe('What is wrong: a sentence, an object with `error`, or a list of fields') }),
  z.object({ error: z.string() }).describe('A mistake of the server'),
]);

function failure(description: string): JsonObject {
  return { description, content: { 'application/json': { schema: { $ref: `#/components/schemas/${ERROR_SCHEMA}` } } } };
}

function response(status: string, { description, schema, contentType }: ResponseDeclaration): JsonObject {
  if (Number(status) >= 400 && schema === undefined) return failure(description);
  if (schema === undefined)
    return { description, ...(contentType !== undefined && { content: { [contentType]: {} } }) };
  return { description, content: { 'application/json': { schema: jsonSchema(schema, 'output') } } };
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
  return rest;
}
