import { isUtf8 } from 'node:buffer';
import { JsonCheck, MAX_JSON_DEPTH } from '../../lib/json-check.js';

/** Checks a document whose bytes arrive in pieces; both throw a `JsonSyntaxError` once it is known to be none. */
export interface DocumentCheck {
  push(chunk: Uint8Array): void;
  /** True if the bytes so far are known to be no whole value; short documents are checked in one piece. */
  readonly isOpen: boolean;
  end(): void;
}

/** Too short to be nested too deep: what `JSON.parse` takes of it is all that {@link JsonCheck} takes. */
export const SHORT_BYTES = MAX_JSON_DEPTH;

/**
 * What {@link JsonCheck} says. Short documents, as most are, go through Node's own parser at their end: a client that
 * has just started would run the check on a thousand of them before it is compiled.
 */
export function createDocumentCheck(): DocumentCheck {
  /** Made for what is not short, or no JSON: it says what is wrong. */
  let check: JsonCheck | undefined;
  let short: Uint8Array[] = [];
  let shortBytes = 0;
  const checkShort = (): JsonCheck => {
    check = new JsonCheck();
    for (const chunk of short) check.push(chunk);
    short = [];
    return check;
  };
  return {
    push(chunk) {
      if (check !== undefined) {
        check.push(chunk);
        return;
      }
      short.push(chunk);
      shortBytes += chunk.length;
      if (shortBytes >= SHORT_BYTES) checkShort();
    },
    get isOpen() {
      return check?.isOpen ?? false;
    },
    end() {
      if (check === undefined && shortJson(Buffer.concat(short)) !== undefined) return;
      (check ?? checkShort()).end();
    },
  };
}

/** The text of a short document; undefined where it is not short, or no JSON: {@link createDocumentCheck} says what is wrong. */
export function shortJson(bytes: Buffer): string | undefined {
  if (bytes.length >= SHORT_BYTES || !isUtf8(bytes)) return undefined;
  const text = bytes.toString('utf8');
  try {
    JSON.parse(text);
    return text;
  } catch {
    return undefined; // documented above
  }
}
