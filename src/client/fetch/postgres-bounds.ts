import type { Socket } from 'node:net';
import { SyncError } from '../../lib/errors.js';

/** Maximum bytes of one result, and of all reads together: `pg` buffers them in memory. */
const LIMIT_BYTES = { step: 128 * 1024 * 1024, all: 256 * 1024 * 1024 };
const LOOK_MS = 50;

/** The connection of one read. */
export interface BoundedRead {
  /** Starts to count the next statement. */
  next(): void;
  /** Why the connection was closed; undefined: it was not. */
  readonly excess: SyncError | undefined;
  end(): void;
}

interface Watched {
  readonly socket: Pick<Socket, 'bytesRead' | 'destroy'>;
  fromBytes: number;
  excess: SyncError | undefined;
}

/**
 * Closes connections to databases that send too much: an entry may name any address, and the server
 * there may send rows without end. If several exceed the total limit together, closes the largest.
 */
export class PostgresBounds {
  readonly #limits: typeof LIMIT_BYTES;
  readonly #reads = new Set<Watched>();
  #timer: NodeJS.Timeout | undefined;

  constructor(limits = LIMIT_BYTES) {
    this.#limits = limits;
  }

  watch(socket: Watched['socket']): BoundedRead {
    const read: Watched = { socket, fromBytes: 0, excess: undefined };
    this.#reads.add(read);
    this.#timer ??= setInterval(() => this.#look(), LOOK_MS);
    return {
      next: () => {
        read.fromBytes = socket.bytesRead;
      },
      get excess() {
        return read.excess;
      },
      end: () => {
        this.#reads.delete(read);
        if (this.#reads.size > 0) return;
        clearInterval(this.#timer);
        this.#timer = undefined;
      },
    };
  }

  #look(): void {
    const bySize = [...this.#reads].filter(({ excess }) => excess === undefined).sort((a, b) => sizeOf(b) - sizeOf(a));
    let all = bySize.reduce((sum, read) => sum + sizeOf(read), 0);
    for (const read of bySize) {
      const { step } = this.#limits;
      const size = sizeOf(read);
      if (size > step) cut(read, `the database answered one statement with more than ${step} bytes`, false);
      else if (all > this.#limits.all)
        cut(read, 'databases answer more at one time than this client has room for', true);
      else return;
      all -= size;
    }
  }
}

function sizeOf({ socket, fromBytes }: Watched): number {
  return socket.bytesRead - fromBytes;
}

function cut(read: Watched, why: string, retryable: boolean): void {
  read.excess = new SyncError('fetch_too_large', why, { retryable });
  read.socket.destroy(read.excess);
}
