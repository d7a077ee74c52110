import { errorText, SyncError } from '../../lib/errors.js';
import { shownUrl } from './http-rules.js';
import type { PostgresRequest } from './postgres-config.js';

/** What went wrong with a read of a database, in words that name it and show no password. */

/**
 * Classes of SQLSTATE that may pass by themselves: connection, rollback, resources, locks, the operator's doing (a statement
 * that took too long among them), system, internal. All others stay until somebody changes query, rights or data.
 */
const PASSING = ['08', '40', '53', '55', '57', '58', 'XX'];
const SQLSTATE = /^[0-9A-Z]{5}$/;
/** What `pg` says of an agreement with the server that is not possible; it has no codes for that. */
const NO_AGREEMENT = /^SASL|SSL connection/;

/** True when the server has no TLS. */
export function isWithoutTls(error: unknown): boolean {
  return error instanceof Error && error.message === 'The server does not support SSL connections';
}

/** The error for whatever connecting, a statement or the taking in of its rows threw. */
export function postgresFailure(url: string, request: PostgresRequest, cause: unknown, connectMs: number): SyncError {
  const name = shownUrl(url);
  if (cause instanceof SyncError) {
    return new SyncError(cause.code, `${name}: ${cause.message}`, { cause, retryable: cause.retryable });
  }
  const code = cause instanceof Error && 'code' in cause ? String(cause.code) : '';
  const isAnswer = SQLSTATE.test(code);
  let text = errorText(cause) || code;
  if (text === 'timeout expired') text = `no connection within ${connectMs / 1000} s`;
  if (isAnswer) text = `${text} (SQLSTATE ${code})`;
  const password = request.password?.reveal() ?? '';
  // No server sends it back; should one do so, it goes no further.
  if (password.length >= 4) text = text.replaceAll(password, '***');
  const retryable = isAnswer ? PASSING.includes(code.slice(0, 2)) : !NO_AGREEMENT.test(text);
  return new SyncError('fetch_failed', `${name}: ${text}`, { cause, retryable });
}
