/**
 * Checks in one pass that bytes which arrive in pieces are exactly one JSON value, without keeping
 * them. Accepts what `JSON.parse` accepts of the same bytes as strict UTF-8 (RFC 8259, RFC 3629),
 * with bounds on depth and number of values: {@link MAX_JSON_DEPTH}.
 */

// Plain numbers, so that the switch is a jump table. They come first: otherwise the bundler makes
// variables of them, and the check takes half as long again.

// States: what the next byte may be.
const VALUE = 0;
const FIRST_ELEMENT = 1;
const FIRST_KEY = 2;
const NEXT_KEY = 3;
const COLON = 4;
const AFTER_VALUE = 5;
const STRING = 6;
const ESCAPE = 7;
const HEX = 8;
const CONTINUATION = 9;
const LITERAL = 10;
const MINUS = 11;
const ZERO = 12;
const INTEGER = 13;
const POINT = 14;
const FRACTION = 15;
const EXPONENT = 16;
const EXPONENT_SIGN = 17;
const EXPONENT_DIGITS = 18;

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const DIGIT_0 = 0x30;
const DIGIT_9 = 0x39;
const OPEN_ARRAY = 0x5b;
const CLOSE_ARRAY = 0x5d;
const OPEN_OBJECT = 0x7b;
const CLOSE_OBJECT = 0x7d;

// Kinds of bytes that come in runs; a byte may be of several.
const PLAIN = 1;
const DIGIT = 2;
const SPACE = 4;
/** What may follow a backslash and is the whole escape. */
const SIMPLE_ESCAPE = 8;

/**
 * Nested objects and arrays that OPA's decoder (Go's `encoding/json`) still reads; one more and it
 * refuses.
 */
export const MAX_JSON_DEPTH = 10_000;
/**
 * Digits of a number in a text that is not short: OPA takes the square of their time, half a minute
 * for a million. A key of 4096 bits has 1,234.
 */
export const MAX_DIGITS = 2_000;

/**
 * Levels that a value may have below a path of so many segments: each of them is a level of all
 * documents as one, which is what OPA reads.
 */
export function levelsBelow(segments: number): number {
  return Math.max(0, MAX_JSON_DEPTH - segments);
}

/** What is said of data that has more levels than {@link levelsBelow} a path. */
export function depthLimit(segments: number): string {
  const limit = `data may be nested ${MAX_JSON_DEPTH} levels deep`;
  return segments === 0 ? limit : `${limit}, and ${segments} of them are its path`;
}

/**
 * Why a JSON text cannot be below a path of so many segments: it is nested too deep, or has a
 * number of more than {@link MAX_DIGITS}; undefined if it can. Short texts cost nothing.
 */
export function depthProblem(text: string, segments: number): string | undefined {
  const levels = levelsBelow(segments);
  if (levels > 0 && text.length <= 2 * levels) return undefined; // each level has two brackets
  try {
    new JsonCheck({ maxDepth: levels, maxDigits: MAX_DIGITS }).push(Buffer.from(text));
    return undefined;
  } catch (error) {
    if (!(error instanceof JsonSyntaxError)) throw error;
    return error instanceof JsonTooDeep ? `${error.message}: ${depthLimit(segments)}` : error.message;
  }
}

/**
 * Where data that is nested too deep is to be told from a text that is no JSON, this deep is read.
 */
export const MAX_READ_DEPTH = 100 * MAX_JSON_DEPTH;

/** What a value is, as far as its first character says. */
export type JsonKind = 'object' | 'array' | 'scalar';

/**
 * Is called with the places of members of the outer objects. Offsets are in bytes, of all pieces
 * together.
 */
export interface MemberWatch {
  /** Members of an object that is the whole value have depth 1. */
  readonly depth: number;
  /**
   * The name of a member at this depth or above, with its quotes and maybe white space after it;
   * its value comes next.
   */
  name(depth: number, start: number, end: number): void;
  /**
   * The value of a member at {@link depth}, maybe with white space around it, and how many levels
   * are nested in it.
   */
  value(start: number, end: number, levels: number): void;
}

/** What {@link JsonCheck} throws. */
export class JsonSyntaxError extends SyntaxError {
  /** Bytes before the one that is wrong, or all of them where the value does not end. */
  readonly offset: number;
  /** What may stand there; undefined where it is JSON, and too much of it. */
  readonly expected: string | undefined;

  constructor(message: string, offset: number, expected?: string) {
    super(message);
    this.name = 'SyntaxError';
    this.offset = offset;
    this.expected = expected;
  }
}

/** What {@link JsonCheck} throws for more levels than there may be. */
export class JsonTooDeep extends JsonSyntaxError {}

