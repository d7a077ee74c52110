import { jsonString } from '../../lib/json/json.js';
import { ArrayTerm, type Member, NumberTerm, ObjectTerm, SetTerm, type Term } from './term.js';

/**
 * Parses the text of a ground term as `opa_value_dump` prints it. Throws `SyntaxError` for anything
 * else.
 */
export function parseTerm(text: string): Term {
  const reader = new TermReader(text);
  const term = reader.value();
  reader.end();
  return term;
}

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const COMMA = 0x2c;
const COLON = 0x3a;
const OPEN_ARRAY = 0x5b;
const CLOSE_ARRAY = 0x5d;
const OPEN_BRACE = 0x7b;
const CLOSE_BRACE = 0x7d;
const SPACE = 0x20;
const PLUS = 0x2b;
const MINUS = 0x2d;
const DOT = 0x2e;
const ZERO = 0x30;
const NINE = 0x39;
const LETTER_E = 0x65;
const LETTER_F = 0x66;
const LETTER_N = 0x6e;
const LETTER_S = 0x73;
const LETTER_T = 0x74;
/** Makes a letter a small one. */
const LOWER_CASE = 0x20;

class TermReader {
  readonly #text: string;
  #at = 0;

  constructor(text: string) {
    this.#text = text;
  }

  end(): void {
    this.#next();
    if (this.#at !== this.#text.length) throw this.#unexpected();
  }

  value(): Term {
    const code = this.#next();
    switch (code) {
      case QUOTE:
        return this.#string();
      case OPEN_BRACE:
        return this.#braces();
      case OPEN_ARRAY:
        return this.#array();
      case LETTER_T:
        return this.#word('true', true);
      case LETTER_F:
        return this.#word('false', false);
      case LETTER_N:
        return this.#word('null', null);
      case LETTER_S:
        return this.#word('set()', new SetTerm([]));
      default:
        return this.#number();
    }
  }

  /** The next character that is no space. */
  #next(): number {
    while (this.#text.charCodeAt(this.#at) === SPACE) this.#at++;
    return this.#text.charCodeAt(this.#at);
  }

  #word(word: string, term: Term): Term {
    if (!this.#text.startsWith(word, this.#at)) throw this.#unexpected();
    this.#at += word.length;
    return term;
  }

  /** The module prints numbers as it read them, or made them: they are not checked again. */
  #number(): NumberTerm {
    const start = this.#at;
    let at = start;
    for (;;) {
      const code = this.#text.charCodeAt(at);
      const isOfNumber = (code >= ZERO && code <= NINE) || code === MINUS || code === DOT || code === PLUS;
      if (!isOfNumber && (at === start || (code | LOWER_CASE) !== LETTER_E)) break;
      at++;
    }
    if (at === start) throw this.#unexpected();
    this.#at = at;
    return new NumberTerm(this.#text.slice(start, at));
  }

  /** Whether the next character is the one; reads it if so. */
  #takes(code: number): boolean {
    if (this.#next() !== code) return false;
    this.#at++;
    return true;
  }

  #unexpected(): SyntaxError {
    return new SyntaxError(`a term has something unexpected at character ${this.#at}`);
  }

  #string(): string {
    const start = this.#at + 1;
    let at = start;
    let hasEscapes = false;
    for (;;) {
      const code = this.#text.charCodeAt(at);
      if (code === QUOTE) break;
      if (Number.isNaN(code)) throw this.#unexpected();
      if (code === BACKSLASH) {
        hasEscapes = true;
        at++;
      }
      at++;
    }
    this.#at = at + 1;
    if (!hasEscapes) return this.#text.slice(start, at);
    return jsonString(this.#text.slice(start - 1, at + 1));
  }

  #array(): ArrayTerm {
    this.#at++;
    return new ArrayTerm(this.#takes(CLOSE_ARRAY) ? [] : this.#rest([this.value()], CLOSE_ARRAY));
  }

  /** The items after the first of a list, up to its end. */
  #rest(items: Term[], end: number): Term[] {
    while (!this.#takes(end)) {
      if (!this.#takes(COMMA)) throw this.#unexpected();
      items.push(this.value());
    }
    return items;
  }

  #braces(): ObjectTerm | SetTerm {
    this.#at++;
    if (this.#takes(CLOSE_BRACE)) return new ObjectTerm([]);
    const first = this.value();
    if (!this.#takes(COLON)) return new SetTerm(this.#rest([first], CLOSE_BRACE));
    const members: Member[] = [[first, this.value()]];
    while (!this.#takes(CLOSE_BRACE)) {
      if (!this.#takes(COMMA)) throw this.#unexpected();
      const key = this.value();
      if (!this.#takes(COLON)) throw this.#unexpected();
      members.push([key, this.value()]);
    }
    return new ObjectTerm(members);
  }
}
