import type { Writable } from 'node:stream';

/**
 * The one place that ends a process. `process.exit` drops what a pipe has not taken yet, and
 * whoever reads it gets the beginning with the exit code of the whole.
 */

/** Where a program prints. */
interface Printed {
  readonly stdout: Writable;
  readonly stderr: Writable;
}

/**
 * Ends the program with a code, once all that it has printed is where it goes. A reader that has
 * gone away ends the wait.
 */
export async function endProgram(code: number, { stdout, stderr }: Printed): Promise<void> {
  await Promise.all([written(stdout), written(stderr)]);
  process.exit(code);
}

/** Ends the program for somebody who does not want to wait any more. */
export function endAtOnce(code: number): never {
  process.exit(code);
}

function written(stream: Writable): Promise<void> {
  return new Promise((resolve) => {
    if (stream.writableLength === 0 || stream.destroyed) {
      resolve();
      return;
    }
    stream.on('error', () => resolve());
    stream.write('', () => resolve());
  });
}
