import type { GoProgram } from '../artifact.js';
import type { Evaluator } from '../types.js';
import { EvaluatorThread } from './evaluator-thread.js';
import { LocalEvaluator } from './local-evaluator.js';

/** Options of {@link startEvaluator}. */
export interface EvaluatorOptions {
  /** `main`: the caller's own, without a time limit, where the policy calls no built-in function of Go. */
  readonly thread: 'worker' | 'main';
  readonly memoryLimitBytes: number;
  readonly timeLimitMs: number;
  /** Asked for if the policy calls built-in functions of Go. */
  readonly loadProgram: () => Promise<GoProgram>;
}

/** Starts an evaluator with a compiled policy and all documents (one JSON object). Rejects if they cannot be loaded. */
export async function startEvaluator(
  { thread, ...options }: EvaluatorOptions,
  { wasm, documents }: { readonly wasm: Uint8Array; readonly documents: string },
): Promise<Evaluator> {
  const module = await WebAssembly.compile(wasm);
  if (thread === 'main' && LocalEvaluator.canRun(module)) return new LocalEvaluator({ ...options, module, documents });
  return EvaluatorThread.start({ ...options, module, documents });
}
