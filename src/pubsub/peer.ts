import type { IncomingMessage } from 'node:http';
import * as z from 'zod';
import { parseJson } from '../lib/json/json.js';
import { timerMs } from '../lib/run/async.js';

/** The authenticated peer of a socket, and what it may do. */
export interface Peer {
  /** Subject of its token; null where authentication is off. */
  readonly subject: string | null;
  /** Topics that it may subscribe to and publish on; undefined: any. */
  readonly permittedTopics: ReadonlySet<string> | undefined;
  /** Documents at and below which it may publish, as segments; undefined: any. */
  readonly permittedPaths: readonly (readonly string[])[] | undefined;
  /** Whether it may publish on topics other than statistics. */
  readonly mayPublish: boolean;
  /**
   * When its token expires, and it is disconnected, in milliseconds since 1970. Undefined: never.
   */
  readonly expiresAtMs: number | undefined;
}

/** Every peer of a server without authentication. */
export const ANY_PEER: Peer = {
  subject: null,
  permittedTopics: undefined,
  permittedPaths: undefined,
  mayPublish: true,
  expiresAtMs: undefined,
};

/** Calls back when the clock reaches `timeMs`. Returns how to cancel that. */
export function atTime(timeMs: number, callback: () => void): () => void {
  let timer: NodeJS.Timeout;
  const arm = (): void => {
    const leftMs = timeMs - Date.now();
    timer = leftMs > 0 ? setTimeout(arm, timerMs(Math.ceil(leftMs))) : setTimeout(callback, 0);
  };
  arm();
  return () => clearTimeout(timer);
}

/** What is known of one connection. */
export interface PeerInfo {
  /** Channel id of our side. */
  readonly id: string;
  /**
   * Id that the client chose: in the query of the upgrade, or in its announcement for statistics.
   */
  readonly clientId: string | undefined;
  /** Subject of its token; null where it has none. */
  readonly subject: string | null;
  /** Channel id of the client's side, where it announced itself. */
  readonly rpcId: string | undefined;
  readonly host: string;
  readonly port: number;
  /** Milliseconds since 1970. */
  readonly connectedAtMs: number;
  readonly topics: readonly string[];
  readonly query: Readonly<Record<string, string>>;
  /** True when it speaks our extensions. */
  readonly extended: boolean;
  /** Version of our extensions that was negotiated; undefined: none. */
  readonly protocol: number | undefined;
}

/** Topic on which OPAL's clients announce themselves for statistics (opal-protocol P1.7). */
export const ANNOUNCE_TOPIC = '__opal_stats_add';
/** Query parameter with the id of a client (opal-protocol P1.6). */
const CLIENT_ID_PARAMETER = '__opal_client_id';
/** Longer names are cut: they are only shown. */
const MAX_NAME = 256;
/** Parameters of an upgrade that are kept. */
const MAX_PARAMETERS = 16;

const announcement = z.object({ client_id: z.string(), rpc_id: z.string().nullish() });

/**
 * The announcement of a peer on {@link ANNOUNCE_TOPIC}; undefined where it is not as documented.
 */
export function announcedBy(dataText: string): { clientId: string; rpcId: string | undefined } | undefined {
  let value: unknown;
  try {
    value = parseJson(dataText);
  } catch {
    return undefined; // Nothing depends on it.
  }
  const parsed = announcement.safeParse(value);
  if (!parsed.success) return undefined;
  return { clientId: parsed.data.client_id.slice(0, MAX_NAME), rpcId: parsed.data.rpc_id?.slice(0, MAX_NAME) };
}

/** Shared by all connections without a query. */
const NOTHING_ASKED = { query: {}, clientId: undefined };

/** The query of an upgrade request, bounded, and the client id in it. */
export function upgradeQuery(request: IncomingMessage): {
  query: Readonly<Record<string, string>>;
  clientId: string | undefined;
} {
  if (request.url?.includes('?') !== true) return NOTHING_ASKED;
  const parameters = [...new URL(request.url ?? '/', 'http://server').searchParams].slice(0, MAX_PARAMETERS);
  const query = Object.fromEntries(
    parameters.map(([name, value]) => [name.slice(0, MAX_NAME), value.slice(0, MAX_NAME)] as const),
  );
  return { query, clientId: query[CLIENT_ID_PARAMETER] };
}

/** The connection of one of our own clients, as sessions see it. */
export interface SessionPeer {
  /** Of this connection, not of the client. */
  readonly id: string;
  readonly info: PeerInfo;
  /** Sends a request without waiting for a response. */
  tell(method: string, args: object): void;
  /** Pings it; returns whether it responds in time. */
  isAlive(timeoutMs: number): Promise<boolean>;
  /** Ends the connection at once. */
  drop(reason: string): void;
}

/** Serves our own clients beyond pub/sub; the messages are opaque here (`wire/session.ts`). */
export interface SessionHandler {
  /** Lowest protocol version of the peers that it serves. */
  readonly protocol: number;
  /**
   * Handles a `subscribe`. Undefined: it is a plain one. Otherwise resolves with its `result`; the
   * callback subscribes, and returns false, or a text that says why, where the peer may not.
   */
  open(
    peer: SessionPeer,
    args: Readonly<Record<string, unknown>>,
    subscribe: () => boolean | string,
  ): Promise<object> | undefined;
  /** Whether there is such a method. */
  takes(method: string): boolean;
  /**
   * Runs one of its methods; returns false where it rejects the call. `bytes`: the size of the call
   * as it came, if that matters.
   */
  call(peer: SessionPeer, method: string, args: Readonly<Record<string, unknown>>, bytes?: number): boolean;
  /**
   * The connection has ended, and why; by a goodbye the client is not expected back. Called once
   * for each, with or without a session.
   */
  closed(peer: SessionPeer, why?: string, isGoodbye?: boolean): void;
}
