import { JsonCheck, MAX_JSON_DEPTH } from './json-check.js';

/**
 * The one place where JSON text becomes values. A few bytes of text may become a hundred of memory,
 * so a text is checked in one pass before: how deep, how many values. Whoever reads a text from
 * outside bounds its size.
 */

/** What a text may have. */
export interface JsonLimits {
  /** Objects and arrays within each other. Default {@link MAX_JSON_DEPTH}. */
  readonly depth?: number;
  /** Values: members, elements, and the whole. Default {@link MAX_JSON_VALUES}. */
  readonly values?: number;
}

/** Enough for all that the protocols send, in some 50 MB. */
export const MAX_JSON_VALUES = 1_000_000;
/** Of answers that have a part for each client or document of a large fleet. */
export const MANY_JSON_VALUES = 10_000_000;

/** Characters of a text that may become values only to see that it is JSON. */
const SHORT = MAX_JSON_DEPTH;

/**
 * The value of a text. Throws a `SyntaxError` that says where it is no JSON, or has more than it
 * may.
 */
export function parseJson(text: string, limits: JsonLimits = {}): unknown {
  const hasNames = isWithin(text, limits) ? hasEscapedName(text) : checkLong(text, limits).hasEscapedName;
  return hasNames ? valueWithEscapedNames(text) : JSON.parse(text);
}

/**
 * Throws a `SyntaxError` for a text that is no JSON, or nested too deep. Of a long one no values
 * are made.
 */
export function checkJson(text: string, depth = MAX_JSON_DEPTH): void {
  if (text.length <= Math.min(SHORT, 2 * depth)) JSON.parse(text);
  else checkLong(text, { depth, values: Number.POSITIVE_INFINITY });
}

/** {@link parseJson} of a text that was checked. */
export function parseChecked(text: string): unknown {
  return hasEscapedName(text) ? valueWithEscapedNames(text) : JSON.parse(text);
}

/** The characters of a string that is written as JSON, with its quotes. */
export function jsonString(quoted: string): string {
  return String(JSON.parse(quoted));
}

/** Whether a text is too short to have more: each level takes a character, and each value two. */
function isWithin({ length }: string, { depth = MAX_JSON_DEPTH, values = MAX_JSON_VALUES }: JsonLimits): boolean {
  return length <= depth && length / 2 <= values;
}

function checkLong(
  text: string,
  { depth = MAX_JSON_DEPTH, values = MAX_JSON_VALUES }: JsonLimits,
): { hasEscapedName: boolean } {
  const check = new JsonCheck({ maxDepth: depth, maxValues: values });
  check.push(Buffer.from(text));
  return check.end();
}

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const COLON = 0x3a;

/**
 * Whether the name of a member has an escape. V8 from 13.6 on (Node 24) may then give it another
 * name that it has read before, the one with a backslash in its place: `{"a":1,"\"":2}` has the
 * member `\` after `{"a":1,"\\":2}`.
 */
function hasEscapedName(text: string): boolean {
  // A backslash is in a string, whose end says whether it is a name.
  for (let at = text.indexOf('\\'); at !== -1; ) {
    const end = endOfString(text, at);
    if (end === -1) return false; // it is no JSON
    if (text.charCodeAt(skipSpace(text, end)) === COLON) return true;
    at = text.indexOf('\\', end);
  }
  return false;
}

/**
 * The index after the string that a place is in, which is not just after a backslash; -1 if the
 * string does not end.
 */
export function endOfString(text: string, from: number): number {
  for (let end = text.indexOf('"', from); end !== -1; end = text.indexOf('"', end + 1)) {
    let slashes = 0;
    while (text.charCodeAt(end - 1 - slashes) === BACKSLASH) slashes++;
    if (slashes % 2 === 0) return end + 1;
  }
  return -1;
}

/** The index of the first character from `from` on that is no white space. */
export function skipSpace(text: string, from: number): number {
  for (let at = from; ; at++) {
    const code = text.charCodeAt(at);
    if (code !== 0x20 && code !== 0x0a && code !== 0x0d && code !== 0x09) return at;
  }
}

type Container = unknown[] | Record<string, unknown>;

/**
 * The value of a text, built here from strings and scalars alone. Throws what `JSON.parse` throws.
 */
function valueWithEscapedNames(text: string): unknown {
  checkLong(text, { depth: Number.POSITIVE_INFINITY, values: Number.POSITIVE_INFINITY }); // what follows expects JSON
  const open: Container[] = [];
  let root: unknown;
  let name: string | undefined;
  const add = (value: unknown): void => {
    const into = open.at(-1);
    if (into === undefined) root = value;
    else if (Array.isArray(into)) into.push(value);
    else define(into, name ?? '', value);
    name = undefined;
  };
  for (let at = skipSpace(text, 0); at < text.length; at = skipSpace(text, at)) {
    const next = text.charAt(at);
    if (next === '{' || next === '[') {
      const container: Container = next === '{' ? {} : [];
      add(container);
      open.push(container);
      at++;
    } else if (next === '}' || next === ']') {
      open.pop();
      at++;
    } else if (next === ',' || next === ':') at++;
    else {
      const end = text.charCodeAt(at) === QUOTE ? endOfString(text, at + 1) : endOfScalar(text, at);
      const value: unknown = JSON.parse(text.slice(at, end));
      if (name === undefined && isObject(open.at(-1))) name = String(value);
      else add(value);
      at = end;
    }
  }
  return root;
}

function isObject(container: Container | undefined): boolean {
  return container !== undefined && !Array.isArray(container);
}

/** As `JSON.parse` does: `__proto__` is a name like any other. */
function define(into: Record<string, unknown>, name: string, value: unknown): void {
  if (name !== '__proto__') into[name] = value;
  else Object.defineProperty(into, name, { value, writable: true, enumerable: true, configurable: true });
}

const SCALAR_END = new Set([',', ']', '}', ' ', '\n', '\r', '\t', '']);

function endOfScalar(text: string, from: number): number {
  let at = from;
  while (!SCALAR_END.has(text.charAt(at))) at++;
  return at;
}
