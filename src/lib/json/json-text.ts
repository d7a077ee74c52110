import { checkJson, endOfString, jsonString, parseJson, skipSpace } from './json.js';
import type { JsonKind } from './json-check.js';

/**
 * JSON kept as written. Parsing and printing changes numbers (12345678901234567890, 1.0), so
 * documents travel as text and are cut and joined as text (design D7, D33). The cutting functions
 * expect VALID JSON: check first.
 */

/** One JSON value as its exact text, free of surrounding white space. */
export class JsonText {
  readonly text: string;

  private constructor(text: string) {
    this.text = text;
  }

  /** Checks `text` and wraps it. Throws `SyntaxError` when it is not exactly one JSON value. */
  static parse(text: string): JsonText {
    checkJson(text);
    return new JsonText(text.trim());
  }

  /** Wraps text that is known to be one valid JSON value without white space around it. */
  static trusted(text: string): JsonText {
    return new JsonText(text);
  }

  /** Prints a plain value. */
  static of(value: unknown): JsonText {
    return new JsonText(JSON.stringify(value));
  }

  /** The parsed value; numbers may lose digits. */
  value(): unknown {
    return parseJson(this.text);
  }
}

/** The value of a text, or undefined (which no JSON text means) if it is not JSON. */
export function jsonOrUndefined(text: string): unknown {
  try {
    return parseJson(text);
  } catch {
    return undefined; // what that means the caller knows
  }
}

const QUOTE = 0x22;
const OPEN_OBJECT = 0x7b;
const CLOSE_OBJECT = 0x7d;
const OPEN_ARRAY = 0x5b;
const CLOSE_ARRAY = 0x5d;
const COMMA = 0x2c;

/** The kind of a JSON text by its first character. */
export function jsonKind(text: string): JsonKind {
  const first = text.charCodeAt(0);
  return first === OPEN_OBJECT ? 'object' : first === OPEN_ARRAY ? 'array' : 'scalar';
}

/** The index after the string that starts at `at`. */
function skipString(text: string, at: number): number {
  const end = endOfString(text, at + 1);
  if (end === -1) throw new SyntaxError('a JSON string does not end');
  return end;
}

/** The index after the value that starts at `at`. */
function skipValue(text: string, at: number): number {
  const first = text.charCodeAt(at);
  if (first === QUOTE) return skipString(text, at);
  if (first !== OPEN_OBJECT && first !== OPEN_ARRAY) {
    let index = at;
    for (; index < text.length; index++) {
      const code = text.charCodeAt(index);
      if (code === COMMA || code === CLOSE_OBJECT || code === CLOSE_ARRAY || code <= 0x20) break;
    }
    if (index === at) throw new SyntaxError('a JSON value is missing');
    return index;
  }
  let depth = 0;
  for (let index = at; index < text.length; ) {
    const code = text.charCodeAt(index);
    if (code === QUOTE) {
      index = skipString(text, index);
      continue;
    }
    index++;
    if (code === OPEN_OBJECT || code === OPEN_ARRAY) depth++;
    else if (code === CLOSE_OBJECT || code === CLOSE_ARRAY) {
      depth--;
      if (depth === 0) return index;
    }
  }
  throw new SyntaxError('a JSON value does not end');
}

/**
 * Where the next member or element begins, or the end; a text that ends without it is not what it
 * was taken for.
 */
function assertWithin(text: string, at: number): number {
  if (at < text.length) return at;
  throw new SyntaxError('a JSON value does not end');
}

/**
 * The members of a JSON object text, values as written. Of a repeated name the last wins, as in
 * OPA; `onRepeated` gets it. The text was checked before; one that ends too early is a
 * `SyntaxError` all the same.
 */
export function members(text: string, onRepeated?: (name: string) => void): Map<string, string> {
  const found = new Map<string, string>();
  let at = skipSpace(text, 1);
  while (text.charCodeAt(assertWithin(text, at)) !== CLOSE_OBJECT) {
    const keyEnd = skipString(text, at);
    const key = jsonString(text.slice(at, keyEnd));
    const start = skipSpace(text, skipSpace(text, keyEnd) + 1);
    const end = skipValue(text, start);
    if (found.has(key)) onRepeated?.(key);
    found.set(key, text.slice(start, end));
    at = skipSpace(text, end);
    if (text.charCodeAt(at) === COMMA) at = skipSpace(text, at + 1);
  }
  return found;
}

/** The elements of a JSON array text, as written; see {@link members}. */
export function elements(text: string): string[] {
  const found: string[] = [];
  let at = skipSpace(text, 1);
  while (text.charCodeAt(assertWithin(text, at)) !== CLOSE_ARRAY) {
    const end = skipValue(text, at);
    found.push(text.slice(at, end));
    at = skipSpace(text, end);
    if (text.charCodeAt(at) === COMMA) at = skipSpace(text, at + 1);
  }
  return found;
}

/** The numbers of a valid JSON text, as written. */
export function* numbers(text: string): Generator<string, void> {
  for (let at = 0; at < text.length; ) {
    const quote = text.indexOf('"', at);
    const end = quote === -1 ? text.length : quote;
    for (const [number] of text.slice(at, end).matchAll(/-?\d[\d.eE+-]*/g)) yield number;
    at = quote === -1 ? end : skipString(text, quote);
  }
}

/** A JSON object text from members as written. */
export function objectText(entries: Iterable<readonly [string, string]>): string {
  const parts: string[] = [];
  for (const [key, value] of entries) parts.push(`${JSON.stringify(key)}:${value}`);
  return `{${parts.join(',')}}`;
}

/**
 * Prints plain values like `JSON.stringify`, and every {@link JsonText} inside as it was written.
 */
export function printJson(value: unknown): string {
  const pieces: string[] = [];
  print(value, pieces);
  return pieces.join('');
}

/**
 * Adds the pieces of a text: a large one that was written is then copied once, and not once for
 * each level around it.
 */
function print(value: unknown, pieces: string[]): void {
  if (value instanceof JsonText) {
    pieces.push(value.text);
  } else if (Array.isArray(value)) {
    let before = '[';
    for (const item of value) {
      pieces.push(before);
      print(item, pieces);
      before = ',';
    }
    pieces.push(before === '[' ? '[]' : ']');
  } else if (typeof value === 'object' && value !== null && !hasToJson(value)) {
    let before = '{';
    for (const [key, member] of Object.entries(value)) {
      if (member === undefined) continue;
      pieces.push(`${before}${JSON.stringify(key)}:`);
      print(member, pieces);
      before = ',';
    }
    pieces.push(before === '{' ? '{}' : '}');
  } else {
    pieces.push(JSON.stringify(value) ?? 'null');
  }
}

/**
 * A method, as `JSON.stringify` looks for it; a member of that name that came from outside is data.
 */
function hasToJson(value: object): boolean {
  return 'toJSON' in value && typeof value.toJSON === 'function';
}