/** What {@link JsonCheck} throws for more values than there may be. */
export class JsonTooManyValues extends JsonSyntaxError {}

/** What {@link JsonCheck} throws for a number of more digits than there may be. */
export class JsonLongNumber extends JsonSyntaxError {}

const EXPECTED: Readonly<Record<number, string>> = {
  [VALUE]: 'a JSON value',
  [FIRST_ELEMENT]: 'a JSON value or "]"',
  [FIRST_KEY]: 'a member name or "}"',
  [NEXT_KEY]: 'a member name',
  [COLON]: '":"',
  [STRING]: 'the rest of a string (control characters must be escaped)',
  [ESCAPE]: 'one of "\\/bfnrtu after a backslash',
  [HEX]: 'a hexadecimal digit',
  [CONTINUATION]: 'the rest of a UTF-8 character',
  [MINUS]: 'a digit',
  [POINT]: 'a digit',
  [EXPONENT]: 'a digit, "+" or "-"',
  [EXPONENT_SIGN]: 'a digit',
};

/**
 * The kinds of each byte. Plain: it stands for itself in a string and needs no look at its
 * neighbours.
 */
const KINDS = Uint8Array.from({ length: 256 }, (_, byte) => {
  const plain = byte >= 0x20 && byte < 0x80 && byte !== QUOTE && byte !== BACKSLASH;
  const space = byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09;
  const escaped = '"\\/bfnrt'.includes(String.fromCharCode(byte));
  return (plain ? PLAIN : 0) | (isDigit(byte) ? DIGIT : 0) | (space ? SPACE : 0) | (escaped ? SIMPLE_ESCAPE : 0);
});
const LITERALS: ReadonlyMap<number, Uint8Array> = new Map(
  ['true', 'false', 'null'].map((word) => [word.charCodeAt(0), Buffer.from(word)]),
);

/** A check of one JSON value. Must not be used after it threw. */
export class JsonCheck {
  #state = VALUE;
  /** Open objects (1) and arrays (0), outermost first. */
  readonly #open: number[] = [];
  #offset = 0;
  #kind: JsonKind = 'scalar';
  #hasEscapedName = false;
  /** True while the current string is a member name. */
  #inKey = false;
  /** Bytes that the current escape, character or literal still needs. */
  #missing = 0;
  /**
   * Bounds of the next continuation byte (RFC 3629 section 4: no overlong forms, no surrogates, at
   * most U+10FFFF).
   */
  #low = 0;
  #high = 0;
  #literal: Uint8Array = new Uint8Array();
  readonly #maxDepth: number;
  /** Values that may still begin. */
  #valuesLeft: number;
  readonly #maxValues: number;
  readonly #maxDigits: number;
  /** Digits of the current number. */
  #digits = 0;
  readonly #watch: MemberWatch | undefined;
  /** 0: nobody watches. */
  readonly #watchDepth: number;
  /** Where the name of the current watched member, then its value begins. */
  #start = 0;
  /** The most levels that were open since the last watched name. */
  #deepest = 0;

  constructor({
    maxDepth = MAX_JSON_DEPTH,
    maxValues = Number.POSITIVE_INFINITY,
    maxDigits = Number.POSITIVE_INFINITY,
    watch,
  }: { maxDepth?: number; maxValues?: number; maxDigits?: number; watch?: MemberWatch } = {}) {
    this.#maxDepth = maxDepth;
    this.#maxValues = maxValues;
    this.#maxDigits = maxDigits;
    this.#valuesLeft = maxValues;
    this.#watch = watch;
    this.#watchDepth = watch?.depth ?? 0;
  }

  /**
   * True while an object or array is open: the bytes so far are no whole value, whatever comes
   * next.
   */
  get isOpen(): boolean {
    return this.#open.length > 0;
  }

