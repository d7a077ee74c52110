import type { Server } from 'node:http';
import type { Drain } from '../http/drain.js';
import type { Logger } from '../lib/log.js';
import type { SocketServer } from '../pubsub/socket-server.js';

/** Time budget of one subscriber that arrives elsewhere, with its catch-up. */
const EACH_MS = 5;

/** How long to send this many subscribers away: as long as the others need to take them in, at most `maxMs`. */
export function drainSpreadMs(subscribers: number, maxMs: number): number {
  return Math.min(subscribers * EACH_MS, maxMs);
}

/**
 * What a server does before a graceful stop. Its readiness is false; for `drainDelayMs` it serves as usual, new subscribers included.
 * Then it refuses new subscribers and, where other instances share its log, sends away those that it has. Publishes and all other
 * requests are served throughout, and until the stop has closed the listener. Rejects when the signal aborts.
 */
export async function drainServer(
  { drainDelayMs, drainSpreadMs: maxMs }: { drainDelayMs: number; drainSpreadMs: number },
  deps: {
    readonly drain: Drain;
    readonly server: Server;
    readonly sockets: Pick<SocketServer, 'sendAway' | 'connectionCount'>;
    /** Streams of the fleet. */
    readonly streams: { end(): void };
    readonly isShared: boolean;
    /** Tells the other instances that this one drains. */
    readonly announce: () => void;
    readonly log: Logger;
  },
  signal: AbortSignal,
): Promise<void> {
  const { drain, server, sockets, streams, isShared, announce, log } = deps;
  log.info({ delay_ms: drainDelayMs, subscribers: sockets.connectionCount }, 'draining: GET /ready is 503');
  const begun = drain.begin(server, drainDelayMs, signal);
  announce();
  await begun;
  streams.end();
  // Subscribers of a lone server have nowhere to go: they wait less if they stay to the end.
  if (!isShared) return;
  const { connectionCount: subscribers } = sockets;
  const spreadMs = drainSpreadMs(subscribers, maxMs);
  if (subscribers > 0)
    log.info({ subscribers, spread_ms: spreadMs }, 'draining: subscribers are sent to other servers');
  await sockets.sendAway(spreadMs, signal);
}
