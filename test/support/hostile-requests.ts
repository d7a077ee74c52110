import fc from 'fast-check';
import { ANY_CHARACTER } from './any-character.js';
import { example, places, replaced, type Schema, type SchemaPlace, wrongValues } from './hostile-schema.js';
import {
  DEEP_OBJECT,
  HOSTILE_TEXTS,
  NOT_JSON,
  ODD_HEADERS,
  ODD_METHODS,
  PATH_TRICKS,
  REFUSED_HEADERS,
  WRONG_TYPES,
} from './hostile-tables.js';
import type { Headers, RawRequest } from './hostile-wire.js';

/** One route of a running program, as its own OpenAPI document tells it. */
export interface Operation {
  readonly method: string;
  /** A path that the route answers; parameters are filled in. */
  readonly path: string;
  /** Everyone may call it. */
  readonly open: boolean;
  /** A token of this peer type is let in. */
  readonly peerType: 'client' | 'datasource' | 'listener';
  readonly parameters: readonly string[];
  /** Schema of its JSON body. */
  readonly body: Schema | undefined;
  /** Status codes that it documents. */
  readonly statuses: readonly number[];
}

/** A request that nobody should send. */
export interface HostileCase {
  readonly name: string;
  readonly request: RawRequest;
  /** `refuse`: the answer is a 4xx; `withstand`: what is wrong may mean nothing to the route, but must do no harm. */
  readonly must: 'refuse' | 'withstand';
  /** The place in the body that a 422 has to name. */
  readonly names?: SchemaPlace['path'];
  /** The connection may be cut in place of an answer. */
  readonly mayCut?: boolean;
}

/** How a caller that is let in calls, and how others try to. */
export interface Credentials {
  good(operation: Operation, body: Buffer | undefined): readonly (readonly [string, string])[];
  readonly bad: Readonly<Record<string, readonly (readonly [string, string])[]>>;
}

type Json = Readonly<Record<string, unknown>>;

/** Every route of an OpenAPI document. */
export function operations(document: unknown): Operation[] {
  const { paths } = document as { paths: Readonly<Record<string, Readonly<Record<string, Json>>>> };
  return Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, declared]): Operation => {
      const parameters = (declared.parameters ?? []) as readonly { in: string; name: string }[];
      const content = (declared.requestBody as { content: Readonly<Record<string, { schema: Schema }>> } | undefined)
        ?.content;
      const peerType = /token of peer type (datasource|listener)/.exec(String(declared.description))?.[1];
      return {
        method: method.toUpperCase(),
        path: path.replace(/\{\w+\}/g, 'x').replace('*', 'x'),
        open: isOpen(declared.security as readonly object[]),
        peerType: (peerType ?? 'client') as Operation['peerType'],
        parameters: parameters.filter((parameter) => parameter.in === 'query').map(({ name }) => name),
        body: content?.['application/json']?.schema,
        statuses: Object.keys(declared.responses as object).map(Number),
      };
    }),
  );
}

/** Whether a token is not needed, though it may show more. */
function isOpen(security: readonly object[]): boolean {
  return security.length === 0 || security.some((one) => Object.keys(one).length === 0);
}

/** Hostile requests for one route: every field of its body once, and `count` others. The same seed gives the same ones. */
export function hostileCases(
  operation: Operation,
  all: readonly Operation[],
  credentials: Credentials,
  { seed, count }: { seed: number; count: number },
): HostileCase[] {
  const sampled = fc.sample(anyCase(operation, all, credentials), { seed, numRuns: count });
  return [...fieldCases(operation, credentials, seed), ...sampled];
}

