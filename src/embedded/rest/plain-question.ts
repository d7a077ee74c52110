import { isUtf8 } from 'node:buffer';
import type { IncomingHttpHeaders } from 'node:http';
import { checkJson } from '../../lib/json/json.js';
import type { EngineQuestion } from '../vocabulary.js';
import type { RestRoute, RestTarget } from './rest-target.js';

/** A request that needs nothing of OPA's REST API but one decision. */
export interface PlainQuestion extends EngineQuestion {
  /**
   * `v1` has the result in an object; `v0` is the result alone, and has no response for undefined.
   */
  readonly api: 'v0' | 'v1';
  /** The response says that there was no input. */
  readonly warns: boolean;
}

/** A body that has arrived. */
export interface RestBody {
  readonly headers: IncomingHttpHeaders;
  readonly bytes: Buffer;
}

/** The default decision of OPA. */
const MAIN = 'system/main';

/**
 * Segments that mean the same to everybody. A whole number, 1.0 too, is an index for OPA, and dots
 * are a path.
 */
const PATH = /^(?:\/(?![-+]?\d*(?:\.0*)?(?:\/|$)|\.\.(?:\/|$))[\w.~-]+)+$/;
const ENVELOPE = /^[ \t\n\r]*\{[ \t\n\r]*"input"[ \t\n\r]*:/;
const NO_INPUT = /^[ \t\n\r]*(?:\{[ \t\n\r]*\}[ \t\n\r]*)?$/;
const NULL = /^[ \t\n\r]*null[ \t\n\r]*$/;
/** Half of a surrogate pair, escaped: Go makes another character of it where it stands alone. */
const SURROGATE = /\\u[dD][89a-fA-F]/;

/**
 * The question in a request, if it is exactly one: a plain path, no parameters but `input`, a body
 * that is exactly `{"input": ...}` (v1) or one JSON value (v0). Undefined for everything else:
 * OPA's own handler answers that. Input is text as it was sent.
 */
export function plainQuestion(
  route: RestRoute,
  { query }: RestTarget,
  body: RestBody | undefined,
): PlainQuestion | undefined {
  const asked = askedPath(route);
  if (asked === undefined) return undefined;
  if (body === undefined) return asked.api === 'v1' ? askedByGet(asked.path, query) : undefined;
  if (query !== '') return undefined;
  const { headers, bytes } = body;
  if (headers['content-encoding'] !== undefined || headers['content-type']?.includes('yaml') === true) return undefined;
  if (!isUtf8(bytes)) return undefined;
  const text = bytes.toString();
  return asked.api === 'v1' ? askedInEnvelope(asked.path, text) : askedInBody(asked.path, text);
}

function askedPath(route: RestRoute): { api: 'v0' | 'v1'; path: string } | undefined {
  if (route.kind === 'main') return { api: 'v0', path: MAIN };
  if (route.kind !== 'data' || !PATH.test(route.path)) return undefined;
  return { api: route.api, path: route.path.slice(1) };
}

function askedByGet(path: string, query: string): PlainQuestion | undefined {
  if (query === '') return { api: 'v1', path, input: undefined, warns: false };
  // Go drops a parameter with a semicolon.
  if (!query.startsWith('input=') || /[&;]/.test(query)) return undefined;
  const input = unescaped(query.slice('input='.length));
  return input === undefined || !isInput(input) ? undefined : { api: 'v1', path, input, warns: false };
}

function unescaped(text: string): string | undefined {
  try {
    return decodeURIComponent(text.replaceAll('+', ' '));
  } catch {
    return undefined; // OPA has an opinion on it
  }
}

function askedInEnvelope(path: string, text: string): PlainQuestion | undefined {
  const start = ENVELOPE.exec(text)?.[0].length;
  if (start === undefined) return NO_INPUT.test(text) ? { api: 'v1', path, input: undefined, warns: true } : undefined;
  const end = text.lastIndexOf('}');
  // What is between is one JSON value, so nothing else is in the object.
  if (end < start || text.slice(end + 1).trim() !== '') return undefined;
  const input = text.slice(start, end);
  if (NULL.test(input)) return { api: 'v1', path, input: undefined, warns: true };
  return isInput(input) ? { api: 'v1', path, input, warns: false } : undefined;
}

function askedInBody(path: string, text: string): PlainQuestion | undefined {
  // Without a body the input is null, not absent.
  const input = text.trim() === '' ? 'null' : text;
  return isInput(input) ? { api: 'v0', path, input, warns: false } : undefined;
}

function isInput(text: string): boolean {
  try {
    checkJson(text);
  } catch {
    return false; // OPA says why
  }
  return !SURROGATE.test(text);
}
