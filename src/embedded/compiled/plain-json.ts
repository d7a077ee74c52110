/**
 * Which JSON texts mean the same to a compiled policy as to OPA's Go code. The parser of compiled
 * policies reads more than JSON (sets, and values without commas). Numbers with a fraction or an
 * exponent, negative zero and very large ones are other keys of sets and objects, other indexes of
 * arrays, or other results of arithmetic. Such texts are for Go.
 */

/**
 * Deeper values are no error, but compiled code reads and compares values by recursion on a small
 * stack.
 */
const MOST_DEPTH = 64;
/** As many as fit into a signed number of 64 bits. */
const MOST_DIGITS = 18;

const QUOTE = 0x22;
const COMMA = 0x2c;
const MINUS = 0x2d;
const DOT = 0x2e;
const ZERO = 0x30;
const NINE = 0x39;
const COLON = 0x3a;
const OPEN_ARRAY = 0x5b;
const BACKSLASH = 0x5c;
const CLOSE_ARRAY = 0x5d;
const LETTER_E = 0x65;
const LETTER_U = 0x75;
const OPEN_OBJECT = 0x7b;
const CLOSE_OBJECT = 0x7d;
const SPACE = 0x20;
/** First unit of a surrogate pair, of its second half, and after both. */
const SURROGATE = { high: 0xd800, low: 0xdc00, end: 0xe000 } as const;

/** Makes a letter a small one. */
const LOWER_CASE = 0x20;

const NOT_PLAIN = -1;

/** True for exactly one JSON value that means the same to a compiled policy and to Go. */
export function isPlainJson(text: string): boolean {
  const end = skipValue(text, skipSpace(text, 0), 0);
  return end !== NOT_PLAIN && skipSpace(text, end) === text.length;
}

function skipSpace(text: string, at: number): number {
  let index = at;
  for (;;) {
    const code = text.charCodeAt(index);
    if (code !== SPACE && code !== 0x0a && code !== 0x0d && code !== 0x09) return index;
    index++;
  }
}

/** The index after the value that starts at `at`, or NOT_PLAIN; so do all functions below. */
function skipValue(text: string, at: number, depth: number): number {
  const code = text.charCodeAt(at);
  if (code === QUOTE) return skipString(text, at);
  if (code === OPEN_OBJECT) return depth < MOST_DEPTH ? skipObject(text, at, depth + 1) : NOT_PLAIN;
  if (code === OPEN_ARRAY) return depth < MOST_DEPTH ? skipArray(text, at, depth + 1) : NOT_PLAIN;
  if (code === MINUS || isDigit(code)) return skipNumber(text, at);
  for (const word of ['true', 'false', 'null']) if (text.startsWith(word, at)) return at + word.length;
  return NOT_PLAIN;
}

function skipObject(text: string, at: number, depth: number): number {
  let index = skipSpace(text, at + 1);
  if (text.charCodeAt(index) === CLOSE_OBJECT) return index + 1;
  for (;;) {
    if (text.charCodeAt(index) !== QUOTE) return NOT_PLAIN;
    index = skipString(text, index);
    if (index === NOT_PLAIN) return NOT_PLAIN;
    index = skipSpace(text, index);
    if (text.charCodeAt(index) !== COLON) return NOT_PLAIN;
    index = skipValue(text, skipSpace(text, index + 1), depth);
    if (index === NOT_PLAIN) return NOT_PLAIN;
    index = skipSpace(text, index);
    const next = text.charCodeAt(index);
    if (next === CLOSE_OBJECT) return index + 1;
    if (next !== COMMA) return NOT_PLAIN;
    index = skipSpace(text, index + 1);
  }
}

function skipArray(text: string, at: number, depth: number): number {
  let index = skipSpace(text, at + 1);
  if (text.charCodeAt(index) === CLOSE_ARRAY) return index + 1;
  for (;;) {
    index = skipValue(text, index, depth);
    if (index === NOT_PLAIN) return NOT_PLAIN;
    index = skipSpace(text, index);
    const next = text.charCodeAt(index);
    if (next === CLOSE_ARRAY) return index + 1;
    if (next !== COMMA) return NOT_PLAIN;
    index = skipSpace(text, index + 1);
  }
}

function isDigit(code: number): boolean {
  return code >= ZERO && code <= NINE;
}

function skipDigits(text: string, at: number): number {
  let index = at;
  while (isDigit(text.charCodeAt(index))) index++;
  return index;
}

/**
 * Whole numbers only: compiled code computes with others to another precision, and prints them
 * otherwise.
 */
function skipNumber(text: string, at: number): number {
  const isNegative = text.charCodeAt(at) === MINUS;
  const start = isNegative ? at + 1 : at;
  const end = skipDigits(text, start);
  if (end === start || end - start > MOST_DIGITS) return NOT_PLAIN;
  if (text.charCodeAt(start) === ZERO && (isNegative || end > start + 1)) return NOT_PLAIN;
  const next = text.charCodeAt(end);
  return next === DOT || (next | LOWER_CASE) === LETTER_E ? NOT_PLAIN : end;
}

function skipString(text: string, at: number): number {
  for (let index = at + 1; ; index++) {
    const code = text.charCodeAt(index);
    if (code === QUOTE) return index + 1;
    if (code === BACKSLASH) {
      index = skipEscape(text, index + 1);
      if (index === NOT_PLAIN) return NOT_PLAIN;
    } else if (code >= SURROGATE.high && code < SURROGATE.end) {
      index++;
      const second = text.charCodeAt(index);
      if (code >= SURROGATE.low || !(second >= SURROGATE.low && second < SURROGATE.end)) return NOT_PLAIN;
    } else if (!(code >= SPACE)) {
      return NOT_PLAIN; // a control character, or the end of the text
    }
  }
}

/** The index of the last character of the escape whose letter is at `at`. */
function skipEscape(text: string, at: number): number {
  if (text.charCodeAt(at) !== LETTER_U) return '"\\/bfnrt'.includes(text.charAt(at) || ' ') ? at : NOT_PLAIN;
  const code = escaped(text, at + 1);
  // A pair of escapes is rare enough for Go; an escaped NUL ends strings in some of C's functions.
  if (!(code > 0) || (code >= SURROGATE.high && code < SURROGATE.end)) return NOT_PLAIN;
  return at + 4;
}

function escaped(text: string, at: number): number {
  const digits = text.slice(at, at + 4);
  return /^[0-9a-fA-F]{4}$/.test(digits) ? Number.parseInt(digits, 16) : Number.NaN;
}

const HALF_PAIR_ESCAPE = /\\u[dD][89a-fA-F]/;
const ESCAPES = /\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)/gs;

/**
 * JSON with `\ufffd` for each escaped half of a surrogate pair, as Go reads it; a compiled policy
 * would not parse it.
 */
export function withoutLoneSurrogates(json: string): string {
  if (!HALF_PAIR_ESCAPE.test(json)) return json;
  return json.replace(ESCAPES, (whole, half: string | undefined) => (half === undefined ? whole : '\\ufffd'));
}
