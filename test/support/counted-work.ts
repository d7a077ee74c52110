import { Socket } from 'node:net';
import { MessagePort, Worker } from 'node:worker_threads';

/** What code of this process did that costs by its size: calls, and the characters or bytes of all of them. */
export interface Work {
  readonly parsed: Amount;
  readonly stringified: Amount;
  /** Bytes that came from texts or from other buffers. */
  readonly copied: Amount;
  /** Handed to sockets, each of which is a system call. */
  readonly written: Amount;
  /** Messages to other threads. */
  readonly posted: Amount;
}

export interface Amount {
  readonly calls: number;
  readonly size: number;
}

/**
 * Counts from now on, for the rest of this process, which has to be one of its own. What is imported later must look the functions up
 * when it calls them. The returned function says what was done since it was called last.
 */
export function countWork(): () => Work {
  const kinds = ['parsed', 'stringified', 'copied', 'written', 'posted'] as const;
  const amounts = Object.fromEntries(kinds.map((kind) => [kind, { calls: 0, size: 0 }])) as Record<
    (typeof kinds)[number],
    { calls: number; size: number }
  >;
  const count = (kind: (typeof kinds)[number], size: number): void => {
    amounts[kind].calls += 1;
    amounts[kind].size += size;
  };
  /** Puts a function in place of one, which it calls; `size` of its arguments and result. */
  const watch = <K extends string>(
    owner: Record<K, unknown>,
    name: K,
    kind: (typeof kinds)[number],
    size: (given: readonly unknown[], result: unknown) => number,
  ): void => {
    const original = owner[name] as (...given: unknown[]) => unknown;
    owner[name] = function watched(this: unknown, ...given: unknown[]): unknown {
      const result = Reflect.apply(original, this, given);
      count(kind, size(given, result));
      return result;
    };
  };
  watch(JSON, 'parse', 'parsed', ([text]) => String(text).length);
  watch(JSON, 'stringify', 'stringified', (_, text) => (text === undefined ? 0 : String(text).length));
  for (const name of ['from', 'concat', 'copyBytesFrom'] as const)
    watch(Buffer, name, 'copied', (_, bytes) => lengthOf(bytes));
  watch(TextEncoder.prototype, 'encode', 'copied', (_, bytes) => lengthOf(bytes));
  const socket = Socket.prototype as unknown as Record<'_write' | '_writev', unknown>;
  watch(socket, '_write', 'written', ([chunk]) => lengthOf(chunk));
  watch(socket, '_writev', 'written', ([chunks]) =>
    (chunks as readonly { chunk: unknown }[]).reduce((sum, { chunk }) => sum + lengthOf(chunk), 0),
  );
  watch(Worker.prototype, 'postMessage', 'posted', () => 0);
  watch(MessagePort.prototype, 'postMessage', 'posted', () => 0);
  return () => {
    const work = structuredClone(amounts);
    for (const kind of kinds) Object.assign(amounts[kind], { calls: 0, size: 0 });
    return work;
  };
}

function lengthOf(part: unknown): number {
  if (typeof part === 'string') return Buffer.byteLength(part);
  return part instanceof Uint8Array ? part.byteLength : 0;
}
