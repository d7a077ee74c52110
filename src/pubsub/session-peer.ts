import type { PeerInfo } from './peer-info.js';

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
