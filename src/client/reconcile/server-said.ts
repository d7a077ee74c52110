import { sleep } from '../../lib/run/async.js';
import type { SeqByTopic } from '../position/position.js';

/**
 * What the client does when the server says something of its log, as a table without I/O: a
 * connection begins, a heartbeat or a notice of an update arrives, or such an update was taken in.
 */
export type Said = 'connected' | 'heartbeat' | 'update' | 'taken';

/** How what was said relates to what is known here. */
export interface Situation {
  /**
   * `apart`: base entries and updates are read each on their own; `whole`: all at once, of servers
   * without sessions.
   */
  readonly session: 'whole' | 'apart';
  /**
   * The log that it is of, compared with the one that is followed; `none`: it is of no log, or none
   * is followed.
   */
  readonly log: 'none' | 'same' | 'other';
  /**
   * In the same log, `behind`: updates are missing here; `read`: this very update was read before
   * its notice came; `gone_back`: the log does not have what was known of it; `unknown`: nothing to
   * compare.
   */
  readonly position: 'unknown' | 'current' | 'behind' | 'read' | 'gone_back';
  /** Updates are being read from the server. */
  readonly isReading: boolean;
}

export type DataAction =
  | 'ignore'
  /** Take the update in: at its place in the log, or at the next one here. */
  | 'take'
  | 'take_unplaced'
  /** Ask for the updates after the position. */
  | 'catch_up'
  /** Read the base entries: updates are complete. */
  | 'read_base'
  | 'read_all'
  /** The same, with the log as another one. */
  | 'rewind';

/** The cell of the table. */
export function actionFor(said: Said, { session, log, position, isReading }: Situation): DataAction {
  switch (said) {
    case 'connected':
      if (session === 'whole' || log !== 'same') return 'read_all';
      if (position === 'gone_back') return 'rewind';
      return position === 'current' ? 'read_base' : 'read_all';
    case 'heartbeat':
      if (session === 'whole') return 'ignore';
      // While the log is being read for the first time there is nothing to compare with.
      if (log !== 'same') return isReading ? 'ignore' : 'read_all';
      return position === 'behind' ? 'catch_up' : 'ignore';
    case 'update':
      // A server that retains nothing has no log; its updates count as they arrive.
      if (log === 'none') return 'take_unplaced';
      // Only reading the other log tells where the update belongs.
      if (log === 'other') return 'read_all';
      return position === 'read' ? 'ignore' : 'take';
    case 'taken':
      // A read under way looks for gaps at its end. A server without sessions is asked after each
      // reconnect.
      return session === 'apart' && log === 'same' && position === 'behind' && !isReading ? 'catch_up' : 'ignore';
  }
}

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

/**
 * The connection that there is, or was last: what its server can do, and when it wants to be asked.
 */
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

  /**
   * A connection has begun. `isApart`: there is a way to ask for base entries and updates apart.
   */
  begin(start: SessionStart | undefined, isApart: boolean): void {
    this.#start = start;
    this.#isApart = start !== undefined && isApart;
  }

  /**
   * Takes a random part of the time that the server names: a mass of clients must not ask all at
   * once.
   */
  spread(spreadMs: number): void {
    this.#notBefore = performance.now() + Math.random() * spreadMs;
  }

  /** Waits until the server may be asked. */
  async turn(signal: AbortSignal): Promise<void> {
    const waitMs = this.#notBefore - performance.now();
    if (waitMs > 0) await sleep(waitMs, signal);
  }
}
