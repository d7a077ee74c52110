import { CompiledPolicy } from '../../src/embedded/compiled/compiled-policy.js';
import { EvaluationError } from '../../src/embedded/compiled/evaluation-error.js';
import type { GoOpa } from '../../src/embedded/go/go-opa.js';
import { type EmbeddedPolicy, GoRefusal } from '../../src/embedded/types.js';
import type { ConformanceCase } from './cases.js';
import type { Outcome } from './judge.js';

/** How a case was answered. */
export interface Answered {
  readonly by: 'compiled' | 'go';
  /** Why Go answered. */
  readonly reason: string | undefined;
  readonly outcome: Outcome;
  /** What Go says to the same path, where the answer is compiled; both must be the same text. */
  readonly go?: Outcome;
}

/** Much more than a case needs. */
const MEMORY_LIMIT = 256 * 1024 * 1024;

/** Reasons of the runner: what the product does with such questions, whatever the policy is. */
export const ASKED_OTHERWISE = {
  strict: 'strict errors of built-in functions are asked for (strict-builtin-errors)',
  query: 'an ad hoc query, not a path',
  term: 'the input is no JSON: OPA itself takes such a term in its tests only',
  erred: 'the compiled evaluation errs: Go has the exact error',
  refused: 'refused when the policy is loaded',
} as const;

const PATH_QUERY = /^\s*data((?:\.[A-Za-z_]\w*)+)\s*=\s*(?!input\b)([a-z]\w*)\s*$/;

/** Answers a case with the parts of the embedded engine, and chooses between them as it does. */
export async function answerCase(go: GoOpa, one: ConformanceCase): Promise<Answered> {
  try {
    return await answerLoaded(go, one);
  } catch (error) {
    if (!(error instanceof GoRefusal)) throw error;
    return { by: 'go', reason: ASKED_OTHERWISE.refused, outcome: { problems: error.problems } };
  } finally {
    await go.abort();
  }
}

async function answerLoaded(go: GoOpa, one: ConformanceCase): Promise<Answered> {
  const documents = one.data ?? '{}';
  await go.prepare(policyOf(one), { roots: [[]], documents });
  const [, dotted, variable] = PATH_QUERY.exec(one.query) ?? [];
  const path = dotted?.slice(1).replaceAll('.', '/');
  const set = path === undefined ? undefined : await go.compile([path], 'prepared');
  await go.commit();
  const query = async (): Promise<Outcome> => {
    try {
      const text = one.inputTerm === undefined ? one.query : `${one.query} with input as ${one.inputTerm}`;
      return { bindings: await go.query(text, one.input, one.strictError === true) };
    } catch (error) {
      if (!(error instanceof GoRefusal)) throw error;
      return { problems: error.problems };
    }
  };
  if (one.inputTerm !== undefined) return { by: 'go', reason: ASKED_OTHERWISE.term, outcome: await query() };
  if (path === undefined || variable === undefined || set === undefined)
    return { by: 'go', reason: ASKED_OTHERWISE.query, outcome: await query() };
  if (one.strictError === true) return { by: 'go', reason: ASKED_OTHERWISE.strict, outcome: await query() };
  const decide = async (): Promise<Outcome> => {
    try {
      return bindingOf(variable, await go.decide(path, one.input));
    } catch (error) {
      if (!(error instanceof GoRefusal)) throw error;
      return { problems: error.problems };
    }
  };
  const [entrypoint] = set.entrypoints;
  if (set.wasm === undefined || entrypoint?.compiled !== true)
    return { by: 'go', reason: entrypoint?.reason ?? 'no reason', outcome: await decide() };
  const policy = new CompiledPolicy(new WebAssembly.Module(set.wasm), {
    callBuiltin: (name, args, isFresh) => go.callBuiltin(name, args, isFresh),
    memoryLimitBytes: MEMORY_LIMIT,
    documentBytes: documents.length,
  });
  try {
    policy.setDocuments(documents);
    const text = policy.evaluate(path, one.input);
    return { by: 'compiled', reason: undefined, outcome: bindingOf(variable, text), go: await decide() };
  } catch (error) {
    if (!(error instanceof EvaluationError)) throw error;
    return { by: 'go', reason: ASKED_OTHERWISE.erred, outcome: await decide() };
  }
}

function policyOf({ modules }: ConformanceCase): EmbeddedPolicy {
  return { hash: '', modules: modules.map((rego, i) => ({ path: `test-${i}.rego`, rego, version: 1 })) };
}

function bindingOf(variable: string, text: string | undefined): Outcome {
  return { bindings: text === undefined ? '[]' : `[{${JSON.stringify(variable)}:${text}}]` };
}
