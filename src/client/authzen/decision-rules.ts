import * as z from 'zod';
import { parseJson } from '../../lib/json/json.js';

/**
 * The members of a request by which a rule is chosen. Undefined: the request does not have it (an
 * action search has no action).
 */
export interface RuleSubject {
  readonly subjectType: string;
  readonly action: string | undefined;
  readonly resourceType: string;
}

/** One row of a mapping: which rule of the policy answers the requests that have these values. */
export interface DecisionRule {
  /** Path of the rule below `data`: `authzen/allow`. */
  readonly path: string;
  readonly subject_type?: string | undefined;
  readonly action?: string | undefined;
  readonly resource_type?: string | undefined;
}

/** A mapping; the first row that fits counts, and the last one fits everything. */
export type DecisionRules = readonly DecisionRule[];

/** Most rows of a mapping. */
const MAX_RULES = 1000;

/** No text of a request ever becomes part of a path, and no segment needs an escape. */
const rulePath = z
  .string()
  .regex(
    /^[A-Za-z0-9_-]{1,100}(\/[A-Za-z0-9_-]{1,100}){1,20}$/,
    'must be the path of a rule such as authzen/allow: package and rule, of letters, digits, _ and -, with / between them',
  )
  .refine((path) => !path.startsWith('data/'), 'must be the path below data: authzen/allow, without data/ in front');

const condition = z.string().min(1).max(1000).optional();

const rule = z.strictObject({ path: rulePath, subject_type: condition, action: condition, resource_type: condition });

/** Value of a mapping setting, read by {@link rulesText}. */
export const decisionRules = z
  .array(rule)
  .min(1, 'must have at least one row')
  .max(MAX_RULES)
  .superRefine((rows, context) => {
    const [last] = rows.slice(-1);
    if (last !== undefined && hasCondition(last)) {
      context.addIssue('the last row must have a path only, for all requests that no other row fits');
    }
    const always = rows.slice(0, -1).findIndex((row) => !hasCondition(row));
    if (always !== -1) context.addIssue(`row ${always} fits every request, so that no row after it counts`);
  });

/** As {@link decisionRules}, for a search of actions: there is no action to choose by. */
export const actionSearchRules = decisionRules.refine(
  (rows) => rows.every(({ action }) => action === undefined),
  'a row must have no action: an action search asks for actions',
);

/**
 * Reads the text of a mapping setting before its schema: a text that is no JSON list is the path of
 * one rule.
 */
export function rulesText(text: string): unknown {
  const trimmed = text.trim();
  return trimmed.startsWith('[') ? parseJson(trimmed) : [{ path: trimmed }];
}

/** The path of the rule that answers a request. */
export function pathOf(mapping: DecisionRules, request: RuleSubject): string {
  const found = mapping.find((row) => fits(row, request));
  if (found === undefined) throw new Error('the last row of a mapping fits everything');
  return found.path;
}

function hasCondition({ subject_type, action, resource_type }: DecisionRule): boolean {
  return subject_type !== undefined || action !== undefined || resource_type !== undefined;
}

function fits({ subject_type, action, resource_type }: DecisionRule, request: RuleSubject): boolean {
  return (
    (subject_type === undefined || subject_type === request.subjectType) &&
    (action === undefined || action === request.action) &&
    (resource_type === undefined || resource_type === request.resourceType)
  );
}
