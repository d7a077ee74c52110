import type { IncomingMessage, Server } from 'node:http';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { Server as TlsServer } from 'node:tls';

/** Takes the `upgrade` event of an `http.Server`. */
export type UpgradeHandler = (request: IncomingMessage, socket: Duplex, head: Buffer) => void;

/**
 * Options of an `http.Server` whose Node asks about each upgrade (22.21, 24.9 and newer; older ones
 * ignore the option): only what {@link onWebSocketUpgrade} handles is an upgrade.
 */
export function upgradeOptions(server: () => Server): object {
  return {
    shouldUpgradeCallback: (request: IncomingMessage) =>
      server().listenerCount('upgrade') > 0 && offersWebSocket(request),
  };
}

function offersWebSocket({ headers }: IncomingMessage): boolean {
  return /\bwebsocket\b/i.test(headers.upgrade ?? '');
}

/**
 * Hands upgrades to WebSocket to the handler, and serves every other request with an `Upgrade`
 * header as if it had none, as a server does that does not know the other protocol (RFC 9110, 7.8).
 * Java's HTTP client, for one, offers `h2c` with its requests; an older Node passes all of them to
 * the listener for upgrades. The server must be made with {@link upgradeOptions}.
 */
export function onWebSocketUpgrade(server: Server, handle: UpgradeHandler): void {
  server.on('upgrade', (request: IncomingMessage, socket: Socket, head: Buffer) => {
    if (offersWebSocket(request)) handle(request, socket, head);
    else serveWithoutUpgrade(server, request, socket, head);
  });
}

/**
 * Puts the request, without the offer, back before the unread bytes, and serves the connection
 * anew.
 */
function serveWithoutUpgrade(server: Server, request: IncomingMessage, socket: Socket, head: Buffer): void {
  const { method, url, httpVersion, rawHeaders, headers } = request;
  const lines = [`${method} ${url} HTTP/${httpVersion}`];
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const isOffer = /^(upgrade|connection|http2-settings)$/i.test(rawHeaders[at] ?? '');
    if (!isOffer) lines.push(`${rawHeaders[at]}: ${rawHeaders[at + 1]}`);
  }
  if (/\bclose\b/i.test(headers.connection ?? '')) lines.push('Connection: close');
  socket.unshift(Buffer.concat([Buffer.from(`${lines.join('\r\n')}\r\n\r\n`, 'latin1'), head]));
  server.emit(server instanceof TlsServer ? 'secureConnection' : 'connection', socket);
}
