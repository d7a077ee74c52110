import * as z from 'zod';
import { SyncError } from '../lib/errors.js';
import { parseJson } from '../lib/json/json.js';
import { MAX_READ_DEPTH } from '../lib/json/json-check.js';
import { members } from '../lib/json/json-text.js';

/**
 * Pub/sub frames: OPAL's RPC framing over WebSocket text messages (opal-protocol P1.2). One JSON
 * object with a `request`, a `response`, or both. Receivers read liberally; both keys are always
 * written.
 */

/**
 * Our extensions on the socket, negotiated with {@link PROTOCOL_HEADER}; raised when a frame or a
 * schema changes.
 */
export const PROTOCOL_VERSION = 2;
/** Upgrade header: a client offers its version, our server returns the one that both speak. */
export const PROTOCOL_HEADER = 'x-sync-protocol';
/**
 * Frames towards OPAL peers must stay below this: Python clients drop the connection at 1 MiB
 * (opal-protocol P1.1).
 */
export const OPAL_FRAME_LIMIT_BYTES = 1_048_576;

const requestPart = z.object({
  method: z.string(),
  arguments: z.preprocess(
    (value) => (Array.isArray(value) && value.length === 0 ? {} : value),
    z.record(z.string(), z.unknown()).default({}),
  ),
  call_id: z.string().nullish(),
});
export type RpcRequest = z.infer<typeof requestPart>;

const responsePart = z.object({
  result: z.unknown().optional(),
  result_type: z.string().nullish(),
  call_id: z.string().nullish(),
});

/** One frame. A frame with neither part is ignored by receivers. */
export const frame = z.object({ request: requestPart.nullish(), response: responsePart.nullish() });
export type Frame = z.infer<typeof frame>;

/** The `arguments` of a `notify` request. */
export const notifyArguments = z.object({
  subscription: z.looseObject({ topic: z.string() }),
  data: z.unknown().optional(),
});

/** A request frame. */
export function requestFrame(method: string, args: object, callId: string): string {
  return JSON.stringify({ request: { method, arguments: args, call_id: callId }, response: null });
}

/** A response frame. `resultType` is what OPAL calls the Python type of the result. */
export function responseFrame(result: unknown, resultType: 'bool' | 'str' | null, callId: string | null): string {
  return JSON.stringify({ request: null, response: { result, result_type: resultType, call_id: callId } });
}

/**
 * A notify frame around data that is JSON text already: the data is spliced in, so it is encoded
 * once for all topics. `ids` are constant for one publication (design D30).
 */
export function notifyFrame(
  topic: string,
  dataText: string,
  ids: { subscription: string; subscriber: string; call: string },
): string {
  const subscription = JSON.stringify({
    id: ids.subscription,
    subscriber_id: ids.subscriber,
    topic,
    notifier_id: null,
  });
  return `{"request":{"method":"notify","arguments":{"subscription":${subscription},"data":${dataText}},"call_id":${JSON.stringify(ids.call)}},"response":null}`;
}

/**
 * Reads one text message. Gives undefined for JSON that is no frame: receivers ignore that
 * (opal-protocol P1.2). Throws `frame_invalid` for a text that is not JSON.
 */
export function readFrame(text: string): Frame | undefined {
  let value: unknown;
  try {
    value = parseJson(text, { depth: MAX_READ_DEPTH });
  } catch (cause) {
    throw new SyncError('frame_invalid', 'a frame is not JSON', { cause });
  }
  const parsed = frame.safeParse(value);
  return parsed.success ? parsed.data : undefined;
}

/**
 * An argument of the request in a frame as its JSON text, so that numbers survive (design D33);
 * `null` where it is missing. The text is one that {@link readFrame} gave a request for.
 */
export function argumentText(text: string, name: string): string {
  const request = members(text.trim()).get('request');
  const args = request === undefined ? undefined : members(request).get('arguments');
  if (args === undefined || !args.startsWith('{')) return 'null';
  return members(args).get(name) ?? 'null';
}

/**
 * The topics of a `subscribe`, `unsubscribe` or `publish`: a list of texts, or one text; undefined
 * for all else.
 */
export function topicList(value: unknown): string[] | undefined {
  if (typeof value === 'string') return [value];
  if (!Array.isArray(value)) return undefined;
  const topics = value.filter((topic) => typeof topic === 'string');
  return topics.length === value.length ? topics : undefined;
}

/**
 * A text message as it goes over the socket of a server, encoded once for however many peers get
 * it.
 */
export interface TextFrame {
  /** Header and text; shared, so never changed. */
  readonly bytes: Buffer;
  /** The text alone, as UTF-8: a part of {@link bytes}. */
  readonly payload: Buffer;
}

/** One final frame, not masked (RFC 6455 section 5.2: what a server sends has no mask). */
const FINAL_TEXT = 0x81;
/**
 * Lengths up to here stand in the second byte; these two values say that 2 or 8 bytes with the
 * length follow.
 */
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
