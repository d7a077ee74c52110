import fs from 'node:fs';

/** A pipe that is full takes more as soon as its reader reads: until then nothing else helps. */
const FULL_WAIT_MS = 10;

/**
 * Where a log is written: each text at once and whole, on the caller's thread. A reader that has gone away loses what comes after, and holds
 * up nobody (`flushSync` of sonic-boom 4, which pino writes with, would try for ever).
 */
export class LogOutput {
  readonly #fd: number;
  #isGone = false;

  constructor(fd: number) {
    this.#fd = fd;
  }

  write(text: string): void {
    if (this.#isGone) return;
    for (let left = Buffer.from(text); left.length > 0; ) {
      try {
        left = left.subarray(fs.writeSync(this.#fd, left));
      } catch (error) {
        const { code } = error as NodeJS.ErrnoException;
        if (code === 'EAGAIN') {
          Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, FULL_WAIT_MS);
          continue;
        }
        this.#isGone = code === 'EPIPE';
        return; // a full disk: what comes later may find room
      }
    }
  }

  /** Waits for the disk, where there is one. */
  sync(): void {
    try {
      fs.fsyncSync(this.#fd);
    } catch {
      // a pipe or a terminal
    }
  }
}
