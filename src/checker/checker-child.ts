import { once } from 'node:events';
import { Worker } from 'node:worker_threads';
import { EngineArtifact } from '../embedded/artifact.js';
import { errorText } from '../lib/errors.js';
import type { CheckAnswer, CheckerSetup, CheckJob } from './messages.js';

/** The process that compiles one policy (checker-process.ts): its thread runs OPA's Go code, and this one watches its memory. */

/** Go's calls are nested on this stack; deep policies need more than a thread has by default. */
const STACK_MB = 16;
const WATCH_EVERY_MS = 20;

/** An orderly exit would wait for V8, which compiles the program; there is nothing here to end in order. */
function end(): void {
  process.kill(process.pid, 'SIGKILL');
}

/** The caller ends the process when it has the answer. */
function answer(message: CheckAnswer): void {
  if (process.connected) process.send?.(message);
}

async function main({ memoryLimitBytes }: CheckerSetup): Promise<void> {
  process.title = 'policysync-check';
  // The server ends this process; a signal to the whole group is for the server.
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => undefined);
  process.on('disconnect', end);
  if (!process.connected) end(); // the server was gone before this listened
  setInterval(() => {
    if (process.memoryUsage.rss() > memoryLimitBytes) {
      answer({ kind: 'failed', reason: `it takes more than ${Math.round(memoryLimitBytes / 2 ** 20)} MiB of memory` });
    }
  }, WATCH_EVERY_MS);
  const job = once(process, 'message') as Promise<[CheckJob]>;
  const worker = new Worker(new URL('./checker-worker.js', import.meta.url), {
    name: 'opa',
    env: {},
    resourceLimits: { stackSizeMb: STACK_MB, maxOldGenerationSizeMb: memoryLimitBytes / 2 ** 20 },
  });
  worker.on('message', answer);
  worker.on('error', (error) => answer({ kind: 'failed', reason: errorText(error) }));
  worker.on('exit', (code) =>
    answer({ kind: 'failed', reason: `the thread of OPA's Go code ended with code ${code}` }),
  );
  const program = await new EngineArtifact().load();
  worker.postMessage({ program, job: (await job)[0] });
}

try {
  await main(JSON.parse(process.argv[2] ?? '{}') as CheckerSetup);
} catch (error) {
  answer({ kind: 'failed', reason: errorText(error) });
}
