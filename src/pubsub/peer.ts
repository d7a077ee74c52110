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
