import { isUtf8 } from 'node:buffer';
import { checkJson } from '../../lib/json/json.js';
import { JsonCheck, levelsBelow, MAX_DIGITS, MAX_JSON_DEPTH } from '../../lib/json/json-check.js';

/**
 * Checks a document that arrives in pieces; both methods throw a `JsonSyntaxError` once it is
 * invalid.
 */
export interface DocumentCheck {
  push(chunk: Uint8Array): void;
  /**
   * True if the bytes so far are certainly not a complete value; short documents are checked in one
   * piece.
   */
  readonly isOpen: boolean;
  end(): void;
}

/**
 * Below this size {@link createDocumentCheck} uses Node's parser, unless the document could be
 * nested too deep.
 */
const SHORT_BYTES = MAX_JSON_DEPTH;

/**
 * The size below which a document cannot be nested too deep below a path of so many segments, since
 * each level has two brackets.
 */
function shortBytes(segments: number): number {
  return Math.min(SHORT_BYTES, 2 * levelsBelow(segments));
}

/**
 * Creates a check equivalent to {@link JsonCheck}. Uses Node's parser for short documents, which
 * most are: a client that has just started would run {@link JsonCheck} on a thousand of them before
 * it is compiled. `segments`: of the path that the document is for.
 */
export function createDocumentCheck(segments = 0): DocumentCheck {
  const limit = shortBytes(segments);
  /** Created for documents that are long, or invalid: it reports the problem. */
  let check: JsonCheck | undefined;
  let short: Uint8Array[] = [];
  let bytes = 0;
  const checkShort = (): JsonCheck => {
    check = new JsonCheck({ maxDepth: levelsBelow(segments), maxDigits: MAX_DIGITS });
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
      bytes += chunk.length;
      if (bytes >= limit) checkShort();
    },
    get isOpen() {
      return check?.isOpen ?? false;
    },
    end() {
      if (check === undefined && shortJson(Buffer.concat(short), segments) !== undefined) return;
      (check ?? checkShort()).end();
    },
  };
}

/**
 * Returns the text of a short document; undefined if it is long or invalid:
 * {@link createDocumentCheck} reports the problem.
 */
export function shortJson(bytes: Buffer, segments = 0): string | undefined {
  if (bytes.length >= shortBytes(segments) || !isUtf8(bytes)) return undefined;
  const text = bytes.toString('utf8');
  try {
    checkJson(text);
    return text;
  } catch {
    return undefined; // documented above
  }
}
