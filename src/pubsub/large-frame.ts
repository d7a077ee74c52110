import { SyncError } from '../lib/errors.js';
import { jsonString } from '../lib/json/json.js';
import { JsonCheck, JsonSyntaxError, MAX_READ_DEPTH, type MemberWatch } from '../lib/json/json-check.js';

/**
 * Most bytes of a call beside the data that it publishes: twice what the topics of one peer may
 * have.
 */
export const MAX_CALL_BYTES = 2 * 1_048_576;

/**
 * A long frame without the data that it publishes, which is passed on as text. Parsed, a few bytes
 * of it could take a hundred of memory. Throws `frame_invalid` for bytes that are not JSON, and
 * where too much is left.
 */
export function withoutPublished(frame: Buffer): string {
  const found = new PublishedData(frame);
  const check = new JsonCheck({ maxDepth: MAX_READ_DEPTH, watch: found });
  try {
    check.push(frame);
    check.end();
  } catch (cause) {
    if (!(cause instanceof JsonSyntaxError)) throw cause;
    throw new SyncError('frame_invalid', 'a frame is not JSON', { cause });
  }
  const parts: Buffer[] = [];
  let through = 0;
  for (const [start, end] of found.spans) {
    parts.push(frame.subarray(through, start), Buffer.from('null'));
    through = end;
  }
  parts.push(frame.subarray(through));
  const left = parts.reduce((sum, { length }) => sum + length, 0);
  if (left > MAX_CALL_BYTES) {
    throw new SyncError(
      'frame_invalid',
      `a call has more than ${MAX_CALL_BYTES} bytes beside the data that it publishes`,
    );
  }
  return Buffer.concat(parts).toString();
}

const PLACE = ['request', 'arguments', 'data'];
/** Longest spelling of such a name, with escapes and white space; a longer one is another name. */
const MAX_NAME_BYTES = 100;

/** Finds `request.arguments.data`, however often it is there. */
class PublishedData implements MemberWatch {
  readonly depth = PLACE.length;
  readonly spans: (readonly [start: number, end: number])[] = [];
  readonly #bytes: Buffer;
  /** How many names of the place the names above the next value are. */
  #fits = 0;

  constructor(bytes: Buffer) {
    this.#bytes = bytes;
  }

  name(depth: number, start: number, end: number): void {
    const isNext =
      this.#fits >= depth - 1 && end - start <= MAX_NAME_BYTES && this.#nameAt(start, end) === PLACE[depth - 1];
    this.#fits = isNext ? depth : Math.min(this.#fits, depth - 1);
  }

  value(start: number, end: number): void {
    if (this.#fits === PLACE.length) this.spans.push([start, end]);
  }

  #nameAt(start: number, end: number): string {
    return jsonString(this.#bytes.toString('utf8', start, end));
  }
}