function anyCase(operation: Operation, all: readonly Operation[], credentials: Credentials): fc.Arbitrary<HostileCase> {
  const { path, method } = operation;
  const guarded = !operation.open || method !== 'GET';
  const known = new Set(all.filter((other) => other.path === path).map((other) => other.method));
  const one = <T>(values: readonly T[]): fc.Arbitrary<T> => fc.constantFrom(...values);
  const entry = <T>(values: Readonly<Record<string, T>>): fc.Arbitrary<[string, T]> => one(Object.entries(values));
  const made = (
    name: string,
    must: HostileCase['must'],
    parts: Partial<RawRequest>,
    more: Partial<HostileCase> = {},
  ) => ({
    name: `${method} ${path}: ${name}`,
    must,
    request: { method, target: path, headers: parts.headers ?? credentials.good(operation, parts.body), ...parts },
    ...more,
  });
  const json: Headers = [['Content-Type', 'application/json']];
  const withBody = (body: Buffer, type = json): Partial<RawRequest> => ({
    body,
    headers: [...type, ...credentials.good(operation, body)],
  });
  const ownBody = operation.body === undefined ? undefined : Buffer.from(JSON.stringify(example(operation.body)));
  // What a route without a body schema is sent does not matter to it; the webhook judges its own.
  const mustOfBody = operation.body === undefined || path === '/webhook' ? 'withstand' : 'refuse';

  const kinds: fc.Arbitrary<HostileCase>[] = [
    one(PATH_TRICKS).map((trick) => {
      const target = trick(path);
      // What is the root or the path itself is an ordinary call without a token.
      const must = guarded && !/^(\*|\/+)$/.test(target) ? 'refuse' : 'withstand';
      return made(`as ${target.slice(0, 80)}`, must, { target, headers: [] });
    }),
    one(ODD_METHODS.filter((odd) => !known.has(odd))).map((odd) =>
      made(`method ${odd}`, 'refuse', { method: odd }, { mayCut: odd === 'CONNECT' }),
    ),
    entry(REFUSED_HEADERS).map(([name, headers]) =>
      made(name, 'refuse', { headers: [...headers, ...credentials.good(operation, undefined)] }, { mayCut: true }),
    ),
    fc
      .tuple(entry(ODD_HEADERS), fc.constant(ownBody))
      .map(([[name, headers]]) =>
        made(name, 'withstand', { headers: [...headers, ...credentials.good(operation, undefined)] }),
      ),
    fc
      .tuple(
        one([...operation.parameters, 'x', '__proto__', 'constructor[prototype]']),
        fc.oneof(one(HOSTILE_TEXTS), fc.string({ unit: ANY_CHARACTER })),
      )
      .map(([name, text]) => {
        const value = /\p{Surrogate}/u.test(text) ? '%ed%a0%80' : encodeURIComponent(text);
        return made(`?${name}=${value.slice(0, 80)}`, 'withstand', { target: `${path}?${name}=${value}` });
      }),
    fc
      .tuple(one([...operation.parameters, 'x']), fc.integer({ min: 2, max: 400 }))
      .map(([name, times]) =>
        made(`${name} ${times} times`, 'withstand', { target: `${path}?${`${name}=a&`.repeat(times)}` }),
      ),
  ];
  if (guarded) {
    kinds.push(
      entry(credentials.bad).map(([name, headers]) =>
        made(`with ${name}`, 'refuse', { headers, ...(ownBody && { body: ownBody }) }),
      ),
    );
  }
  if (method !== 'GET') {
    kinds.push(
      entry(NOT_JSON).map(([name, body]) => made(`body: ${name}`, mustOfBody, withBody(body))),
      fc.constant(made('body: 10,000 levels of objects', mustOfUnknown(operation), withBody(DEEP_OBJECT))),
      fc
        .uint8Array({ minLength: 1, maxLength: 200 })
        .map((bytes) => made('body: random bytes', mustOfBody, withBody(Buffer.from([0x7d, ...bytes])))),
      fc.json().map((text) => made(`body: ${text.slice(0, 80)}`, 'withstand', withBody(Buffer.from(text)))),
      fc.constant(
        made(
          'a body that is announced as a terabyte',
          'refuse',
          { headers: [...json, ['Content-Length', '1099511627776'], ...credentials.good(operation, undefined)] },
          { mayCut: true },
        ),
      ),
    );
  }
  if (ownBody !== undefined) {
    kinds.push(
      one(WRONG_TYPES).map((type) => made(`as ${type}`, mustOfBody, withBody(ownBody, [['Content-Type', type]]))),
      one(['__proto__', 'constructor', 'prototype']).map((name) =>
        made(
          `everything below ${name}`,
          mustOfUnknown(operation),
          withBody(Buffer.from(`{"${name}":${ownBody.toString()}}`)),
        ),
      ),
    );
  }
  return fc.oneof(...kinds);
}

/** Stands for a value in a body until it is text: a value of so many levels cannot be printed. */
const DEEP_MARK = 'deep-value';
const DEEP_TEXT = `${'['.repeat(20_000)}${']'.repeat(20_000)}`;

/** Every member of the body with a value of another type, with one that is nested too deep, and without each that is required. */
function fieldCases(operation: Operation, credentials: Credentials, seed: number): HostileCase[] {
  const { body: schema, method, path } = operation;
  if (schema === undefined) return [];
  const good = example(schema);
  const isUpdate = method === 'POST' && path === '/data/config';
  const made = (what: string, place: SchemaPlace['path'], value: unknown, must: HostileCase['must']): HostileCase => {
    const text = JSON.stringify(replaced(good, place, value)) ?? 'null';
    const body = Buffer.from(text.replace(`"${DEEP_MARK}"`, DEEP_TEXT));
    const headers: Headers = [['Content-Type', 'application/json'], ...credentials.good(operation, body)];
    const name = `${method} ${path}: ${place.join('.') || 'the body'} ${what}`;
    return { name, must, names: place, request: { method, target: path, headers, body } };
  };
  return places(schema).flatMap((at, index) => {
    const must = path === '/webhook' && at.path.length > 0 ? 'withstand' : 'refuse';
    const wrong = wrongValues(at.schema);
    const chosen = wrong.length === 0 ? [] : fc.sample(fc.constantFrom(...wrong), { seed: seed + index, numRuns: 2 });
    // Where any value is taken a deep one may be; in the update log it would make every later answer fail.
    const mustOfDeep = wrong.length > 0 || isUpdate ? must : 'withstand';
    return [
      ...chosen.map((value) => made(`as ${JSON.stringify(value)}`, at.path, value, must)),
      ...(at.path.length === 0 ? [] : [made('nested 20,000 levels deep', at.path, DEEP_MARK, mustOfDeep)]),
      ...(at.optional || at.path.length === 0 ? [] : [made('left out', at.path, undefined, must)]),
    ];
  });
}

/** A body whose members are all optional, and which takes unknown ones, is met by any object. */
function mustOfUnknown({ body }: Operation): HostileCase['must'] {
  return (body?.required?.length ?? 0) > 0 ? 'refuse' : 'withstand';
}
