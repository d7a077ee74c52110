import { type ErrorCode, errorText, SyncError } from '../../lib/errors.js';
import { type AuthzenDecision, decisionOf } from './answer.js';
import { type DecisionRules, pathOf } from './decision-rules.js';
import { type Evaluation, type EvaluationItem, inputOf, type Semantic } from './request.js';

/**
 * Asks the engine for the value of a rule, as JSON text; undefined: it has none. Rejects where
 * there is no answer: with `decision_failed` where the policy fails on this input.
 */
export type AskPolicy = (path: string, input: string) => Promise<string | undefined>;

/** What makes one evaluation fail; any other failure is one of the whole request. */
const OF_ONE: ReadonlySet<ErrorCode> = new Set(['decision_failed', 'decision_result_invalid']);

/**
 * Asks so that a failure has a status of AuthZEN: 500 where the policy fails, and otherwise 503, to
 * be asked again. Neither is a denial.
 */
export function withStatus(ask: AskPolicy): AskPolicy {
  return async (path, input) => {
    try {
      return await ask(path, input);
    } catch (error) {
      if (!(error instanceof SyncError)) throw error;
      const { code, message, cause, retryAfterSeconds = 1 } = error;
      if (OF_ONE.has(code)) throw new SyncError(code, message, { cause, status: 500 });
      throw new SyncError(code, message, { cause, status: 503, retryable: true, retryAfterSeconds });
    }
  };
}

/** Evaluations of one request that are asked at a time. */
const AT_ONCE = 16;

/**
 * Answers one evaluation. Rejects where the policy has no usable answer, or the engine gives none.
 */
export async function evaluate(rules: DecisionRules, ask: AskPolicy, evaluation: Evaluation): Promise<AuthzenDecision> {
  const { subject, action, resource } = evaluation;
  const path = pathOf(rules, { subjectType: subject.kind, action: action.kind, resourceType: resource.kind });
  return decisionOf(path, await ask(path, inputOf(evaluation)));
}

/**
 * Answers the evaluations of one request, in order. What is wrong with one of them is `false` with
 * `context.error`, and counts as a denial; where the engine gives no answer, the whole request
 * rejects, since nothing is known then. Ends early if the caller is gone.
 */
export async function evaluateAll(
  { semantic, items }: { readonly semantic: Semantic; readonly items: readonly EvaluationItem[] },
  one: (evaluation: Evaluation) => Promise<AuthzenDecision>,
  gone?: AbortSignal,
): Promise<AuthzenDecision[]> {
  const answer = (item: EvaluationItem): Promise<AuthzenDecision> | AuthzenDecision =>
    'problem' in item ? failed(400, item.problem) : one(item).catch(ownFailure);
  /** The decision that ends the request. */
  const last = semantic === 'execute_all' ? undefined : semantic === 'permit_on_first_permit';
  const atOnce = last === undefined ? AT_ONCE : 1;
  const decisions: AuthzenDecision[] = [];
  for (let at = 0; at < items.length && gone?.aborted !== true; at += atOnce) {
    decisions.push(...(await Promise.all(items.slice(at, at + atOnce).map(answer))));
    if (last !== undefined && decisions.at(-1)?.decision === last) break;
  }
  return decisions;
}

/** A failure of one evaluation; any other is one of the whole request. */
function ownFailure(error: unknown): AuthzenDecision {
  if (error instanceof SyncError && OF_ONE.has(error.code)) return failed(500, errorText(error));
  throw error;
}

function failed(status: number, message: string): AuthzenDecision {
  return { decision: false, context: { error: { status, message } } };
}
