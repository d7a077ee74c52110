import { type ErrorCode, SyncError } from '../lib/errors.js';
import { type DocPath, docPathText, isAtOrBelow } from '../wire/doc-path.js';
import { type Caller, type GuardedAudience, type Holders, isInsider, isOneOf } from './caller.js';

/** Most topics, or paths, that the error names. */
const NAMED_TOPICS = 10;
/** Longest part of a foreign text that is shown. */
const SHOWN_CHARACTERS = 100;

/**
 * Throws `unauthorized` if the valid token of a caller is not of a type that the route accepts, and
 * `token_limited` if the route has nothing for limited tokens. The status is 401 and the text as
 * OPAL's, whose users script against it (opal-protocol P2.3).
 */
export function authorize({ access, limited }: GuardedAudience, caller: Caller): void {
  authorizeType(access, caller);
  if (limited !== 'nothing' || isInsider(access, caller)) return;
  throw notPermitted('the token is limited to topics or paths, and this concerns all of them', 'token_limited');
}

function authorizeType(access: Holders, caller: Caller): void {
  if (access === 'token' || isOneOf(access, caller)) return;
  const { peerType } = caller;
  const { peer_type: claim } = caller.claims;
  if (peerType !== undefined) {
    throw notPermitted(`Incorrect 'peer_type' claim: ${peerType}, expected: ${access.join(' or ')}`);
  }
  throw notPermitted(claim === undefined ? "Missing 'peer_type' claim" : `Invalid 'peer_type' claim: ${shown(claim)}`);
}

/**
 * Throws `unauthorized` if the token has `permitted_topics` and the update another topic. Topics
 * are compared exactly as they were sent, before they are expanded (opal-protocol P2.3).
 */
export function authorizeTopics(topics: readonly string[], permitted: ReadonlySet<string> | undefined): void {
  if (permitted === undefined) return;
  const others = [...new Set(topics.filter((topic) => !permitted.has(topic)))];
  if (others.length === 0) return;
  const named = others.slice(0, NAMED_TOPICS).map((topic) => `'${shown(topic)}'`);
  throw notPermitted(`Invalid 'topics' to publish {${named.join(', ')}}`, 'topic_not_permitted');
}

/**
 * Throws `path_not_permitted` if the token has `permitted_paths` and the update a path that is not
 * at or below one of them. Paths are compared segment by segment in their normal form.
 */
export function authorizePaths(paths: readonly DocPath[], permitted: readonly DocPath[] | undefined): void {
  if (permitted === undefined) return;
  const others = paths.filter((path) => !isPermittedPath(path, permitted));
  if (others.length === 0) return;
  const named = [...new Set(others.slice(0, NAMED_TOPICS).map((path) => `'${shown(docPathText(path))}'`))];
  const text = `Invalid 'dst_path' to publish {${named.join(', ')}}`;
  throw new SyncError('path_not_permitted', text, { detail: { error: text } });
}

/** Whether a path is at or below one of those that are permitted; undefined: any path is. */
export function isPermittedPath(path: DocPath, permitted: readonly DocPath[] | undefined): boolean {
  return permitted === undefined || permitted.some((ancestor) => isAtOrBelow(path, ancestor));
}

function notPermitted(text: string, code: ErrorCode = 'unauthorized'): SyncError {
  return new SyncError(code, text, { detail: { error: text } });
}

function shown(value: unknown): string {
  return String(typeof value === 'object' ? typeof value : value).slice(0, SHOWN_CHARACTERS);
}
