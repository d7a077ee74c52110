import type { AskKind } from '../../wire/session.js';

const DONE: Readonly<Record<AskKind, string>> = {
  details: 'the client tells about itself',
  refresh: 'the client fetches policy and data again',
  prune: 'the client removed what the log does not know',
  drift_check: 'the client compares its engine with what it wrote',
  log_level: 'the client logs with this level until its next start',
};

/** What limited callers are told of an action: the words of the client may name any document, or quote a response from its network. */
export function plainText(kind: AskKind, isDone: boolean): string {
  return isDone ? DONE[kind] : 'the client could not do it; its log says why';
}
