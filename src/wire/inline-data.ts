import { isUtf8 } from 'node:buffer';
import { isRecord } from '../lib/json/is-record.js';
import { jsonString, parseChecked, parseJson } from '../lib/json/json.js';
import { JsonCheck, MAX_JSON_DEPTH, MAX_READ_DEPTH, type MemberWatch } from '../lib/json/json-check.js';
import { JsonText, jsonOrUndefined, members } from '../lib/json/json-text.js';

/**
 * Parses JSON with inline data: each `entries[].data` that is present and not null stays text, byte
 * by byte as it was written (design D33), and everything else is plain. Data that is nested deeper
 * than engines accept is parsed, too, so that the schemas reject it. Inline data may be most of
 * many megabytes: all bytes are read once, and only the rest becomes values.
 */

/** Bytes that are read in one step: some milliseconds. */
const STEP_BYTES = 256 * 1024;

/**
 * Most values that a text may have beside inline data. Each becomes an object of the program: 50
 * bytes for two of text.
 */
const MAX_VALUES = 500_000;

/** Thrown for a text with too many values, before any is made. */
export class TooManyValues extends Error {
  override readonly name = 'TooManyValues';

  constructor() {
    super(`must have at most ${MAX_VALUES} values beside inline data`);
  }
}

/**
 * Parses JSON bytes in steps, so that the caller can yield the event loop. The bytes must not
 * change. Throws `JsonSyntaxError` and {@link TooManyValues}.
 */
export function* keepingData(bytes: Buffer): Generator<undefined, unknown> {
  const plain = bytes.length > STEP_BYTES || !isUtf8(bytes) ? undefined : withoutData(bytes.toString());
  if (plain !== undefined) return plain;
  const found = new DataSpans(bytes);
  const check = new JsonCheck({ maxDepth: MAX_READ_DEPTH, watch: found });
  for (let at = 0; at < bytes.length; at += STEP_BYTES) {
    if (at > 0) yield;
    check.push(bytes.subarray(at, at + STEP_BYTES));
  }
  check.end();
  const isLong = bytes.length > STEP_BYTES;
  if (isLong) yield;
  const { spans } = found;
  if (spans.length === 0) {
    yield* countValues([bytes]);
    return parseChecked(bytes.toString());
  }
  // Each span's place is taken by its index, so that of repeated names the one that counts is found
  // by itself.
  const rest: Buffer[] = [];
  let through = 0;
  for (const [index, { start, end }] of spans.entries()) {
    rest.push(bytes.subarray(through, start), Buffer.from(String(index)));
    through = end;
  }
  rest.push(bytes.subarray(through));
  yield* countValues(rest);
  const value: unknown = parseChecked(Buffer.concat(rest).toString());
  for (const entry of entriesOf(value)) {
    const span = typeof entry.data === 'number' ? spans[entry.data] : undefined;
    if (span !== undefined) entry.data = JsonText.trusted(yield* textOf(bytes, span));
  }
  if (isLong) yield;
  return value;
}

/**
 * Throws {@link TooManyValues}. Commas and brackets within texts count, too: legitimate texts are
 * far from the limit.
 */
function* countValues(parts: readonly Buffer[]): Generator<undefined, void> {
  if (parts.reduce((sum, { length }) => sum + length, 0) <= MAX_VALUES) return;
  let left = MAX_VALUES;
  for (const part of parts) {
    for (let at = 0; at < part.length; at += STEP_BYTES) {
      const end = Math.min(at + STEP_BYTES, part.length);
      for (let index = at; index < end; index++) {
        const byte = part[index];
        if (byte === 0x2c || byte === 0x5b || byte === 0x7b) left--;
      }
      if (left < 0) throw new TooManyValues();
      yield;
    }
  }
}

/** {@link keepingData} in one step. */
export function parseKeepingData(text: string): unknown {
  const plain = text.length > STEP_BYTES ? undefined : withoutData(text);
  if (plain !== undefined) return plain;
  const steps = keepingData(Buffer.from(text));
  for (;;) {
    const step = steps.next();
    if (step.done === true) return step.value;
  }
}

/** {@link parseKeepingData} for SYNC_DATA_CONFIG_SOURCES, where the entries lie below `config`. */
export function parseKeepingSources(text: string): unknown {
  const value = parseJson(text);
  const config = isRecord(value) ? members(text.trim()).get('config') : undefined;
  return config === undefined ? value : { ...(value as object), config: parseKeepingData(config) };
}

/**
 * The value of a text that can have no inline data, since no name in it is `data`, however it is
 * spelled; most updates have none. Undefined if it may have some, and for a text that is not JSON:
 * the full parse says what is wrong.
 */
function withoutData(text: string): unknown {
  return text.includes('"data"') || text.includes('\\') ? undefined : jsonOrUndefined(text);
}

/** Bytes from `start` up to, but not including, `end`. */
interface Span {
  readonly start: number;
  readonly end: number;
}

/** Decodes a span of valid UTF-8; a long one in steps that end between two characters. */
function* textOf(bytes: Buffer, { start, end }: Span): Generator<undefined, string> {
  if (end - start <= STEP_BYTES) return bytes.toString('utf8', start, end);
  const parts: string[] = [];
  for (let at = start; at < end; ) {
    let next = Math.min(at + STEP_BYTES, end);
    while (next < end && ((bytes[next] ?? 0) & 0xc0) === 0x80) next--;
    parts.push(bytes.toString('utf8', at, next));
    at = next;
    yield;
  }
  return parts.join('');
}

const ENTRIES = Buffer.from('"entries"');
const DATA = Buffer.from('"data"');

/** Finds the spans of `entries[].data`. */
class DataSpans implements MemberWatch {
  readonly depth = 3;
  readonly spans: Span[] = [];
  readonly #bytes: Buffer;
  #inEntries = false;
  #isData = false;

  constructor(bytes: Buffer) {
    this.#bytes = bytes;
  }

  name(depth: number, start: number, end: number): void {
    if (depth === this.depth) this.#isData = this.#inEntries && this.#is(DATA, start, end);
    else this.#inEntries = depth === 1 && this.#is(ENTRIES, start, end);
  }

  value(start: number, end: number, levels: number): void {
    if (!this.#isData || levels > MAX_JSON_DEPTH) return;
    let [first, last] = [start, end];
    while (isSpace(this.#bytes[first])) first++;
    while (isSpace(this.#bytes[last - 1])) last--;
    const isNull = last - first === 4 && this.#bytes[first] === 0x6e;
    if (!isNull) this.spans.push({ start: first, end: last });
  }

  /** Whether a name is this one; its characters may be escaped. */
  #is(name: Buffer, start: number, end: number): boolean {
    const bytes = this.#bytes;
    for (let at = start; at < end; at++) {
      const byte = bytes[at];
      if (byte === 0x5c) return jsonString(bytes.toString('utf8', start, end)) === jsonString(name.toString());
      if (byte !== name[at - start]) return isSpace(byte) && at - start === name.length;
    }
    return end - start === name.length;
  }
}

function isSpace(byte: number | undefined): boolean {
  return byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09;
}

function entriesOf(value: unknown): { data?: unknown }[] {
  const entries = isRecord(value) && 'entries' in value ? value.entries : undefined;
  return Array.isArray(entries) ? entries.filter(isRecord) : [];
}
