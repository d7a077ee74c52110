import { Worker } from 'node:worker_threads';
import { errorCode, errorText } from '../../lib/errors.js';
import { parseJson } from '../../lib/json.js';
import { EngineArtifact } from '../artifact.js';
import type { FromGoChild, GoSetup, GoWorkerData } from './go-messages.js';

/** The process of OPA's Go code (go-process.ts): runs the thread of the program, and passes messages on. */

/** Go's calls are nested on this stack; deep documents need more than a thread has by default. */
const STACK_MB = 16;

function send(message: FromGoChild): void {
  if (process.connected) process.send?.(message);
}

/** An orderly exit would wait for seconds while V8 compiles the program; there is nothing here to end in order. */
function end(): void {
  process.kill(process.pid, 'SIGKILL');
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
  worker.on('message', send);
  worker.on('error', (error) =>
    send({ kind: 'ended', reason: `the thread of OPA's Go code failed: ${errorText(error)}` }),
  );
  worker.on('exit', (code) => send({ kind: 'ended', reason: `the thread of OPA's Go code ended with code ${code}` }));
  process.on('message', (message) => worker.postMessage(message));
}

try {
  await main(parseJson(process.argv[2] ?? '{}') as GoSetup);
} catch (error) {
  const isUnusable = errorCode(error) === 'engine_artifact_invalid';
  send(isUnusable ? { kind: 'unusable', message: errorText(error) } : { kind: 'ended', reason: errorText(error) });
}
