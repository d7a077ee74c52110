/** Why a client is away, in the words that people read. */

/** Its server stopped, or was killed. */
export const SERVER_STOPPED = 'its server stopped';

/**
 * How one of our clients ends that was asked to stop. `goodbye`: nobody has to expect it back.
 * `leaves_engine`: its engine goes on deciding with what it has, and nobody watches it.
 */
export type Farewell = 'goodbye' | 'leaves_engine';

/**
 * The close code of each: of the range for private use (RFC 6455); an older server takes it for any
 * other code.
 */
export const FAREWELL_CODES: Readonly<Record<Farewell, number>> = { goodbye: 4000, leaves_engine: 4001 };

/** Close codes (RFC 6455) of a peer that goes: normal, going away, no code. */
const GOODBYES = [1000, 1001, 1005];
/** The connection ended without a closing handshake. */
const BROKEN = 1006;

/** Why a connection ended that the server did not end, by the code of its `close` event. */
export function closedByPeer(code: number): string {
  if (code === FAREWELL_CODES.leaves_engine) return 'it was stopped, and its engine went on with what it has';
  if (code === BROKEN) return 'its connection broke: its program was killed, or the network failed';
  return GOODBYES.includes(code) ? 'it closed the connection' : `it closed the connection with code ${code}`;
}
