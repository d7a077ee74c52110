import { createHash } from 'node:crypto';
import { SyncError } from '../../../lib/errors.js';

/** For `Retry-After`: the keeper tries to reconnect every few seconds. */
const RETRY_AFTER_SECONDS = 2;

/**
 * `backbone_unavailable`: no response, or a late one. `what` names the backbone without its
 * secrets.
 */
export function unavailable(what: string, reason: string, cause?: unknown): SyncError {
  return new SyncError('backbone_unavailable', messageOf(what, reason), {
    cause,
    retryable: true,
    retryAfterSeconds: RETRY_AFTER_SECONDS,
  });
}

/** `presence_unavailable`: the log works, and what instances tell each other beside it does not. */
export function presenceUnavailable(what: string, reason: string, cause?: unknown): SyncError {
  return new SyncError('presence_unavailable', messageOf(what, reason), { cause, retryable: true });
}

/**
 * `backbone_replaced`: the backbone no longer holds the log that this instance has read (design
 * D25).
 */
export function replaced(what: string, reason: string): SyncError {
  return new SyncError('backbone_replaced', messageOf(what, reason), { retryable: true });
}

/** `log_conflict`: the expectation of an append does not hold. */
export function conflict(what: string): SyncError {
  return new SyncError('log_conflict', messageOf(what, 'another instance appended a row first'), { retryable: true });
}

/** `log_unwritable`: the backbone responded, and has written nothing. */
export function unwritable(what: string, cause: unknown): SyncError {
  return new SyncError('log_unwritable', `${what} refused to write`, { cause, retryable: true });
}

/**
 * `log_damaged`: a row where the next one belongs, which another program wrote. `id` is its name in
 * the backbone.
 */
export function rowAfterHead(id: string | number): SyncError {
  const text = `record ${id} of the update log comes after its last one: another program wrote it, and nothing can be appended`;
  return new SyncError('log_damaged', text);
}

/** The seq of the last row as a backbone tells it; 0: there is none. Throws `log_damaged`. */
export function headOf(what: string, told: string | number | null | undefined): number {
  const head = Number(told ?? 0);
  if (Number.isSafeInteger(head) && head >= 0) return head;
  const text = `${what}: the head of the update log is no place of a row: ${String(told).slice(0, 100)}`;
  throw new SyncError('log_damaged', text);
}

/** A reason may be the text of an error that names the backbone already. */
function messageOf(what: string, reason: string): string {
  return reason.startsWith(`${what}: `) ? reason : `${what}: ${reason}`;
}

/** A `dedup` text as a key of bounded length, in characters that every backbone accepts. */
export function shortKey(text: string): string {
  return createHash('sha256').update(text).digest('hex');
}
