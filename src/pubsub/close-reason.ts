/** Why a client is away, in the words that people read. */

/** Its server stopped, or was killed. */
export const SERVER_STOPPED = 'its server stopped';

/**
 * Close code by which one of our clients says goodbye: it was asked to stop, and nobody has to expect it back. Of the range for private use
 * (RFC 6455); an older server takes it for any other code.
 */
export const GOODBYE_CODE = 4000;

/** Close codes (RFC 6455) of a peer that goes: normal, going away, no code. */
const GOODBYES = [1000, 1001, 1005];
/** The connection ended without a closing handshake. */
const BROKEN = 1006;

/** Why a connection ended that the server did not end, by the code of its `close` event. */
export function closedByPeer(code: number): string {
  if (code === BROKEN) return 'its connection broke: its program was killed, or the network failed';
  return GOODBYES.includes(code) ? 'it closed the connection' : `it closed the connection with code ${code}`;
}
