import { parentPort, workerData } from 'node:worker_threads';
import type { GoProgram } from '../artifact.js';
import { CompiledPolicy } from '../compiled/compiled-policy.js';
import { EvaluationError } from '../compiled/evaluation-error.js';
import type { GoOpa } from '../go/go-opa.js';
import {
  type DecisionBatch,
  type EvaluatorAnswer,
  type EvaluatorCall,
  type EvaluatorFailure,
  type EvaluatorSetup,
  NEEDS_GO,
  SharedProgress,
} from './messages.js';

/** The worker thread of `evaluator-thread.ts`. Carries out calls one by one, in order. */

/** Answers that are sent together: more would make the first of them wait for the last. */
const MOST_TOGETHER = 32;

function failure(error: unknown): EvaluatorFailure {
  const message = error instanceof Error ? error.message : String(error);
  if (!(error instanceof EvaluationError)) return { message, ends: 'crashed' };
  const { isBroken, problem } = error;
  const ends = isBroken ? (problem === 'memory' ? 'memory' : 'crashed') : undefined;
  return { message, ends, isOfDocuments: problem === 'documents' };
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
  readonly #progress: SharedProgress;
  #count = 0;

  constructor(policy: CompiledPolicy, progress: SharedProgress) {
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

/** Starts Go in this thread, with the program that the owner sends. */
async function startGo(memoryLimitBytes: number): Promise<GoOpa> {
  const { GoOpa: Go } = await import('../go/go-opa.js'); // most policies do not need it
  parentPort?.postMessage(NEEDS_GO);
  const program = await new Promise<GoProgram>((resolve) => {
    parentPort?.once('message', (message: { program: GoProgram }) => resolve(message.program));
  });
  const go = await Go.start({ program, memoryLimitBytes });
  void go.ended.then((failure) => {
    throw failure; // ends the thread
  });
  return go;
}

async function start({ module, documents, reads, memoryLimitBytes, progress }: EvaluatorSetup): Promise<Calls> {
  let go: GoOpa | undefined;
  const policy = new CompiledPolicy(module, {
    memoryLimitBytes,
    documentBytes: documents.length,
    reads,
    callBuiltin: (...call) => go?.callBuiltin(...call),
  });
  if (policy.needs.length > 0) go = await startGo(memoryLimitBytes);
  policy.setDocuments(documents);
  return new Calls(policy, new SharedProgress(progress));
}

async function main(setup: EvaluatorSetup): Promise<void> {
  let answer: EvaluatorAnswer;
  try {
    const calls = await start(setup);
    parentPort?.on('message', (call: EvaluatorCall) => calls.carryOut(call));
  } catch (error) {
    answer = { ...failure(error), ends: 'crashed' };
  }
  parentPort?.postMessage([answer]);
}

await main(workerData as EvaluatorSetup);
