/**
 * Why a compiled evaluation gave no answer: what the policy or a built-in function says (`policy`:
 * conflicts, errors that end an evaluation), documents or an input that it may take for something
 * else (`documents`, `input`), a path that is not compiled (`entrypoint`), the memory limit
 * (`memory`), anything else that ends WebAssembly code (`trap`).
 */
export type EvaluationProblem = 'policy' | 'documents' | 'input' | 'entrypoint' | 'memory' | 'trap';

/**
 * A compiled evaluation without an answer: OPA's Go code may have one. After `isBroken` nothing
 * more can be asked of this instance, and its documents are lost.
 */
export class EvaluationError extends Error {
  readonly problem: EvaluationProblem;
  readonly isBroken: boolean;

  constructor(problem: EvaluationProblem, message: string, options: { isBroken?: boolean; cause?: unknown } = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.name = 'EvaluationError';
    this.problem = problem;
    this.isBroken = options.isBroken ?? false;
  }
}
