import { ArrayTerm, type Member, NumberTerm, ObjectTerm, SetTerm, type Term } from './term.js';

/** Parses the text of a ground term as `opa_value_dump` prints it. Throws `SyntaxError` for anything else. */
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

const NUMBER = /-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/y;

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
    if (code === QUOTE) return this.#string();
    if (code === OPEN_BRACE) return this.#braces();
    if (code === OPEN_ARRAY) return this.#array();
    if (this.#skips('true')) return true;
    if (this.#skips('false')) return false;
    if (this.#skips('null')) return null;
    if (this.#skips('set()')) return new SetTerm([]);
    NUMBER.lastIndex = this.#at;
    const number = NUMBER.exec(this.#text)?.[0];
    if (number === undefined) throw this.#unexpected();
    this.#at += number.length;
    return new NumberTerm(number);
  }

  /** The next character that is no space. */
  #next(): number {
    while (this.#text.charCodeAt(this.#at) === SPACE) this.#at++;
    return this.#text.charCodeAt(this.#at);
  }

  #skips(word: string): boolean {
    if (!this.#text.startsWith(word, this.#at)) return false;
    this.#at += word.length;
    return true;
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
    return JSON.parse(this.#text.slice(start - 1, at + 1)) as string;
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
