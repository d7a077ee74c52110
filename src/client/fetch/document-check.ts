import { isUtf8 } from 'node:buffer';
import { checkJson } from '../../lib/json.js';
import { JsonCheck, MAX_JSON_DEPTH } from '../../lib/json-check.js';

/** Checks a document that arrives in pieces; both methods throw a `JsonSyntaxError` once it is invalid. */
export interface DocumentCheck {
  push(chunk: Uint8Array): void;
  /** True if the bytes so far are certainly not a complete value; short documents are checked in one piece. */
  readonly isOpen: boolean;
  end(): void;
}

/** Below this size a document cannot be nested too deep: `JSON.parse` accepts the same as {@link JsonCheck}. */
export const SHORT_BYTES = MAX_JSON_DEPTH;

/**
 * Creates a check equivalent to {@link JsonCheck}. Uses Node's parser for short documents, which most are: a client that has
 * just started would run {@link JsonCheck} on a thousand of them before it is compiled.
 */
export function createDocumentCheck(): DocumentCheck {
  /** Created for documents that are long, or invalid: it reports the problem. */
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

/** Returns the text of a short document; undefined if it is long or invalid: {@link createDocumentCheck} reports the problem. */
export function shortJson(bytes: Buffer): string | undefined {
  if (bytes.length >= SHORT_BYTES || !isUtf8(bytes)) return undefined;
  const text = bytes.toString('utf8');
  try {
    checkJson(text);
    return text;
  } catch {
    return undefined; // documented above
  }
}
