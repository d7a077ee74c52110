import { parentPort, workerData } from 'node:worker_threads';
import { EngineRefusal } from '../vocabulary.js';
import type { GoHost, HostResponse } from './go-host.js';
import type { FromGoWorker, GoWorkerData, ToGoWorker } from './go-messages.js';
import { GoOpa } from './go-opa.js';

/** The thread of OPA's Go code in its process (go-child.ts). */

interface Fetching {
  resolve(response: HostResponse): void;
  reject(error: Error): void;
}

function send(message: FromGoWorker, transfer: ArrayBuffer[] = []): void {
  parentPort?.postMessage(message, transfer);
}

/** Sends requests of policies through the client. */
class ClientHost implements GoHost {
  readonly #fetching = new Map<number, Fetching>();
  #next = 0;

  fetch(request: Parameters<GoHost['fetch']>[0], signal: AbortSignal): Promise<HostResponse> {
    const id = this.#next++;
    return new Promise((resolve, reject) => {
      this.#fetching.set(id, { resolve, reject });
      signal.addEventListener('abort', () => {
        if (this.#fetching.delete(id)) send({ kind: 'fetchAborted', id });
        reject(new Error('aborted'));
      });
      send({ kind: 'fetch', id, request });
    });
  }

  settle(message: Extract<ToGoWorker, { kind: 'fetched' | 'fetchFailed' }>): void {
    const fetching = this.#fetching.get(message.id);
    this.#fetching.delete(message.id);
    if (message.kind === 'fetched') fetching?.resolve(message.response);
    else fetching?.reject(new Error(message.message));
  }
}

async function answer(opa: GoOpa, { id, name, args }: Extract<ToGoWorker, { kind: 'call' }>): Promise<void> {
  try {
    const call = opa[name] as (...all: readonly unknown[]) => Promise<unknown>;
    const value = await call.call(opa, ...args);
    send({ kind: 'result', id, value, memoryBytes: opa.memoryBytes }, buffersOf(value));
  } catch (error) {
    if (!(error instanceof EngineRefusal)) return; // the program has ended, which is told once for all calls
    const { message, problems } = error;
    send({ kind: 'refused', id, message, problems, memoryBytes: opa.memoryBytes });
  }
}

/** The bytes of a result, which move instead of being copied. */
function buffersOf(value: unknown): ArrayBuffer[] {
  const { wasm, body } = (value ?? {}) as { wasm?: Uint8Array; body?: Uint8Array };
  return [wasm, body].flatMap((bytes) => (bytes instanceof Uint8Array ? [bytes.buffer as ArrayBuffer] : []));
}

async function main({ program, memoryLimitBytes, hasHost }: GoWorkerData): Promise<void> {
  const host = new ClientHost();
  const opa = await GoOpa.start({ program, memoryLimitBytes, host: hasHost ? host : undefined });
  void opa.ended.then(({ message, isCrash }) => send({ kind: 'ended', reason: message, isCrash }));
  parentPort?.on('message', (message: ToGoWorker) => {
    if (message.kind === 'call') void answer(opa, message);
    else host.settle(message);
  });
  send({ kind: 'ready', version: opa.version, memoryBytes: opa.memoryBytes });
}

await main(workerData as GoWorkerData);
