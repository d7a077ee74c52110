import type { IncomingMessage } from 'node:http';
import { MAX_JSON_VALUES } from '../../lib/json/json.js';
import { JsonCheck, JsonLongNumber, JsonTooManyValues, MAX_DIGITS, MAX_JSON_DEPTH } from '../../lib/json/json-check.js';
import { Pieces } from '../../lib/net/pieces.js';
import { Arrivals } from '../../lib/run/arrivals.js';
import type { ByteBudget, Holder } from '../../lib/run/budget.js';

/**
 * A body that has arrived, or why not. `busy`: others take the room; `aborted`: the caller went
 * away.
 */
export type ArrivedBody = ReadBody | 'too large' | 'busy' | 'aborted';

/** A body, and what makes room for others once it is no longer needed. */
interface ReadBody {
  readonly bytes: Buffer;
  readonly release: () => void;
}

/** Reads bodies within limits. */
export class BodyReader {
  readonly #bodyBytes: number;
  readonly #arrivals: Arrivals;

  /** `bodyBytes`: of one body; `budget`: of all that are held. */
  constructor(bodyBytes: number, budget: ByteBudget) {
    this.#bodyBytes = bodyBytes;
    this.#arrivals = new Arrivals(budget);
  }

  /**
   * Reads the body of a request. Stops reading where it exceeds a limit, or stalls while others
   * need its room.
   */
  read(request: IncomingMessage, holder: Holder): Promise<ArrivedBody> {
    if (Number(request.headers['content-length'] ?? 0) > this.#bodyBytes) return Promise.resolve('too large');
    return new Promise((resolve) => {
      const pieces = new Pieces();
      const arrival = this.#arrivals.begin(holder, () => end('busy'));
      const end = (outcome: ArrivedBody): void => {
        request.off('data', onData).off('end', onEnd).off('close', onClose);
        if (typeof outcome === 'string') {
          arrival.end();
          request.pause();
        }
        resolve(outcome);
      };
      const onData = (chunk: Buffer): void => {
        pieces.push(chunk);
        if (pieces.bytes > this.#bodyBytes) end('too large');
        else if (arrival.add(chunk.length) !== undefined) end('busy');
      };
      const onEnd = (): void => {
        arrival.isWhole();
        end({ bytes: pieces.join(), release: () => arrival.end() });
      };
      const onClose = (): void => end('aborted');
      // An error is followed by `close`.
      request
        .on('data', onData)
        .on('end', onEnd)
        .on('close', onClose)
        .on('error', () => undefined);
    });
  }
}

/**
 * Bodies up to here are short: they cannot be nested too deep, nor have too many values or digits.
 */
export const SHORT_BODY_BYTES = MAX_JSON_DEPTH;
/** Bytes that are checked in one step: a millisecond. */
const STEP_BYTES = 256 * 1024;
/** What a long body or query is; `other`: no JSON that OPA reads. */
export type LongText = 'json' | 'too many values' | 'too many digits' | 'other';

/**
 * What a long body is, before it becomes a text, or values in the engine, which take OPA a
 * microsecond and more each.
 */
export function* longBody(bytes: Buffer): Generator<undefined, LongText> {
  const check = new JsonCheck({ maxValues: MAX_JSON_VALUES, maxDigits: MAX_DIGITS });
  try {
    for (let at = 0; at < bytes.length; at += STEP_BYTES) {
      if (at > 0) yield;
      check.push(bytes.subarray(at, at + STEP_BYTES));
    }
    check.end();
    return 'json';
  } catch (error) {
    if (error instanceof JsonLongNumber) return 'too many digits';
    return error instanceof JsonTooManyValues ? 'too many values' : 'other'; // OPA says what is wrong with it
  }
}

/** Whether a query may have a number of too many digits in its input. */
export function hasTooManyDigits(query: string): boolean {
  // A longer run has one of these places in it.
  for (let at = MAX_DIGITS; at < query.length; at += MAX_DIGITS) {
    let [start, end] = [at, at];
    while (isDigit(query.charCodeAt(start - 1))) start--;
    while (isDigit(query.charCodeAt(end))) end++;
    if (end - start > MAX_DIGITS) return true;
  }
  return false;
}

function isDigit(code: number): boolean {
  return code >= 0x30 && code <= 0x39;
}
