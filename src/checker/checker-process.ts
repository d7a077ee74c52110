import { type ChildProcess, fork } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { ARTIFACT } from '../embedded/artifact-sums.js';
import { withAnySignal } from '../lib/async.js';
import { childEnv } from '../lib/child-env.js';
import { errorText } from '../lib/errors.js';
import type { CheckAnswer, CheckerSetup, CheckJob } from './messages.js';

/** The engine that compiles: the same one gives the same answer. */
export const CHECKER = `OPA ${ARTIFACT.opaVersion}, ${ARTIFACT.wasmSha256.slice(0, 16)}`;

/** What one check may take. */
export interface CheckerLimits {
  readonly timeoutMs: number;
  /** Of the whole process. */
  readonly memoryBytes: number;
}

/**
 * Compiles a policy with OPA's own code, in a process that ends with the answer. Whatever keeps it from an answer, time and memory
 * included, is an answer, too. Rejects with the reason of the signal.
 */
export async function runChecker(
  job: CheckJob,
  { limits, env }: { readonly limits: CheckerLimits; readonly env: NodeJS.ProcessEnv },
  signal: AbortSignal,
): Promise<CheckAnswer> {
  signal.throwIfAborted();
  try {
    const child = startChild({ memoryLimitBytes: limits.memoryBytes }, env);
    const gone = exitOf(child);
    try {
      return await withAnySignal([signal], (either) => answerOf(child, gone, job, either), limits.timeoutMs);
    } finally {
      child.kill('SIGKILL');
      await gone;
    }
  } catch (error) {
    signal.throwIfAborted();
    const isLate = error instanceof DOMException && error.name === 'TimeoutError';
    return { kind: 'failed', reason: isLate ? `it takes longer than ${limits.timeoutMs / 1000} s` : errorText(error) };
  }
}

function startChild(setup: CheckerSetup, env: NodeJS.ProcessEnv): ChildProcess {
  return fork(fileURLToPath(new URL('./checker-child.js', import.meta.url)), [JSON.stringify(setup)], {
    serialization: 'advanced',
    execArgv: [],
    env: childEnv(env, 'engine'),
    stdio: ['ignore', 'ignore', 'ignore', 'ipc'],
  });
}

/** Resolves with how the process ended, or why it could not be started. */
function exitOf(child: ChildProcess): Promise<string> {
  return new Promise((resolve) => {
    child.once('exit', (code, signal) => resolve(`its process ended with ${signal ?? `code ${code}`}`));
    child.on('error', (error) => {
      if (child.pid === undefined) resolve(`its process could not be started: ${errorText(error)}`);
    });
  });
}

function answerOf(
  child: ChildProcess,
  gone: Promise<string>,
  job: CheckJob,
  signal: AbortSignal,
): Promise<CheckAnswer> {
  return new Promise((resolve, reject) => {
    signal.throwIfAborted();
    signal.addEventListener('abort', () => reject(signal.reason), { once: true });
    child.once('message', (answer: CheckAnswer) => resolve(answer));
    gone.then((reason) => resolve({ kind: 'failed', reason }), reject);
    child.send(job, (error) => {
      if (error !== null) resolve({ kind: 'failed', reason: `its process cannot be reached: ${errorText(error)}` });
    });
  });
}
