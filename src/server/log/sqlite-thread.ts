import { once } from 'node:events';
import { Worker } from 'node:worker_threads';
import { SyncError } from '../../lib/errors.js';
import type { Expectation, NewRow, RowFilter, ScanFrom } from './log-store.js';

/** Result of the opening. */
export interface OpenedStore {
  epoch: string;
  /** Highest assigned seq. */
  head: number;
  /** Why committed rows may be lost; undefined if they are durable. */
  weakness: string | undefined;
}

/** Requests to the worker. */
export type StoreRequest =
  | { op: 'head' }
  | { op: 'load'; after: number; through: number; limit: number }
  | { op: 'append'; rows: readonly NewRow[]; expect: Expectation | undefined; nowMs: number }
  | { op: 'probe'; bytes: number }
  | { op: 'read'; after: number; limit: number }
  | { op: 'scan'; from: ScanFrom; limit: number; filter: RowFilter }
  | { op: 'retire'; seqs: readonly number[]; nowMs: number }
  | { op: 'dropRetired'; beforeMs: number; nowMs: number }
  | { op: 'close' };

/** A reply of the worker; the first one, without a request, is the result of the opening. */
export type StoreReply = { ok: true; value: unknown } | { ok: false; message: string; code: string | undefined };

/** The worker of an embedded store, so that a disk flush never stops the event loop. */
export interface StoreThread {
  readonly opened: OpenedStore;
  /** Rejects when the worker ends before {@link close}. Otherwise never settles. Has a handler already. */
  readonly failed: Promise<never>;
  /** Resolves with the result of the request (sqlite-worker.ts). Rejects with `log_unwritable` or `log_conflict`. */
  ask(request: Exclude<StoreRequest, { op: 'close' }>): Promise<unknown>;
  /** Ends the worker, and releases the lock of the file. */
  close(): Promise<void>;
}

interface Waiting {
  resolve(value: unknown): void;
  reject(error: SyncError): void;
}

/**
 * Starts the worker, which opens or creates the store. Rejects with `state_dir_in_use` if another server has it open, `log_damaged` if the
 * file is not a readable store, otherwise with `log_unwritable`.
 */
export async function openThread(file: string, nowMs: number): Promise<StoreThread> {
  const worker = new Worker(new URL('./sqlite-worker.js', import.meta.url), { workerData: { file, nowMs } });
  // The worker replies in the order of the requests; the first reply is its opening.
  const line: Waiting[] = [];
  let ended: SyncError | undefined;
  let closing: Promise<void> | undefined;
  let fail: (error: SyncError) => void = () => undefined;
  const failed = new Promise<never>((_resolve, reject) => {
    fail = reject;
  });
  failed.catch(() => undefined); // only those who use it handle it

  function settle(reply: StoreReply): void {
    const waiting = line.shift();
    if (line.length === 0) worker.unref();
    if (reply.ok) waiting?.resolve(reply.value);
    else waiting?.reject(storeError(file, reply));
  }
  function end(error: SyncError): void {
    ended ??= error;
    for (const waiting of line.splice(0)) waiting.reject(ended);
    if (closing === undefined) fail(ended);
  }
  worker.on('message', settle);
  worker.on('error', (cause) => end(new SyncError('log_unwritable', `the update log ${file} failed`, { cause })));
  worker.on('exit', () => {
    const why = closing !== undefined ? 'is closed' : 'failed: its thread ended; restart the server';
    end(new SyncError('log_unwritable', `the update log ${file} ${why}`));
  });

  function reply(): Promise<unknown> {
    return new Promise((resolve, reject) => {
      worker.ref();
      line.push({ resolve, reject });
    });
  }
  async function close(): Promise<void> {
    const exit = once(worker, 'exit');
    worker.ref();
    worker.postMessage({ op: 'close' } satisfies StoreRequest);
    await exit;
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
    ask(request) {
      if (ended !== undefined) return Promise.reject(ended);
      if (closing !== undefined) {
        return Promise.reject(new SyncError('log_unwritable', `the update log ${file} is closed`));
      }
      worker.postMessage(request);
      return reply();
    },
    close() {
      if (ended !== undefined) return Promise.resolve();
      closing ??= close();
      return closing;
    },
  };
}

function storeError(file: string, reply: Extract<StoreReply, { ok: false }>): SyncError {
  const cause = new Error(reply.code === undefined ? reply.message : `${reply.message} (${reply.code})`);
  const code = reply.code ?? '';
  if (code === 'CONFLICT') return new SyncError('log_conflict', reply.message);
  if (/^SQLITE_(BUSY|LOCKED)/.test(code)) {
    return new SyncError('state_dir_in_use', `another server has the update log ${file} open`, { cause });
  }
  if (/^SQLITE_(CORRUPT|NOTADB|SCHEMA)/.test(code)) {
    return new SyncError('log_damaged', `the update log ${file} cannot be read`, { cause });
  }
  return new SyncError('log_unwritable', `the update log ${file} cannot be used`, { cause, retryable: true });
}
