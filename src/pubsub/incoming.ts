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
