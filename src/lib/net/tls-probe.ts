import { once } from 'node:events';
import { TLSSocket } from 'node:tls';
import { causesOf } from '../errors.js';
import { withAnySignal } from '../run/async.js';
import type { Dial } from './connect.js';
import { isTlsRefusal, PLAIN_TO_TLS } from './connect-failure.js';

/** Time for the handshake. */
const PROBE_MS = 3_000;

/**
 * Returns why a request to an `http:` or `ws:` URL failed: an error with the code
 * {@link PLAIN_TO_TLS} where the other side closed the connection without an answer, and takes a
 * TLS handshake; otherwise `cause`. Sends nothing else, and never rejects.
 */
export async function plainFailure(cause: unknown, url: string, dial: Dial, signal?: AbortSignal): Promise<unknown> {
  if (!/^(http|ws):/.test(url) || !isClosed(cause) || signal?.aborted === true) return cause;
  const secure = new URL(url.replace(/^(http|ws):/, 'wss:'));
  if (secure.port === '') secure.port = '80';
  const ends = signal === undefined ? [] : [signal];
  if (!(await withAnySignal(ends, (within) => takesTls(secure, dial, within), PROBE_MS))) return cause;
  return Object.assign(new Error('it closed the plain connection'), { code: PLAIN_TO_TLS });
}

/** Whether the connection ended in place of a response of HTTP. */
function isClosed(cause: unknown): boolean {
  return [...causesOf(cause)].some(
    (at) => 'code' in at && /^(ECONNRESET|EPIPE|UND_ERR_SOCKET|HPE_\w+)$/.test(String(at.code)),
  );
}

async function takesTls(url: URL, dial: Dial, signal: AbortSignal): Promise<boolean> {
  try {
    const socket = await dial(url, signal);
    // After the end of the wait, too.
    socket.on('error', () => undefined);
    try {
      if (!(socket instanceof TLSSocket)) return false;
      await once(socket, 'secureConnect', { signal });
      return true;
    } finally {
      socket.destroy();
    }
  } catch (error) {
    return isTlsRefusal(error); // anything else only says that there is no TLS either
  }
}
