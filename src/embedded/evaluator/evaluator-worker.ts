import { parentPort, workerData } from 'node:worker_threads';
import { CompiledPolicy } from '../compiled/compiled-policy.js';
import { EvaluationError } from '../compiled/evaluation-error.js';
import {
  type DecisionBatch,
  type EvaluatorAnswer,
  type EvaluatorCall,
  type EvaluatorFailure,
  type EvaluatorSetup,
  Progress,
} from './messages.js';

/** The worker thread of `evaluator-thread.ts`. Carries out calls one by one, in order. */

/** Answers that are sent together: more would make the first of them wait for the last. */
const MOST_TOGETHER = 32;

function failure(error: unknown): EvaluatorFailure {
  const message = error instanceof Error ? error.message : String(error);
  if (!(error instanceof EvaluationError)) return { message, ends: 'crashed' };
  const { isBroken, problem } = error;
  return { message, ends: isBroken ? (problem === 'memory' ? 'memory' : 'crashed') : undefined };
}

function attempt(work: () => string | undefined): EvaluatorAnswer {
  try {
    return work();
  } catch (error) {
    return failure(error);
  }
}

class Calls {
  readonly #policy: CompiledPolicy;
  readonly #progress: Progress;
  #count = 0;

  constructor(policy: CompiledPolicy, progress: Progress) {
    this.#policy = policy;
    this.#progress = progress;
  }

  carryOut(call: EvaluatorCall): void {
    if ('patch' in call) this.#once(() => void this.#policy.patch(call.patch));
    else if ('read' in call) this.#once(() => this.#policy.read(call.read));
    else this.#decide(call);
    this.#progress.pages = this.#policy.memoryBytes / 65_536;
  }

  #once(work: () => string | undefined): void {
    this.#count++;
    parentPort?.postMessage([attempt(work)]);
  }

  #decide(batch: DecisionBatch): void {
    let answers: EvaluatorAnswer[] = [];
    for (let at = 0; at < batch.length; at += 2) {
      this.#progress.underWay = ++this.#count;
      answers.push(attempt(() => this.#policy.evaluate(batch[at] ?? '', batch[at + 1])));
      if (answers.length < MOST_TOGETHER) continue;
      parentPort?.postMessage(answers);
      answers = [];
    }
    this.#progress.underWay = 0;
    if (answers.length > 0) parentPort?.postMessage(answers);
  }
}

function main({ module, documents, memoryLimitBytes, progress }: EvaluatorSetup): void {
  let calls: Calls | undefined;
  const answer = attempt(() => {
    const policy = new CompiledPolicy(module, { memoryLimitBytes, documentBytes: documents.length });
    policy.setDocuments(documents);
    calls = new Calls(policy, new Progress(progress));
    return undefined;
  });
  parentPort?.on('message', (call: EvaluatorCall) => calls?.carryOut(call));
  parentPort?.postMessage([answer]);
}

main(workerData as EvaluatorSetup);
