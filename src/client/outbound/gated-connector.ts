import { isIP } from 'node:net';
import type { buildConnector } from 'undici';
import { type ConnectOptions, httpConnector } from '../../lib/connect.js';
import { endpointOf } from '../../lib/proxy.js';
import type { OutboundGate } from './gate.js';

/** `connect` of an undici dispatcher for one origin: each connection goes to an address that the gate has checked. */
export function gatedConnector(gate: OutboundGate, options: ConnectOptions, origin: URL): buildConnector.connector {
  const place = endpointOf(origin);
  const connect = httpConnector({ ...options, lookup: gate.lookup(place.port) });
  // Names are checked when they are looked up; addresses are not looked up.
  if (isIP(place.host) === 0) return connect;
  return checkedConnector(async () => void (await gate.addresses(place)), connect);
}

/** `connect` that asks first, and fails with what `check` rejects with. */
export function checkedConnector(
  check: () => Promise<void>,
  connect: buildConnector.connector,
): buildConnector.connector {
  return (target, callback) => {
    check().then(
      () => connect(target, callback),
      (error: Error) => callback(error, null),
    );
  };
}
