import { SyncError } from '../lib/errors.js';

/**
 * A place in the engine's document tree in its one normal form: decoded segments; the root is `[]`
 * (design D8).
 */
export type DocPath = readonly string[];

/**
 * Parses a `dst_path`: leading, trailing and doubled slashes are ignored, percent-escapes are
 * decoded. Throws `request_invalid` for `.`, `..`, broken escapes, and half a surrogate pair, which
 * no URL and no UTF-8 text can have.
 */
export function parseDocPath(text: string): DocPath {
  // As long as it is, and no longer: a client keeps some for each document, and a list that grows
  // has room for seventeen.
  const named = text.split('/').filter((raw) => raw !== '');
  return named.map((raw) => {
    let segment: string;
    try {
      segment = decodeURIComponent(raw);
    } catch (cause) {
      throw new SyncError('request_invalid', `path ${JSON.stringify(text)} has a broken percent-escape`, { cause });
    }
    const problem = segmentProblem(segment);
    if (problem !== undefined) throw new SyncError('request_invalid', `path ${JSON.stringify(text)} ${problem}`);
    return segment;
  });
}

/**
 * Why no URL of the engine can have a segment, however it is escaped; undefined if one can. `..`
 * would lead to another document.
 */
export function segmentProblem(segment: string): string | undefined {
  if (segment === '.' || segment === '..') return `has a segment ${JSON.stringify(segment)}`;
  return /\p{Surrogate}/u.test(segment) ? 'has half a surrogate pair' : undefined;
}

/** Whether {@link parseDocPath} accepts the text. */
export function isDocPath(text: string): boolean {
  return succeeds(() => parseDocPath(text));
}

function succeeds(parse: () => unknown): boolean {
  try {
    parse();
    return true;
  } catch {
    return false; // the reason does not matter here
  }
}

/**
 * The path as it stands in an engine URL: each segment escaped, a leading slash, empty for the
 * root.
 */
export function docPathUrl(path: DocPath): string {
  return path.map((segment) => `/${encodeURIComponent(segment)}`).join('');
}

/** The path as people read it: `/a/b`, and `/` for the root. */
export function docPathText(path: DocPath): string {
  return path.length === 0 ? '/' : docPathUrl(path);
}

/** The path as an RFC 6901 JSON pointer. */
export function docPathPointer(path: DocPath): string {
  return path.map((segment) => `/${segment.replaceAll('~', '~0').replaceAll('/', '~1')}`).join('');
}

/** Most segments of a pointer: reading and writing below it costs the square of its length. */
export const MAX_POINTER_SEGMENTS = 128;
const MAX_POINTER_CHARS = 4096;

/** Why a pointer is too long; undefined if it is not. */
export function lengthProblem(pointer: string): string | undefined {
  if (pointer.length <= MAX_POINTER_CHARS && pointer.split('/').length <= MAX_POINTER_SEGMENTS + 1) return undefined;
  return `must have at most ${MAX_POINTER_CHARS} characters and ${MAX_POINTER_SEGMENTS} segments`;
}

/**
 * Segments of an RFC 6901 JSON pointer. Throws `request_invalid` for a text that is neither empty
 * nor starts with `/`, and for segments that no document path has: what a patch names becomes one.
 */
export function parsePointer(pointer: string): DocPath {
  if (pointer === '') return [];
  if (!pointer.startsWith('/'))
    throw new SyncError('request_invalid', `JSON pointer ${JSON.stringify(pointer)} must start with /`);
  const tooLong = lengthProblem(pointer);
  if (tooLong !== undefined) throw new SyncError('request_invalid', `a JSON pointer ${tooLong}`);
  return pointer
    .slice(1)
    .split('/')
    .map((raw) => {
      const segment = raw.replaceAll('~1', '/').replaceAll('~0', '~');
      const problem = segmentProblem(segment);
      if (problem !== undefined)
        throw new SyncError('request_invalid', `JSON pointer ${JSON.stringify(pointer)} ${problem}`);
      return segment;
    });
}

/** Whether {@link parsePointer} accepts the text. */
export function isPointer(text: string): boolean {
  return succeeds(() => parsePointer(text));
}

/** True when `path` is `ancestor` or lies below it. */
export function isAtOrBelow(path: DocPath, ancestor: DocPath): boolean {
  return path.length >= ancestor.length && ancestor.every((segment, index) => path[index] === segment);
}

/** True when one path is the other or lies below it. */
export function pathsOverlap(a: DocPath, b: DocPath): boolean {
  return a.length >= b.length ? isAtOrBelow(a, b) : isAtOrBelow(b, a);
}