  /**
   * Checks the next bytes. Throws a {@link JsonSyntaxError} that names what was expected and the
   * offset of the wrong byte.
   */
  push(chunk: Uint8Array): void {
    const length = chunk.length;
    let state = this.#state;
    let at = 0;
    while (at < length) {
      // `at` is in bounds, so the element is a number.
      const byte = chunk[at] as number;
      switch (state) {
        case STRING: {
          at = this.#inKey ? skip(chunk, at, PLAIN) : skipText(chunk, at);
          if (at === length) continue;
          const next = chunk[at] as number;
          if (next === QUOTE) state = this.#inKey ? COLON : AFTER_VALUE;
          else if (next === BACKSLASH) state = ESCAPE;
          else if (next >= 0x80) state = this.#startCharacter(next, at);
          else throw this.#unexpected(state, next, at);
          break;
        }
        case CONTINUATION:
          if (byte < this.#low || byte > this.#high) throw this.#unexpected(state, byte, at);
          this.#low = 0x80;
          this.#high = 0xbf;
          if (--this.#missing === 0) state = STRING;
          break;
        case ESCAPE:
          this.#hasEscapedName ||= this.#inKey;
          if (((KINDS[byte] as number) & SIMPLE_ESCAPE) !== 0) state = STRING;
          else if (byte === 0x75) {
            this.#missing = 4;
            state = HEX;
          } else throw this.#unexpected(state, byte, at);
          break;
        case HEX:
          if (!isHexDigit(byte)) throw this.#unexpected(state, byte, at);
          if (--this.#missing === 0) state = STRING;
          break;
        case LITERAL:
          if (byte !== this.#literal[this.#literal.length - this.#missing]) throw this.#unexpected(state, byte, at);
          if (--this.#missing === 0) state = AFTER_VALUE;
          break;
        case MINUS:
          if (!isDigit(byte)) throw this.#unexpected(state, byte, at);
          state = byte === DIGIT_0 ? ZERO : INTEGER;
          break;
        case POINT:
          if (!isDigit(byte)) throw this.#unexpected(state, byte, at);
          state = FRACTION;
          break;
        case EXPONENT:
        case EXPONENT_SIGN:
          if (isDigit(byte)) state = EXPONENT_DIGITS;
          else if (state === EXPONENT && (byte === 0x2b || byte === 0x2d)) state = EXPONENT_SIGN;
          else throw this.#unexpected(state, byte, at);
          break;
        case ZERO:
        case INTEGER:
        case FRACTION:
        case EXPONENT_DIGITS:
          if (state !== ZERO) {
            const from = at;
            at = skip(chunk, at, DIGIT);
            this.#digits += at - from;
            if (this.#digits > this.#maxDigits) throw this.#longNumber(at);
            if (at === length) continue;
          }
          state = afterDigits(state, chunk[at] as number);
          if (state === AFTER_VALUE) continue; // the number ended before this byte
          break;
        default:
          at = skip(chunk, at, SPACE);
          if (at === length) continue;
          state = this.#between(state, chunk[at] as number, at);
      }
      at++;
    }
    this.#state = state;
    this.#offset += length;
  }

  /**
   * Ends the input. Throws a {@link JsonSyntaxError} if there is no value, or it is not complete.
   */
  end(): { kind: JsonKind; hasEscapedName: boolean } {
    const state = this.#state;
    const complete =
      state === AFTER_VALUE || state === ZERO || state === INTEGER || state === FRACTION || state === EXPONENT_DIGITS;
    if (!complete || this.#open.length > 0) {
      const expected = this.#expected(state);
      const message = `unexpected end after ${this.#offset} bytes: expected ${expected}`;
      throw new JsonSyntaxError(message, this.#offset, expected);
    }
    return { kind: this.#kind, hasEscapedName: this.#hasEscapedName };
  }

  /** The state after a byte that is not white space and stands between values. */
  #between(state: number, byte: number, at: number): number {
    const open = this.#open;
    switch (state) {
      case COLON:
        if (byte === 0x3a) {
          if (open.length <= this.#watchDepth) this.#passName(this.#offset + at);
          return VALUE;
        }
        break;
      case AFTER_VALUE: {
        const inObject = open[open.length - 1];
        if (inObject === undefined) break;
        if (inObject === 1 && open.length === this.#watchDepth) this.#passValue(this.#offset + at);
        if (byte === 0x2c) return inObject === 1 ? NEXT_KEY : VALUE;
        if (byte !== (inObject === 1 ? CLOSE_OBJECT : CLOSE_ARRAY)) break;
        open.pop();
        return AFTER_VALUE;
      }
      case FIRST_KEY:
      case NEXT_KEY:
        if (byte === QUOTE) {
          this.#inKey = true;
          if (open.length <= this.#watchDepth) this.#start = this.#offset + at;
          return STRING;
        }
        if (byte !== CLOSE_OBJECT || state !== FIRST_KEY) break;
        open.pop();
        return AFTER_VALUE;
      default:
        if (byte !== CLOSE_ARRAY || state !== FIRST_ELEMENT) return this.#startValue(state, byte, at);
        open.pop();
        return AFTER_VALUE;
    }
    throw this.#unexpected(state, byte, at);
  }

  /** At the `:` after the name of a watched member. */
  #passName(at: number): void {
    this.#watch?.name(this.#open.length, this.#start, at);
    this.#start = at + 1;
    this.#deepest = this.#open.length;
  }

  /** At what follows the value of a watched member. */
  #passValue(at: number): void {
    this.#watch?.value(this.#start, at, this.#deepest - this.#open.length);
  }

  #startValue(state: number, byte: number, at: number): number {
    if (--this.#valuesLeft < 0) {
      const offset = this.#offset + at;
      throw new JsonTooManyValues(`more than ${this.#maxValues} values at byte ${offset}`, offset);
    }
    if (byte === QUOTE) {
      this.#inKey = false;
      return STRING;
    }
    if (byte === OPEN_OBJECT || byte === OPEN_ARRAY) {
      if (this.#open.length === 0) this.#kind = byte === OPEN_OBJECT ? 'object' : 'array';
      if (this.#open.length === this.#maxDepth) {
        const offset = this.#offset + at;
        throw new JsonTooDeep(`nested deeper than ${this.#maxDepth} at byte ${offset}`, offset);
      }
      const depth = this.#open.push(byte === OPEN_OBJECT ? 1 : 0);
      if (depth > this.#deepest) this.#deepest = depth;
      return byte === OPEN_OBJECT ? FIRST_KEY : FIRST_ELEMENT;
    }
    this.#digits = 1; // the first one is read by itself
    if (byte === 0x2d) return MINUS;
    if (isDigit(byte)) return byte === DIGIT_0 ? ZERO : INTEGER;
    const literal = LITERALS.get(byte);
    if (literal === undefined) throw this.#unexpected(state, byte, at);
    this.#literal = literal;
    this.#missing = literal.length - 1;
    return LITERAL;
  }

  #longNumber(at: number): JsonLongNumber {
    const offset = this.#offset + at;
    return new JsonLongNumber(`a number of more than ${this.#maxDigits} digits at byte ${offset}`, offset);
  }

  /** Takes the first byte of a UTF-8 character of several bytes. */
  #startCharacter(byte: number, at: number): number {
    if (byte < 0xc2 || byte > 0xf4) throw this.#unexpected(CONTINUATION, byte, at);
    this.#missing = byte < 0xe0 ? 1 : byte < 0xf0 ? 2 : 3;
    this.#low = byte === 0xe0 ? 0xa0 : byte === 0xf0 ? 0x90 : 0x80;
    this.#high = byte === 0xed ? 0x9f : byte === 0xf4 ? 0x8f : 0xbf;
    return CONTINUATION;
  }

  #expected(state: number): string {
    if (state === LITERAL) return `"${Buffer.from(this.#literal).toString('latin1')}"`;
    const known = EXPECTED[state];
    if (known !== undefined) return known;
    const inObject = this.#open[this.#open.length - 1];
    if (inObject === undefined) return 'nothing after the value';
    return inObject === 1 ? '"," or "}"' : '"," or "]"';
  }

  #unexpected(state: number, byte: number, at: number): JsonSyntaxError {
    const found =
      byte > 0x20 && byte < 0x7f
        ? JSON.stringify(String.fromCharCode(byte))
        : `byte 0x${byte.toString(16).padStart(2, '0')}`;
    const expected = state === CONTINUATION ? 'valid UTF-8' : this.#expected(state);
    const offset = this.#offset + at;
    return new JsonSyntaxError(`unexpected ${found} at byte ${offset}: expected ${expected}`, offset, expected);
  }
}

/** The index of the first byte from `from` on that is not of the kind. */
function skip(chunk: Uint8Array, from: number, kind: number): number {
  let at = from;
  while (at < chunk.length && ((KINDS[chunk[at] as number] as number) & kind) !== 0) at++;
  return at;
}

/**
 * The index of the first byte from `from` on that is neither plain nor of a simple escape; such an
 * escape that is cut off counts.
 */
function skipText(chunk: Uint8Array, from: number): number {
  for (let at = skip(chunk, from, PLAIN); ; at = skip(chunk, at + 2, PLAIN)) {
    if (chunk[at] !== BACKSLASH || ((KINDS[chunk[at + 1] ?? 0] as number) & SIMPLE_ESCAPE) === 0) return at;
  }
}

/**
 * The state after a byte that follows the digits of a number; AFTER_VALUE when it does not belong
 * to the number.
 */
function afterDigits(state: number, byte: number): number {
  if (byte === 0x2e && (state === ZERO || state === INTEGER)) return POINT;
  if ((byte === 0x65 || byte === 0x45) && state !== EXPONENT_DIGITS) return EXPONENT;
  return AFTER_VALUE;
}

function isDigit(byte: number): boolean {
  return byte >= DIGIT_0 && byte <= DIGIT_9;
}

function isHexDigit(byte: number): boolean {
  const lower = byte | 0x20;
  return isDigit(byte) || (lower >= 0x61 && lower <= 0x66);
}
