import { Worker } from 'node:worker_threads';
import { errorCode, errorText } from '../../lib/errors.js';
import { parseJson } from '../../lib/json/json.js';
import { EngineArtifact } from '../artifact.js';
import type { FromGoChild, FromGoWorker, GoCallName, GoSetup, GoWorkerData, ToGoWorker } from './go-messages.js';

/**
 * The process of OPA's Go code (go-process.ts): runs the thread of the program, passes messages on,
 * and watches its memory.
 */

/** Go's calls are nested on this stack; deep documents need more than a thread has by default. */
const STACK_MB = 16;
const WATCH_EVERY_MS = 20;
/**
 * What the process may take beyond Go's memory and what it had before: V8 compiles on while it
 * runs.
 */
const BESIDE_BYTES = 128 * 1024 * 1024;

function send(message: FromGoChild): void {
  if (process.connected) process.send?.(message);
}

/**
 * An orderly exit would wait for seconds while V8 compiles the program; there is nothing here to
 * end in order.
 */
function end(): void {
  process.kill(process.pid, 'SIGKILL');
}

/**
 * Calls that evaluate or compile a policy: their arguments are small, and what they take is up to
 * who wrote it.
 */
const WATCHED: ReadonlySet<GoCallName> = new Set(['decide', 'query', 'http', 'compile']);

/**
 * Watches the memory of the process while a policy is evaluated or compiled to WebAssembly: Go's
 * own limit is looked at after calls only, and one of them could take 4 GiB before. A process that
 * has more than a quarter beyond the limit ends. Documents and policies on their way in have copies
 * beside Go's memory, so nobody looks meanwhile.
 */
class MemoryWatch {
  readonly #limitBytes: number;
  /** Whether each call under way is watched. */
  readonly #calls = new Map<number, boolean>();
  #goBytes = 0;
  /** What the process has beside Go's memory. */
  #besideBytes = 0;
  #timer: NodeJS.Timeout | undefined;

  constructor(memoryLimitBytes = Number.POSITIVE_INFINITY) {
    this.#limitBytes = 1.25 * memoryLimitBytes + BESIDE_BYTES;
  }

  sent(message: ToGoWorker): void {
    if (message.kind !== 'call') return;
    if (this.#calls.size === 0) this.#besideBytes = process.memoryUsage.rss() - this.#goBytes;
    this.#calls.set(message.id, WATCHED.has(message.name));
    if (WATCHED.has(message.name)) this.#timer ??= setInterval(() => this.#look(), WATCH_EVERY_MS);
  }

  received(message: FromGoWorker): void {
    if ('memoryBytes' in message) this.#goBytes = message.memoryBytes;
    if (message.kind !== 'result' && message.kind !== 'refused') return;
    this.#calls.delete(message.id);
    if (this.#calls.size > 0) return;
    clearInterval(this.#timer);
    this.#timer = undefined;
  }

  #look(): void {
    if ([...this.#calls.values()].includes(false)) return;
    if (process.memoryUsage.rss() - this.#besideBytes <= this.#limitBytes) return;
    clearInterval(this.#timer);
    if (process.connected)
      process.send?.({ kind: 'ended', reason: 'out of memory', isCrash: false } satisfies FromGoChild, end);
  }
}

async function main(setup: GoSetup): Promise<void> {
  process.title = 'policysync-opa';
  // The client ends this process; a signal to the whole group is for the client.
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => undefined);
  process.on('disconnect', end);
  if (!process.connected) end(); // the client was gone before this listened
  const workerData: GoWorkerData = { ...setup, program: await new EngineArtifact().load() };
  const worker = new Worker(new URL('./go-worker.js', import.meta.url), {
    name: 'opa',
    workerData,
    env: {},
    resourceLimits: { stackSizeMb: STACK_MB },
  });
  const watch = new MemoryWatch(setup.memoryLimitBytes);
  worker.on('message', (message: FromGoWorker) => {
    watch.received(message);
    send(message);
  });
  worker.on('error', (error) =>
    send({ kind: 'ended', reason: `the thread of OPA's Go code failed: ${errorText(error)}`, isCrash: false }),
  );
  worker.on('exit', (code) =>
    send({ kind: 'ended', reason: `the thread of OPA's Go code ended with code ${code}`, isCrash: false }),
  );
  process.on('message', (message: ToGoWorker) => {
    watch.sent(message);
    worker.postMessage(message);
  });
}

try {
  await main(parseJson(process.argv[2] ?? '{}') as GoSetup);
} catch (error) {
  const isUnusable = errorCode(error) === 'engine_artifact_invalid';
  send(
    isUnusable
      ? { kind: 'unusable', message: errorText(error) }
      : { kind: 'ended', reason: errorText(error), isCrash: false },
  );
}
