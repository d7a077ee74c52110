import { type ErrorCode, SyncError } from '../lib/errors.js';
import { type DocPath, docPathText, isAtOrBelow } from '../wire/doc-path.js';
import type { Access, Caller } from './caller.js';

/** Refused topics, or paths, that the answer names. */
const NAMED_TOPICS = 10;
/** Characters that are shown of a text from outside. */
const SHOWN_CHARACTERS = 100;

/**
 * Throws `unauthorized` when a caller with a valid token is not of a kind that the route takes. The status is 401 and the
 * text as OPAL's, whose users script against it (opal-protocol P2.3).
 */
export function authorize(access: Access, caller: Caller): void {
  if (access === 'everyone' || access === 'token') return;
  if (caller.peerType !== undefined && access.includes(caller.peerType)) return;
  const { peer_type: claim } = caller.claims;
  if (caller.peerType !== undefined) {
    throw notPermitted(`Incorrect 'peer_type' claim: ${caller.peerType}, expected: ${access.join(' or ')}`);
  }
  throw notPermitted(claim === undefined ? "Missing 'peer_type' claim" : `Invalid 'peer_type' claim: ${shown(claim)}`);
}

/**
 * Throws `unauthorized` when a caller whose token has `permitted_topics` publishes on another topic. Topics are compared exactly
 * as they were sent, before each stands for those above it (opal-protocol P2.3).
 */
export function authorizeTopics(topics: readonly string[], permitted: ReadonlySet<string> | undefined): void {
  if (permitted === undefined) return;
  const others = [...new Set(topics.filter((topic) => !permitted.has(topic)))];
  if (others.length === 0) return;
  const named = others.slice(0, NAMED_TOPICS).map((topic) => `'${shown(topic)}'`);
  throw notPermitted(`Invalid 'topics' to publish {${named.join(', ')}}`, 'topic_not_permitted');
}

/**
 * Throws `path_not_permitted` when a caller whose token has `permitted_paths` publishes anywhere but at and below these. Paths are compared
 * segment by segment in their normal form.
 */
export function authorizePaths(paths: readonly DocPath[], permitted: readonly DocPath[] | undefined): void {
  if (permitted === undefined) return;
  const others = paths.filter((path) => !isPermittedPath(path, permitted));
  if (others.length === 0) return;
  const named = [...new Set(others.slice(0, NAMED_TOPICS).map((path) => `'${shown(docPathText(path))}'`))];
  const text = `Invalid 'dst_path' to publish {${named.join(', ')}}`;
  throw new SyncError('path_not_permitted', text, { detail: { error: text } });
}

/** Whether a path is at or below one of those that are permitted; undefined: any is. */
export function isPermittedPath(path: DocPath, permitted: readonly DocPath[] | undefined): boolean {
  return permitted === undefined || permitted.some((ancestor) => isAtOrBelow(path, ancestor));
}

function notPermitted(text: string, code: ErrorCode = 'unauthorized'): SyncError {
  return new SyncError(code, text, { detail: { error: text } });
}

function shown(value: unknown): string {
  return String(typeof value === 'object' ? typeof value : value).slice(0, SHOWN_CHARACTERS);
}
