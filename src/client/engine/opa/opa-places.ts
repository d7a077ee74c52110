import { type DocPath, docPathPointer, docPathUrl, segmentProblem } from '../../../wire/doc-path.js';

/**
 * How a document path is written in each interface of OPA's REST API. They decode differently: a
 * URL is percent-decoded once, a JSON pointer of a PATCH is percent-decoded although it stands in a
 * body, and a query has Rego strings.
 */

/** Segments that a URL parser resolves or drops, however they are escaped. */
const NAMELESS = new Set(['', '.', '..']);

/** Why no write of OPA's REST API leads to a path; undefined if one does. */
export function writeProblem(path: DocPath): string | undefined {
  // OPA strips the slashes at both ends of a pointer.
  if (path.at(0) === '' || path.at(-1) === '') return 'begins or ends with a member without a name';
  for (const segment of path) {
    const problem = NAMELESS.has(segment) ? undefined : segmentProblem(segment);
    if (problem !== undefined) return problem;
  }
  return undefined;
}

/** A percent sign that begins no escape. */
const BARE_PERCENT = /%(?![0-9A-Fa-f]{2})/;

/**
 * The URL that OPA reads as a path; undefined if there is none, for which there is
 * {@link patchPointer}. An escaped slash is none: OPA looks for the decoded path in the decoded
 * URL, and redirects where slashes follow each other there. Nor is a bare percent sign: an OPA with
 * an authorization policy decodes the decoded URL once more, and refuses what it cannot decode.
 */
export function dataUrl(path: DocPath): string | undefined {
  const hasUrl = path.every(
    (segment) => !NAMELESS.has(segment) && !segment.includes('/') && !BARE_PERCENT.test(segment),
  );
  return hasUrl ? `/v1/data${docPathUrl(path)}` : undefined;
}

/** The path as `path` of an operation of a PATCH. */
export function patchPointer(path: DocPath): string {
  return docPathPointer(path).replaceAll('%', '%25');
}

/**
 * Characters that OPA reads in a URL: letters and digits of all scripts, and all of ASCII that is
 * printed but quotes.
 */
const READABLE = /^[ !#-~\p{L}\p{M}\p{N}]*$/u;
/** Beyond the Basic Multilingual Plane OPA may write an escape that Rego does not know. */
const ASTRAL = /[\u{10000}-\u{10ffff}]/u;
/** Numbers as OPA writes them. */
const PLAIN_NUMBER = /^(?:0|-?[1-9][0-9]{0,14})$/;
/** What OPA may take for another number: `007`, `+5`, `5.0`. */
const NUMBER_LIKE = /^[+-]?[0-9.]+$/;

/**
 * The URL by which OPA reads exactly this path; undefined if there is none, for which there is a
 * query. OPA makes a Rego reference of it: it refuses quotes, takes digits for a number, and writes
 * some characters in a way that it cannot read back.
 */
export function readUrl(path: DocPath): string | undefined {
  return path.every(isReadable) ? dataUrl(path) : undefined;
}

function isReadable(segment: string): boolean {
  if (!READABLE.test(segment) || ASTRAL.test(segment)) return false;
  return PLAIN_NUMBER.test(segment) || !NUMBER_LIKE.test(segment);
}
