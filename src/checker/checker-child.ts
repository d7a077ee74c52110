import { Worker } from 'node:worker_threads';
import { EngineArtifact } from '../embedded/artifact.js';
import { errorText } from '../lib/errors.js';
import type { CheckAnswer, FromChecker, ToChecker } from './messages.js';

/**
 * The process that compiles policies (checker-process.ts): its thread runs OPA's Go code, and this
 * one watches its memory.
 */

/** Go's calls are nested on this stack; deep policies need more than a thread has by default. */
const STACK_MB = 16;
/** The thread keeps little in V8's heap: texts. What is watched is the process. */
const HEAP_MB = 4096;
const WATCH_EVERY_MS = 20;

/**
 * An orderly exit would wait for V8, which compiles the program; there is nothing here to end in
 * order.
 */
function end(): void {
  process.kill(process.pid, 'SIGKILL');
}

/** The caller ends the process when an answer is a failure. */
function answer(message: CheckAnswer): void {
  const { rss } = process.memoryUsage;
  if (process.connected) process.send?.({ ...message, memoryBytes: rss() } satisfies FromChecker);
}

/** Nobody listens before the first question: what fails before is its answer. */
const state: { isAsked: boolean; failure: string | undefined } = { isAsked: false, failure: undefined };

function failed(reason: string): void {
  state.failure ??= reason;
  if (state.isAsked) answer({ kind: 'failed', reason: state.failure });
}

async function main(): Promise<void> {
  process.title = 'policysync-check';
  // The server ends this process; a signal to the whole group is for the server.
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => undefined);
  process.on('disconnect', end);
  if (!process.connected) end(); // the server was gone before this listened
  const worker = new Worker(new URL('./checker-worker.js', import.meta.url), {
    name: 'opa',
    env: {},
    resourceLimits: { stackSizeMb: STACK_MB, maxOldGenerationSizeMb: HEAP_MB },
  });
  worker.on('error', (error) => failed(errorText(error)));
  worker.on('exit', (code) => failed(`the thread of OPA's Go code ended with code ${code}`));
  let watch: NodeJS.Timeout | undefined;
  worker.on('message', (message: CheckAnswer) => {
    clearInterval(watch);
    answer(message);
  });
  process.on('message', ({ job, memoryLimitBytes }: ToChecker) => {
    state.isAsked = true;
    if (state.failure !== undefined) return failed(state.failure);
    watch = setInterval(() => {
      if (process.memoryUsage.rss() <= memoryLimitBytes) return;
      clearInterval(watch);
      failed(`it takes more than ${Math.round(memoryLimitBytes / 2 ** 20)} MiB of memory`);
    }, WATCH_EVERY_MS);
    worker.postMessage({ job });
  });
  worker.postMessage({ program: await new EngineArtifact().load() });
}

try {
  await main();
} catch (error) {
  failed(errorText(error));
}
