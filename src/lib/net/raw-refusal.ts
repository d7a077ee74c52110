import { STATUS_CODES } from 'node:http';
import type { SyncError } from '../errors.js';

/** What a refusal says; a {@link SyncError} has it all. */
type Refusal = Pick<SyncError, 'status'> &
  Partial<Pick<SyncError, 'code' | 'message' | 'detail' | 'retryAfterSeconds'>>;

/**
 * The bytes of an HTTP response that refuses what never became a request: it cannot be parsed, or
 * wants another protocol. It has what every refusal has, a `detail` and the code in `x-sync-error`,
 * and ends the connection.
 */
export function rawRefusal({ status, code, message, detail, retryAfterSeconds }: Refusal): string {
  const name = STATUS_CODES[status] ?? '';
  const body = JSON.stringify({ detail: detail ?? message ?? name });
  const lines = [
    `HTTP/1.1 ${status} ${name}`,
    'Connection: close',
    'Content-Type: application/json',
    `Content-Length: ${Buffer.byteLength(body)}`,
    ...(code === undefined ? [] : [`X-Sync-Error: ${code}`]),
    ...(status === 401 ? ['WWW-Authenticate: Bearer'] : []),
    ...(retryAfterSeconds === undefined ? [] : [`Retry-After: ${Math.ceil(retryAfterSeconds)}`]),
  ];
  return `${lines.join('\r\n')}\r\n\r\n${body}`;
}
