import * as z from 'zod';

/**
 * Pub/sub frames: OPAL's RPC framing over WebSocket text messages (opal-protocol P1.2). One JSON object with a
 * `request`, a `response`, or both. Receivers read liberally; both keys are always written.
 */

/** Our extensions on the socket, negotiated with {@link PROTOCOL_HEADER}; raised when a frame or a schema changes. */
export const PROTOCOL_VERSION = 2;
/** Upgrade header: a client offers its version, our server returns the one that both speak. */
export const PROTOCOL_HEADER = 'x-sync-protocol';
/** Frames towards OPAL peers must stay below this: Python clients drop the connection at 1 MiB (opal-protocol P1.1). */
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
 * A notify frame around data that is JSON text already: the data is spliced in, so it is encoded once for all topics.
 * `ids` are constant for one publication (design D30).
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
