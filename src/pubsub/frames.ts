import { SyncError } from '../lib/errors.js';
import { members } from '../lib/json-text.js';
import { type Frame, frame } from '../wire/frames.js';

/**
 * Reads one text message. Gives undefined for JSON that is no frame: receivers ignore that (opal-protocol P1.2). Throws
 * `frame_invalid` for a text that is not JSON.
 */
export function readFrame(text: string): Frame | undefined {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (cause) {
    throw new SyncError('frame_invalid', 'a frame is not JSON', { cause });
  }
  const parsed = frame.safeParse(value);
  return parsed.success ? parsed.data : undefined;
}

/**
 * An argument of the request in a frame as its JSON text, so that numbers survive (design D33); `null` where it is
 * missing. The text is one that {@link readFrame} gave a request for.
 */
export function argumentText(text: string, name: string): string {
  const request = members(text.trim()).get('request');
  const args = request === undefined ? undefined : members(request).get('arguments');
  if (args === undefined || !args.startsWith('{')) return 'null';
  return members(args).get(name) ?? 'null';
}

/** The topics of a `subscribe`, `unsubscribe` or `publish`: a list of texts, or one text; undefined for all else. */
export function topicList(value: unknown): string[] | undefined {
  if (typeof value === 'string') return [value];
  if (!Array.isArray(value)) return undefined;
  const topics = value.filter((topic) => typeof topic === 'string');
  return topics.length === value.length ? topics : undefined;
}

/** A text message as it goes over the socket of a server, encoded once for however many peers get it. */
export interface TextFrame {
  /** Header and text; shared, so never changed. */
  readonly bytes: Buffer;
  /** The text alone, as UTF-8: a part of {@link bytes}. */
  readonly payload: Buffer;
}

/** One final frame, not masked (RFC 6455 section 5.2: what a server sends has no mask). */
const FINAL_TEXT = 0x81;
/** Lengths up to here stand in the second byte; these two values say that 2 or 8 bytes with the length follow. */
const SHORT = 125;
const LENGTH_16 = 126;
const LENGTH_64 = 127;

/** Encodes a text as one frame. */
export function textFrame(text: string): TextFrame {
  const length = Buffer.byteLength(text);
  const start = length <= SHORT ? 2 : length <= 0xffff ? 4 : 10;
  const bytes = Buffer.allocUnsafe(start + length);
  bytes[0] = FINAL_TEXT;
  if (start === 2) bytes[1] = length;
  else if (start === 4) {
    bytes[1] = LENGTH_16;
    bytes.writeUInt16BE(length, 2);
  } else {
    bytes[1] = LENGTH_64;
    bytes.writeBigUInt64BE(BigInt(length), 2);
  }
  bytes.write(text, start);
  return { bytes, payload: bytes.subarray(start) };
}
