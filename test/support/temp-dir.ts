import { mkdtemp, realpath, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** A folder of its own for one test; `await using` removes it. */
export interface TempDir extends AsyncDisposable {
  readonly path: string;
}

/** Makes an empty temporary folder. Its path has no symbolic links, so that it compares equal to what programs print. */
export async function tempDir(): Promise<TempDir> {
  const path = await realpath(await mkdtemp(join(tmpdir(), 'policysync-test-')));
  return {
    path,
    // Retries: a program that was just ended may still be closing a file in it.
    [Symbol.asyncDispose]: () => rm(path, { recursive: true, force: true, maxRetries: 5 }),
  };
}
