import { SyncError } from '../../lib/errors.js';
import { jsonString } from '../../lib/json/json.js';
import { JsonCheck, JsonSyntaxError } from '../../lib/json/json-check.js';
import { elements, jsonKind, members, numbers, objectText } from '../../lib/json/json-text.js';

/**
 * Requests of the AuthZEN Authorization API 1.0, read from text. What the policy gets are the parts
 * as they were written: no number changes, and no member is lost. Unknown members are ignored; null
 * is a value of a wrong type, as the schemas of the working group have it (`context` is an object).
 */

/** Most levels of nested objects and arrays in a request. */
export const MAX_DEPTH = 64;

const SEMANTICS = ['execute_all', 'deny_on_first_deny', 'permit_on_first_permit'] as const;
/** When the evaluations of a request end (section 7.1.2.1). */
export type Semantic = (typeof SEMANTICS)[number];

/** A subject, resource or action: its text, and what a mapping looks at. */
interface Entity {
  readonly text: string;
  /** `type` of a subject or resource, `name` of an action. */
  readonly kind: string;
}

/** One question to the policy. */
export interface Evaluation {
  readonly subject: Entity;
  readonly action: Entity;
  readonly resource: Entity;
  readonly context: string | undefined;
}

/** An evaluation, or why it is none. */
export type EvaluationItem = Evaluation | { readonly problem: string };

/**
 * A request to `/access/v1/evaluations`; `single`: it is answered as one to
 * `/access/v1/evaluation`.
 */
export type EvaluationsRequest =
  | { readonly single: Evaluation }
  | { readonly items: readonly EvaluationItem[]; readonly semantic: Semantic };

/** What a search looks for. */
export type SearchKind = 'subject' | 'resource' | 'action';

/** A request to `/access/v1/search/...`. */
export interface SearchRequest {
  readonly subject: Entity;
  /** Undefined in a search of actions. */
  readonly action: Entity | undefined;
  readonly resource: Entity;
  readonly context: string | undefined;
  /** Undefined: the request has no `page`. */
  readonly page: { readonly token: string | undefined; readonly limit: number | undefined } | undefined;
}

/** The body of a response with status 400. */
export function badRequest(message: string, cause?: unknown): SyncError {
  return new SyncError('request_invalid', message, { status: 400, cause });
}

/** `POST /access/v1/evaluation`. */
export function readEvaluation(body: Buffer): Evaluation {
  return evaluationOf(bodyMembers(body));
}

/** `POST /access/v1/evaluations`. */
export function readEvaluations(
  body: Buffer,
  limits: { readonly maxEvaluations: number; readonly maxTotalLength: number },
): EvaluationsRequest {
  const request = bodyMembers(body);
  const list = request.get('evaluations');
  if (list !== undefined && jsonKind(list) !== 'array') throw wrongType('evaluations', 'a list', list);
  const semantic = semanticOf(request);
  const items = list === undefined ? [] : elements(list);
  if (items.length === 0) return { single: evaluationOf(request) };
  if (items.length > limits.maxEvaluations) {
    throw badRequest(`evaluations: has ${items.length} elements, at most ${limits.maxEvaluations} are allowed`);
  }
  const reader = new ItemReader(request);
  const read = items.map((item, index) => reader.read(item, index));
  const length = read.reduce((sum, item) => sum + ('problem' in item ? 0 : lengthOf(item)), 0);
  if (length > limits.maxTotalLength) {
    throw badRequest(
      `evaluations: have ${length} characters in all with their defaults, at most ${limits.maxTotalLength} are allowed`,
    );
  }
  return { items: read, semantic };
}

/** `POST /access/v1/search/{subject,resource,action}`. */
export function readSearch(body: Buffer, kind: SearchKind): SearchRequest {
  const request = bodyMembers(body);
  return {
    subject: kind === 'subject' ? sought(request, 'subject') : entity(required(request, 'subject'), 'subject'),
    action: kind === 'action' ? undefined : entity(required(request, 'action'), 'action'),
    resource: kind === 'resource' ? sought(request, 'resource') : entity(required(request, 'resource'), 'resource'),
    context: contextOf(request),
    page: pageOf(request),
  };
}

