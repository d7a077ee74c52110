import { sleep } from '../../lib/async.js';
import type { SeqByTopic } from '../position/position.js';

/** What a server of ours says when the topics are subscribed (wire/session.ts). */
export interface SessionStart {
  readonly epoch: string;
  /** Last seq of its log. */
  readonly head?: number | undefined;
  /** False: the position that was sent is none of this log. */
  readonly resumes?: boolean | undefined;
  /** Last seq by topic. */
  readonly heads: SeqByTopic;
  /** Time over which clients should spread their questions. */
  readonly spreadMs: number;
}

/** The connection that there is, or was last: what its server can do, and when it wants to be asked. */
export class ServerSession {
  #start: SessionStart | undefined;
  #isApart = false;
  /** Of `performance.now()`. */
  #notBefore = 0;

  /** What the server said when the connection began; undefined for one without sessions. */
  get start(): SessionStart | undefined {
    return this.#start;
  }

  /** The server keeps base entries and updates apart for us. */
  get isApart(): boolean {
    return this.#isApart;
  }

  /** A connection has begun. `isApart`: there is a way to ask for base entries and updates apart. */
  begin(start: SessionStart | undefined, isApart: boolean): void {
    this.#start = start;
    this.#isApart = start !== undefined && isApart;
  }

  /** Takes a random part of the time that the server names: a mass of clients must not ask all at once. */
  spread(spreadMs: number): void {
    this.#notBefore = performance.now() + Math.random() * spreadMs;
  }

  /** Waits until the server may be asked. */
  async turn(signal: AbortSignal): Promise<void> {
    const waitMs = this.#notBefore - performance.now();
    if (waitMs > 0) await sleep(waitMs, signal);
  }
}
