import { Socket } from 'node:net';
import type { Endpoint } from '../../lib/net/tls.js';
import { answerLookup, type CheckedAddress, type OutboundGate } from './gate.js';

/**
 * Creates a socket that connects only to these addresses, whatever its host; accepts the path of a
 * Unix socket unchanged.
 */
export function checkedSocket(addresses: readonly CheckedAddress[]): Socket {
  const socket = new Socket();
  const open = socket.connect.bind(socket);
  const connect = (place: number | string, host?: string): Socket => {
    if (typeof place === 'string') return open({ path: place });
    return open({
      port: place,
      host: host ?? '',
      lookup: (_host, options, callback) => answerLookup(addresses, options.all === true, callback),
    });
  };
  return Object.assign(socket, { connect });
}

/**
 * Opens a connection that the gate allows. Rejects with `address_refused`, the error of the
 * connection, or the signal's reason.
 */
export async function connectChecked(gate: OutboundGate, place: Endpoint, signal: AbortSignal): Promise<Socket> {
  const addresses = await gate.addresses(place);
  signal.throwIfAborted();
  const socket = checkedSocket(addresses);
  const onAbort = (): void => void socket.destroy(signal.reason instanceof Error ? signal.reason : undefined);
  signal.addEventListener('abort', onAbort, { once: true });
  try {
    await new Promise<void>((resolve, reject) => {
      socket
        .once('connect', resolve)
        .once('error', reject)
        .once('close', () => reject(signal.reason));
      socket.connect(place.port, place.host);
    });
    return socket;
  } finally {
    signal.removeEventListener('abort', onAbort);
  }
}
