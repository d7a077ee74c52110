import type { IncomingMessage } from 'node:http';
import * as z from 'zod';
import { timerMs } from '../lib/timer.js';

/** Who is at the other end of a socket and what it may do, as authentication found out. */
export interface Peer {
  /** Subject of its token; null where authentication is off. */
  readonly subject: string | null;
  /** Topics that it may subscribe to and publish on; undefined: any. */
  readonly permittedTopics: ReadonlySet<string> | undefined;
  /** Documents at and below which it may publish, as segments; undefined: any. */
  readonly permittedPaths: readonly (readonly string[])[] | undefined;
  /** Whether it may publish on other topics than those of statistics. */
  readonly mayPublish: boolean;
  /** When its token ends, in milliseconds since 1970; then it is disconnected. Undefined: never. */
  readonly expiresAtMs: number | undefined;
}

/** A peer of a server that asks for no token. */
export const ANY_PEER: Peer = {
  subject: null,
  permittedTopics: undefined,
  permittedPaths: undefined,
  mayPublish: true,
  expiresAtMs: undefined,
};

/** Calls back once the clock shows `timeMs`. Answers how to take that back. */
export function atTime(timeMs: number, callback: () => void): () => void {
  let timer: NodeJS.Timeout;
  const arm = (): void => {
    const leftMs = timeMs - Date.now();
    timer = leftMs > 0 ? setTimeout(arm, timerMs(Math.ceil(leftMs))) : setTimeout(callback, 0);
  };
  arm();
  return () => clearTimeout(timer);
}

/** One connection, for those who want to know who is there. */
export interface PeerInfo {
  /** Channel id of our side. */
  readonly id: string;
  /** Id that the client gave itself: in the query of the upgrade, or where it announced itself for statistics. */
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

/** Where OPAL's clients say who they are, when statistics are on there (opal-protocol P1.7). */
export const ANNOUNCE_TOPIC = '__opal_stats_add';
/** Query parameter by which a client may name itself (opal-protocol P1.6). */
const CLIENT_ID_PARAMETER = '__opal_client_id';
/** Longer names are cut: they only serve to be shown. */
const MAX_NAME = 256;
/** Parameters of an upgrade that are remembered. */
const MAX_PARAMETERS = 16;

const announcement = z.object({ client_id: z.string(), rpc_id: z.string().nullish() });

/** What a peer says of itself with a publish on {@link ANNOUNCE_TOPIC}; undefined where it is not as documented. */
export function announcedBy(dataText: string): { clientId: string; rpcId: string | undefined } | undefined {
  let value: unknown;
  try {
    value = JSON.parse(dataText);
  } catch {
    return undefined; // Nothing depends on it.
  }
  const parsed = announcement.safeParse(value);
  if (!parsed.success) return undefined;
  return { clientId: parsed.data.client_id.slice(0, MAX_NAME), rpcId: parsed.data.rpc_id?.slice(0, MAX_NAME) };
}

/** Shared by all that have no query. */
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

/** One of our own clients at the other end of a socket, as far as those who speak with it beyond pub/sub need it. */
export interface SessionPeer {
  /** Of this connection, not of the client. */
  readonly id: string;
  readonly info: PeerInfo;
  /** Sends a request; nobody waits for its answer. */
  tell(method: string, args: object): void;
  /** Pings it: true when anything comes from it within the time. */
  isAlive(timeoutMs: number): Promise<boolean>;
  /** Ends the connection at once. */
  drop(reason: string): void;
}

/** Speaks with our own clients beyond pub/sub; what is said is opaque here (`wire/session.ts`). */
export interface SessionHandler {
  /** Version of the protocol from which peers understand it; for all others this is never called. */
  readonly protocol: number;
  /**
   * Looks at the arguments of a `subscribe` before it is carried out. Undefined: it is a plain one. Otherwise the `result` to
   * answer; `subscribe` carries it out, and answers false where the peer may not.
   */
  open(
    peer: SessionPeer,
    args: Readonly<Record<string, unknown>>,
    subscribe: () => boolean,
  ): Promise<object> | undefined;
  /** Whether there is such a method. */
  takes(method: string): boolean;
  /** Carries out one of its methods at once; false: refused. */
  call(peer: SessionPeer, method: string, args: Readonly<Record<string, unknown>>): boolean;
  /** The connection has ended; called once for each, also for those that opened no session. */
  closed(peer: SessionPeer): void;
}