/** What the policy gets as `input`. */
export function inputOf({
  subject,
  action,
  resource,
  context,
}: Omit<Evaluation, 'action'> & { action?: Entity | undefined }): string {
  const entries: [string, string][] = [['subject', subject.text]];
  if (action !== undefined) entries.push(['action', action.text]);
  entries.push(['resource', resource.text]);
  if (context !== undefined) entries.push(['context', context]);
  return objectText(entries);
}

type Members = ReadonlyMap<string, string>;

function bodyMembers(body: Buffer): Members {
  if (body.length === 0) throw badRequest('a JSON object is required as body');
  const check = new JsonCheck({ maxDepth: MAX_DEPTH });
  try {
    check.push(body);
    check.end();
  } catch (cause) {
    if (!(cause instanceof JsonSyntaxError)) throw cause;
    throw badRequest(`the body is not JSON: ${cause.message}`, cause);
  }
  const text = body.toString().trim();
  assertNumbers(text);
  return objectMembers(text, 'the body');
}

/**
 * Whether a text may have a number beyond {@link MAX_DIGITS}, or with an exponent of three digits
 * or more.
 */
const ODD_NUMBERS = /[eE][+-]?\d{3}|\d[\d.]{200}/;
/** Most characters of a number. */
const MAX_DIGITS = 400;

/**
 * Refuses numbers whose magnitude no IEEE 754 double has (section 11.5, RFC 7493): evaluating a
 * policy with 1e9999999 takes OPA minutes, or ends it.
 */
function assertNumbers(text: string): void {
  if (!ODD_NUMBERS.test(text)) return;
  for (const number of numbers(text)) {
    const value = Number(number);
    const isZero = /^-?[0.]*$/.test(number);
    if (Number.isFinite(value) && (value !== 0 || isZero) && number.length <= MAX_DIGITS) continue;
    throw badRequest(`the body has a number that no IEEE 754 double can hold: ${number.slice(0, 40)}`);
  }
}

/**
 * The members of an object; a name that stands twice could mean one thing here and another to who
 * read it before (RFC 7493).
 */
function objectMembers(text: string, what: string): Members {
  if (jsonKind(text) !== 'object') throw wrongType(what, 'an object', text);
  return members(text, (name) => {
    throw badRequest(`${what}: the member ${JSON.stringify(name.slice(0, 100))} stands in it twice`);
  });
}

function required(from: Members, name: string): string {
  const text = from.get(name);
  if (text === undefined) throw badRequest(`${name}: is missing`);
  return text;
}

function string(from: Members, name: string, what: string): string {
  const text = from.get(name);
  if (text === undefined) throw badRequest(`${what}.${name}: is missing`);
  if (!text.startsWith('"')) throw wrongType(`${what}.${name}`, 'a string', text);
  const value = jsonString(text);
  if (/\p{Surrogate}/u.test(value)) throw badRequest(`${what}.${name}: has half a surrogate pair`);
  return value;
}

function objectOrAbsent(from: Members, name: string, what: string): string | undefined {
  const text = from.get(name);
  if (text !== undefined && jsonKind(text) !== 'object') throw wrongType(`${what}${name}`, 'an object', text);
  return text;
}

function evaluationOf(request: Members): Evaluation {
  return {
    subject: entity(required(request, 'subject'), 'subject'),
    action: entity(required(request, 'action'), 'action'),
    resource: entity(required(request, 'resource'), 'resource'),
    context: contextOf(request),
  };
}

function contextOf(request: Members): string | undefined {
  return objectOrAbsent(request, 'context', '');
}

function entity(text: string, what: SearchKind): Entity {
  const from = objectMembers(text, what);
  objectOrAbsent(from, 'properties', `${what}.`);
  if (what === 'action') return { text, kind: string(from, 'name', what) };
  const kind = string(from, 'type', what);
  string(from, 'id', what);
  return { text, kind };
}

/**
 * What is searched for has a type; its `id` is ignored, so that the policy does not see one either.
 */
function sought(request: Members, what: 'subject' | 'resource'): Entity {
  const from = objectMembers(required(request, what), what);
  objectOrAbsent(from, 'properties', `${what}.`);
  const kind = string(from, 'type', what);
  return { text: objectText([...from].filter(([name]) => name !== 'id')), kind };
}

