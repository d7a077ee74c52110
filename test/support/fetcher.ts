import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { readdir } from 'node:fs/promises';
import type { FetchProvider, FetchRequest } from '../../src/client/fetch/provider.js';
import { createFetcher, type Fetcher, type FetcherOptions } from '../../src/client/fetch/providers.js';
import { createSpool } from '../../src/client/fetch/spool.js';
import { SyncError } from '../../src/lib/errors.js';
import { silentLogger } from '../../src/lib/observe/log.js';
import { tempDir } from './temp-dir.js';

/** A fetcher of one provider with a spool folder of its own. `await using` closes it and removes the folder. */
export interface TestFetcher extends AsyncDisposable, Fetcher {
  /** What is in the spool folder. */
  files(): Promise<string[]>;
}

/** A {@link TestFetcher}; `limitBytes` is the longest document that it takes. */
export async function startFetcher(
  provider: FetchProvider,
  { limitBytes, ...options }: Partial<FetcherOptions> & { limitBytes: number },
): Promise<TestFetcher> {
  const folder = await tempDir();
  const fetcher = createFetcher(
    { totalTimeoutMs: 20_000, concurrency: 6, perHost: 4, ...options },
    { providers: [provider], spool: await createSpool({ dir: folder.path, limitBytes }), log: silentLogger() },
  );
  return {
    ...fetcher,
    files: () => readdir(folder.path),
    [Symbol.asyncDispose]: async () => {
      await fetcher.close();
      await folder[Symbol.asyncDispose]();
    },
  };
}

/** The text that a read gave; its hash is that of the text. */
export async function textOf(fetcher: Fetcher, request: FetchRequest): Promise<string> {
  const result = await fetcher.fetch(request, new AbortController().signal);
  assert.equal(result.outcome, 'body');
  await using body = result.body;
  assert.equal(body.hash, createHash('sha256').update(body.text()).digest('hex'));
  return body.text();
}

/** The error that a read ended with. */
export async function failureOf(read: Promise<unknown>): Promise<SyncError> {
  try {
    await read;
  } catch (error) {
    assert(error instanceof SyncError, String(error));
    return error;
  }
  throw new Error('expected a failure');
}
