import { MAX_JSON_VALUES } from '../../lib/json.js';
import { JsonCheck, JsonTooManyValues, MAX_JSON_DEPTH } from '../../lib/json-check.js';

/** Bodies up to here are short: they cannot be nested too deep, nor have too many values. */
export const SHORT_BODY_BYTES = MAX_JSON_DEPTH;
/** Bytes that are checked in one step: a millisecond. */
const STEP_BYTES = 256 * 1024;

/**
 * What a long body is, before it becomes a text, or values in the engine, which take OPA a microsecond and more each. `other`: no JSON
 * that OPA reads.
 */
export function* longBody(bytes: Buffer): Generator<undefined, 'json' | 'too many values' | 'other'> {
  const check = new JsonCheck({ maxValues: MAX_JSON_VALUES });
  try {
    for (let at = 0; at < bytes.length; at += STEP_BYTES) {
      if (at > 0) yield;
      check.push(bytes.subarray(at, at + STEP_BYTES));
    }
    check.end();
    return 'json';
  } catch (error) {
    return error instanceof JsonTooManyValues ? 'too many values' : 'other'; // OPA says what is wrong with it
  }
}
