import { Transform, type TransformCallback } from 'node:stream';
import { SyncError } from '../../lib/errors.js';
import { Pieces } from '../../lib/net/pieces.js';

/** Letter and length of a message; the length counts itself. */
const HEAD_BYTES = 5;
const LENGTH_BYTES = 4;
/** Most bytes of a message that is no row: it describes two columns, or tells of a failure. */
const MOST_BYTES = 64 * 1024;
/** Most messages of one statement: no batch has more than 10,000 rows. */
const MOST_MESSAGES = 20_000;

/**
 * What is in a message, as far as it was looked at. Each method returns false if it is not there.
 */
class Content {
  readonly #bytes: Buffer;
  #at = 0;

  constructor(bytes: Buffer) {
    this.#bytes = bytes;
  }

  get isOver(): boolean {
    return this.#at === this.#bytes.length;
  }

  skip(count: number): boolean {
    this.#at += count;
    return count >= 0 && this.#at <= this.#bytes.length;
  }

  /** A text that ends with a zero byte. */
  text(): boolean {
    const end = this.#bytes.indexOf(0, this.#at);
    this.#at = end + 1;
    return end >= 0;
  }

  /** Texts to an empty one. */
  texts(): boolean {
    while (this.#bytes[this.#at] !== 0) if (!this.text()) return false;
    return this.text();
  }

  /** Texts, each after a letter, to a zero byte. */
  fields(): boolean {
    while (this.#bytes[this.#at] !== 0) if (!this.skip(1) || !this.text()) return false;
    return this.skip(1);
  }

  /** So many things as a number before them says. */
  counted(one: () => boolean): boolean {
    let count = this.#number(2);
    for (; count > 0; count--) if (!one()) return false;
    return count === 0;
  }

  /** A value of a row: bytes after their number, or none and -1. */
  value(): boolean {
    const length = this.#number(4);
    return length === -1 || this.skip(length);
  }

  /** What a server says of how a caller proves who it is. */
  authentication(): boolean {
    const kind = this.#number(4);
    if (kind === OPEN || kind === PASSWORD) return true;
    if (kind === MD5) return this.skip(4);
    if (kind === SASL) return this.texts();
    return (kind === SASL_CONTINUES || kind === SASL_ENDS) && this.skip(this.#bytes.length - this.#at);
  }

  /** -2 where there is none. */
  #number(bytes: 2 | 4): number {
    const at = this.#at;
    return this.skip(bytes) ? this.#bytes.readIntBE(at, bytes) : -2;
  }
}

const [OPEN, PASSWORD, MD5, SASL, SASL_CONTINUES, SASL_ENDS] = [0, 3, 5, 10, 11, 12];

/** The messages that a read can have, by their letters, and what is in each. */
const CONTENTS: Readonly<Record<string, (content: Content) => boolean>> = {
  // Authentication, parameters, keys.
  R: (content) => content.authentication(),
  S: (content) => content.text() && content.text(),
  K: (content) => content.skip(8),
  // Errors and notices.
  E: (content) => content.fields(),
  N: (content) => content.fields(),
  // Columns and rows.
  T: (content) => content.counted(() => content.text() && content.skip(18)),
  D: (content) => content.counted(() => content.value()),
  // Steps of a statement, and its end.
  1: () => true,
  2: () => true,
  n: () => true,
  I: () => true,
  C: (content) => content.text(),
  Z: (content) => content.skip(1),
};

/**
 * Passes on what a database says, message by message, if each is whole and of a kind that a read
 * can have. `pg` reads what a message says of itself without a look at where it ends: it throws in
 * the middle of the program, or never comes back. Fails with `fetch_failed`.
 */
export class PostgresMessages extends Transform {
  readonly #pieces = new Pieces();
  /** Bytes of what has not been passed on, from which on a look is worth it. */
  #needed = HEAD_BYTES;
  #messages = 0;

  override _transform(chunk: Buffer, _encoding: BufferEncoding, done: TransformCallback): void {
    this.#pieces.push(chunk);
    if (this.#pieces.bytes < this.#needed) {
      done();
      return;
    }
    const all = this.#pieces.join();
    try {
      const end = this.#look(all);
      if (end < all.length) this.#pieces.push(all.subarray(end));
      done(null, end === 0 ? undefined : all.subarray(0, end));
    } catch (error) {
      done(error as Error);
    }
  }

  /** Returns where the last whole message ends. */
  #look(all: Buffer): number {
    let at = 0;
    for (;;) {
      this.#needed = HEAD_BYTES;
      if (all.length - at < HEAD_BYTES) return at;
      const letter = String.fromCharCode(all[at] ?? 0);
      const length = all.readUInt32BE(at + 1);
      const isKnown = Object.hasOwn(CONTENTS, letter);
      if (!isKnown || length < LENGTH_BYTES || (letter !== 'D' && length > MOST_BYTES)) throw notUnderstood();
      const end = at + 1 + length;
      if (end > all.length) {
        this.#needed = end - at;
        return at;
      }
      this.#messages = letter === 'Z' ? 0 : this.#messages + 1;
      if (this.#messages > MOST_MESSAGES) throw notUnderstood();
      const content = new Content(all.subarray(at + HEAD_BYTES, end));
      if (CONTENTS[letter]?.(content) !== true || !(content.isOver || letter === 'K')) throw notUnderstood();
      at = end;
    }
  }
}

function notUnderstood(): SyncError {
  return new SyncError(
    'fetch_failed',
    'the answer is not what a Postgres database says to a query, or asks for more than a password',
  );
}