type EntityName = 'subject' | 'action' | 'resource';

/**
 * Reads the evaluations of a request. Its members are their defaults: a member of an evaluation
 * replaces its default as a whole; a subject or resource without a `type` takes that of its
 * default, as the certification suite expects. A default of a wrong type is an error of the
 * request. Everything else that is wrong is an error of the evaluation: a default may be incomplete
 * as long as none takes it (the interop scenario sends `"resource":{}`).
 */
class ItemReader {
  readonly #defaults: Members;
  /** The defaults that were read, so that a thousand evaluations do not read them again. */
  readonly #entities = new Map<EntityName, Entity>();

  constructor(defaults: Members) {
    for (const name of ['subject', 'action', 'resource', 'context']) objectOrAbsent(defaults, name, '');
    this.#defaults = defaults;
  }

  /** Throws a 400 for an evaluation that is no object. */
  read(text: string, index: number): EvaluationItem {
    if (jsonKind(text) !== 'object') throw wrongType(`evaluations.${index}`, 'an object', text);
    try {
      const item = objectMembers(text, 'the evaluation');
      return {
        subject: this.#entity(item, 'subject'),
        action: this.#entity(item, 'action'),
        resource: this.#entity(item, 'resource'),
        context: contextOf(item) ?? this.#defaults.get('context'),
      };
    } catch (error) {
      if (!(error instanceof SyncError)) throw error;
      return { problem: error.message };
    }
  }

  #entity(item: Members, name: EntityName): Entity {
    const given = item.get(name);
    if (given !== undefined) return entity(name === 'action' ? given : this.#typed(given, name), name);
    const known = this.#entities.get(name) ?? entity(required(this.#defaults, name), name);
    this.#entities.set(name, known);
    return known;
  }

  /** A subject or resource with the type of its default, if it has none. */
  #typed(text: string, name: 'subject' | 'resource'): string {
    const own = objectMembers(text, name);
    const fallback = this.#defaults.get(name);
    const type = own.get('type') === undefined && fallback !== undefined ? members(fallback).get('type') : undefined;
    return type === undefined
      ? text
      : objectText([['type', type], ...[...own].filter(([member]) => member !== 'type')]);
  }
}

function semanticOf(request: Members): Semantic {
  const options = objectOrAbsent(request, 'options', '');
  if (options === undefined) return 'execute_all';
  const own = objectMembers(options, 'options');
  if (own.get('evaluations_semantic') === undefined) return 'execute_all';
  const given = string(own, 'evaluations_semantic', 'options');
  const found = SEMANTICS.find((one) => one === given);
  if (found === undefined) throw badRequest(`options.evaluations_semantic: must be one of ${SEMANTICS.join(', ')}`);
  return found;
}

/** Its `properties` must be an object, and have no effect. */
function pageOf(request: Members): SearchRequest['page'] {
  const text = objectOrAbsent(request, 'page', '');
  if (text === undefined) return undefined;
  const page = objectMembers(text, 'page');
  objectOrAbsent(page, 'properties', 'page.');
  const limit = page.get('limit');
  if (limit !== undefined && !/^(0|[1-9]\d{0,14})$/.test(limit))
    throw badRequest('page.limit: must be a whole number of 0 or more');
  const token = page.get('token') === undefined ? undefined : string(page, 'token', 'page');
  return { token, limit: limit === undefined ? undefined : Number(limit) };
}

function lengthOf({ subject, action, resource, context = '' }: Evaluation): number {
  return subject.text.length + action.text.length + resource.text.length + context.length;
}

function wrongType(what: string, wanted: string, text: string): SyncError {
  return badRequest(`${what}: must be ${wanted}, and is ${typeName(text)}`);
}

function typeName(text: string): string {
  const kind = jsonKind(text);
  if (kind !== 'scalar') return kind === 'object' ? 'an object' : 'a list';
  if (text.startsWith('"')) return 'a string';
  return text === 'null' ? 'null' : text === 'true' || text === 'false' ? 'a boolean' : 'a number';
}
