import type { GoProgram } from '../artifact.js';
import type { CompiledEntrypoint, Evaluator } from '../types.js';
import { EvaluatorThread } from './evaluator-thread.js';
import { LocalEvaluator } from './local-evaluator.js';

/** Options of {@link startEvaluator}. */
export interface EvaluatorOptions {
  /**
   * `main`: the caller's own, without a time limit, where the policy calls no built-in function of
   * Go.
   */
  readonly thread: 'worker' | 'main';
  readonly memoryLimitBytes: number;
  readonly timeLimitMs: number;
  /** Asked for if the policy calls built-in functions of Go. */
  readonly loadProgram: () => Promise<GoProgram>;
}

/** What an evaluator is started with. */
export interface EvaluatorContent {
  readonly wasm: Uint8Array;
  /** All documents: one JSON object. */
  readonly documents: string;
  /** For what they read: one that is not among them may read all documents. */
  readonly entrypoints?: readonly CompiledEntrypoint[];
}

/** Starts an evaluator. Rejects if the policy or its documents cannot be loaded. */
export async function startEvaluator(
  { thread, ...options }: EvaluatorOptions,
  { wasm, documents, entrypoints = [] }: EvaluatorContent,
): Promise<Evaluator> {
  const module = await WebAssembly.compile(wasm);
  const reads = new Map(entrypoints.map((one) => [one.path, one.reads]));
  const content = { ...options, module, documents, reads };
  return thread === 'main' && LocalEvaluator.canRun(module)
    ? new LocalEvaluator(content)
    : EvaluatorThread.start(content);
}
