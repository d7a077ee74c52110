import { createHash } from 'node:crypto';
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { JsonText } from '../../lib/json-text.js';

/** Size and hash of inline data. */
export interface InlineDigest {
  readonly bytes: number;
  /** SHA-256 of the text in UTF-8, in hex. */
  readonly hash: string;
}

/** Characters that are hashed in one turn of the event loop: about a millisecond. */
const AT_ONCE_CHARS = 256 * 1024;

/** Hashes inline data once, by identity, without keeping it. */
export class InlineDigests {
  readonly #known = new WeakMap<JsonText, Promise<InlineDigest>>();

  has(data: JsonText): boolean {
    return this.#known.has(data);
  }

  of(data: JsonText): Promise<InlineDigest> {
    let digest = this.#known.get(data);
    if (digest === undefined) {
      digest = digestOf(data.text);
      this.#known.set(data, digest);
    }
    return digest;
  }
}

async function digestOf(text: string): Promise<InlineDigest> {
  const hash = createHash('sha256');
  let bytes = 0;
  for (let from = 0; from < text.length; ) {
    if (from > 0) await nextTurn();
    const until = wholeUntil(text, Math.min(from + AT_ONCE_CHARS, text.length));
    const part = Buffer.from(text.slice(from, until));
    hash.update(part);
    bytes += part.length;
    from = until;
  }
  return { bytes, hash: hash.digest('hex') };
}

/** The same place, or the one after it if a character of two units would be cut. */
function wholeUntil(text: string, until: number): number {
  const last = text.charCodeAt(until - 1);
  return last >= 0xd800 && last <= 0xdbff && until < text.length ? until + 1 : until;
}
