import { once } from 'node:events';
import { Worker } from 'node:worker_threads';
import { SyncError } from '../../lib/errors.js';
import type { Row } from './row.js';

/** What one transaction changes. */
export interface StoreChange {
  insert: readonly Row[];
  /** Rows whose body is replaced (headers of a base entry). */
  replace: readonly Row[];
  /** Positions that the fold does not need any more; they stay for `tail` until they are dropped. */
  retire: readonly number[];
  timeMs: number;
  /** Some of the rows that were retired before this moment are dropped along the way. */
  dropRetiredBeforeMs: number;
}

/** What the worker is started with. */
export interface StoreOptions {
  file: string;
  /** Rows that were retired before this moment are dropped when the store opens. */
  dropRetiredBeforeMs: number;
}

/** What the worker answers when it has opened the store. */
export interface OpenedStore {
  epoch: string;
  /** Highest position ever given. */
  head: number;
  /** All rows that are not retired, in order. */
  rows: Row[];
}

/** What the worker is asked, by `op`. */
export type StoreRequest =
  | ({ op: 'write' } & StoreChange)
  | { op: 'tail'; after: number; limit: number }
  | { op: 'close' };

/** An answer of the worker; the first one, without request, is that it has opened the store or why not. */
export type StoreReply = { ok: true; value: unknown } | { ok: false; message: string; code: string | undefined };

/** The embedded store behind the log: SQL in a worker thread, so that a disk flush never stops the event loop. */
export interface Store {
  readonly opened: OpenedStore;
  /** Rejects when the worker ended unasked: nothing can be written or read any more. Otherwise never settles. */
  readonly failed: Promise<never>;
  /** Resolves when the change is durable. Rejects with `log_unwritable`; then nothing of it is there. */
  write(change: StoreChange): Promise<void>;
  /** Updates after a position, in order, retired ones too. */
  tail(after: number, limit: number): Promise<Row[]>;
  /** Ends the worker; the folder is free afterwards. */
  close(): Promise<void>;
}

interface Waiting {
  resolve(value: unknown): void;
  reject(error: SyncError): void;
}

/**
 * Opens the store, or makes it. Rejects with `state_dir_in_use` when another server has it open, `log_damaged` when the
 * file is not a readable store, otherwise with `log_unwritable`.
 */
export async function openStore(options: StoreOptions): Promise<Store> {
  const worker = new Worker(new URL('./sqlite-worker.js', import.meta.url), { workerData: options });
  // The worker answers in the order of the requests; the first in line is its opening.
  const line: Waiting[] = [];
  let ended: SyncError | undefined;
  let closing = false;
  let fail: (error: SyncError) => void = () => undefined;
  const failed = new Promise<never>((_resolve, reject) => {
    fail = reject;
  });
  failed.catch(() => undefined); // whoever wants to know asks; here it only must not count as unhandled

  function settle(reply: StoreReply): void {
    const waiting = line.shift();
    if (line.length === 0) worker.unref();
    if (reply.ok) waiting?.resolve(reply.value);
    else waiting?.reject(storeError(options.file, reply));
  }
  function end(error: SyncError): void {
    ended ??= error;
    for (const waiting of line.splice(0)) waiting.reject(ended);
    if (!closing) fail(ended);
  }
  worker.on('message', settle);
  worker.on('error', (cause) =>
    end(new SyncError('log_unwritable', `the update log ${options.file} failed`, { cause })),
  );
  worker.on('exit', () => {
    const why = closing ? 'is closed' : 'failed: its thread ended; restart the server';
    end(new SyncError('log_unwritable', `the update log ${options.file} ${why}`));
  });

  function reply(): Promise<unknown> {
    return new Promise((resolve, reject) => {
      worker.ref();
      line.push({ resolve, reject });
    });
  }
  function ask(request: StoreRequest): Promise<unknown> {
    if (ended !== undefined) return Promise.reject(ended);
    worker.postMessage(request);
    return reply();
  }

  let opened: OpenedStore;
  try {
    opened = (await reply()) as OpenedStore;
  } catch (error) {
    await worker.terminate();
    throw error;
  }
  return {
    opened,
    failed,
    async write(change) {
      await ask({ op: 'write', ...change });
    },
    async tail(after, limit) {
      return (await ask({ op: 'tail', after, limit })) as Row[];
    },
    async close() {
      if (ended !== undefined) return;
      closing = true;
      const exit = once(worker, 'exit');
      worker.ref();
      worker.postMessage({ op: 'close' } satisfies StoreRequest);
      await exit;
    },
  };
}

function storeError(file: string, reply: Extract<StoreReply, { ok: false }>): SyncError {
  const cause = new Error(reply.code === undefined ? reply.message : `${reply.message} (${reply.code})`);
  const code = reply.code ?? '';
  if (/^SQLITE_(BUSY|LOCKED)/.test(code)) {
    return new SyncError('state_dir_in_use', `another server has the update log ${file} open`, { cause });
  }
  if (/^SQLITE_(CORRUPT|NOTADB|SCHEMA)/.test(code)) {
    return new SyncError('log_damaged', `the update log ${file} cannot be read`, { cause });
  }
  return new SyncError('log_unwritable', `the update log ${file} cannot be used`, { cause, retryable: true });
}
