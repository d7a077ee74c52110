import { CompiledPolicy } from '../../src/embedded/compiled/compiled-policy.js';
import { EvaluationError } from '../../src/embedded/compiled/evaluation-error.js';
import type { GoOpa } from '../../src/embedded/go/go-opa.js';
import type { CompiledSet, EmbeddedPolicy } from '../../src/embedded/types.js';
import { EngineRefusal } from '../../src/embedded/vocabulary.js';
import type { ConformanceCase } from './cases.js';
import type { Outcome } from './judge.js';

/** A case, and the folder that tells its modules from those of the others. */
export interface LoadedCase {
  readonly one: ConformanceCase;
  readonly folder: string;
}

/** How a case was answered. */
export interface Answered {
  readonly by: 'compiled' | 'go';
  /** Why Go answered. */
  readonly reason: string | undefined;
  readonly outcome: Outcome;
  /** What Go says to the same path, where the answer is compiled; both must be the same text. */
  readonly go?: Outcome;
}

/** Much more than the cases need. */
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

/**
 * Answers cases, loaded as one policy, with the parts of the embedded engine, and chooses between them as it does. Where the policy is
 * refused, each is loaded alone.
 */
export async function answerCases(go: GoOpa, cases: readonly LoadedCase[]): Promise<Answered[]> {
  try {
    return await answerLoaded(go, cases);
  } catch (error) {
    if (!(error instanceof EngineRefusal)) throw error;
    if (cases.length === 1)
      return [{ by: 'go', reason: ASKED_OTHERWISE.refused, outcome: { problems: error.problems } }];
    const answers: Answered[] = [];
    for (const one of cases) answers.push(...(await answerCases(go, [one])));
    return answers;
  } finally {
    await go.abort();
  }
}

async function answerLoaded(go: GoOpa, cases: readonly LoadedCase[]): Promise<Answered[]> {
  const documents = joined(cases);
  await go.prepare(policyOf(cases), { roots: [[]], documents });
  const paths = cases.flatMap(({ one }) => pathOf(one)?.path ?? []);
  const set: CompiledSet =
    paths.length === 0 ? { wasm: undefined, entrypoints: [] } : await go.compile(paths, 'prepared');
  await go.commit();
  const policy = set.wasm === undefined ? undefined : compiledPolicy(go, set, documents);
  const answers: Answered[] = [];
  for (const { one } of cases) answers.push(await answerCase(go, one, set, policy));
  return answers;
}

async function answerCase(
  go: GoOpa,
  one: ConformanceCase,
  set: CompiledSet,
  policy: CompiledPolicy | undefined,
): Promise<Answered> {
  const { inputTerm, strictError, query, input } = one;
  const byQuery = async (reason: string): Promise<Answered> => {
    const text = inputTerm === undefined ? query : `${query} with input as ${inputTerm}`;
    const outcome = outcomeOf(async () => ({ bindings: await go.query(text, input, strictError === true) }));
    return { by: 'go', reason, outcome: await outcome };
  };
  const asked = pathOf(one);
  if (inputTerm !== undefined) return byQuery(ASKED_OTHERWISE.term);
  if (asked === undefined) return byQuery(ASKED_OTHERWISE.query);
  if (strictError === true) return byQuery(ASKED_OTHERWISE.strict);
  const { path, variable } = asked;
  const decide = (): Promise<Outcome> => outcomeOf(async () => bindingOf(variable, await go.decide(path, input)));
  const entrypoint = set.entrypoints.find((found) => found.path === path);
  if (policy === undefined || entrypoint?.compiled !== true)
    return { by: 'go', reason: entrypoint?.reason ?? 'no reason', outcome: await decide() };
  try {
    const text = policy.evaluate(path, input);
    return { by: 'compiled', reason: undefined, outcome: bindingOf(variable, text), go: await decide() };
  } catch (error) {
    if (!(error instanceof EvaluationError) || error.isBroken) throw error;
    return { by: 'go', reason: ASKED_OTHERWISE.erred, outcome: await decide() };
  }
}

function compiledPolicy(go: GoOpa, { wasm, entrypoints }: CompiledSet, documents: string): CompiledPolicy {
  const policy = new CompiledPolicy(new WebAssembly.Module(wasm ?? new Uint8Array()), {
    callBuiltin: (name, args, isFresh) => go.callBuiltin(name, args, isFresh),
    reads: new Map(entrypoints.map(({ path, reads }) => [path, reads])),
    memoryLimitBytes: MEMORY_LIMIT,
    documentBytes: documents.length,
  });
  policy.setDocuments(documents);
  return policy;
}

function policyOf(cases: readonly LoadedCase[]): EmbeddedPolicy {
  const modules = cases.flatMap(({ one, folder }) =>
    one.modules.map((rego, i) => ({ path: `${folder}test-${i}.rego`, rego, version: 1 as const })),
  );
  return { hash: '', modules };
}

/** The documents of all cases in one object; their names differ. */
function joined(cases: readonly LoadedCase[]): string {
  const parts = cases.flatMap(({ one: { data } }) => (data === undefined ? [] : data.trim().slice(1, -1)));
  return `{${parts.filter((part) => part.trim() !== '').join()}}`;
}

function pathOf({ query }: ConformanceCase): { path: string; variable: string } | undefined {
  const [, dotted, variable] = PATH_QUERY.exec(query) ?? [];
  if (dotted === undefined || variable === undefined) return undefined;
  return { path: dotted.slice(1).replaceAll('.', '/'), variable };
}

function bindingOf(variable: string, text: string | undefined): Outcome {
  return { bindings: text === undefined ? '[]' : `[{${JSON.stringify(variable)}:${text}}]` };
}

async function outcomeOf(ask: () => Promise<Outcome>): Promise<Outcome> {
  try {
    return await ask();
  } catch (error) {
    if (!(error instanceof EngineRefusal)) throw error;
    return { problems: error.problems };
  }
}
