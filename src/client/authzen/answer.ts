import { SyncError } from '../../lib/errors.js';
import { jsonString } from '../../lib/json/json.js';
import { elements, JsonText, jsonKind, members } from '../../lib/json/json-text.js';
import type { SearchKind } from './request.js';

/**
 * What the policy says is turned into responses here. Contexts and entities stay as the policy
 * wrote them.
 */

/** A Decision of the specification (section 5.5). */
export interface AuthzenDecision {
  readonly decision: boolean;
  /** An object. */
  readonly context?: JsonText | { readonly error: { readonly status: number; readonly message: string } };
}

/** What a search found, all of it. */
export interface Found {
  readonly results: readonly JsonText[];
  readonly context: JsonText | undefined;
}

/**
 * The value of a rule is neither a decision nor a list of entities: the policy has to be corrected.
 */
function unusable(path: string, wanted: string, text: string): SyncError {
  const message = `the rule ${path} must have ${wanted} as value, and has ${shown(text)}`;
  return new SyncError('decision_result_invalid', message, { status: 500 });
}

/**
 * The decision of a rule's value: a boolean, or an object with a boolean `decision` and maybe an
 * object `context`. A rule without a value permits nothing, as everywhere in Rego.
 */
export function decisionOf(path: string, value: string | undefined): AuthzenDecision {
  if (value === undefined || value === 'false') return { decision: false };
  if (value === 'true') return { decision: true };
  const wanted = 'true, false, or {"decision": true or false, "context": {...}}';
  if (jsonKind(value) !== 'object') throw unusable(path, wanted, value);
  const from = members(value);
  const decision = from.get('decision');
  const context = from.get('context');
  const isUsable =
    (decision === 'true' || decision === 'false') && (context === undefined || jsonKind(context) === 'object');
  if (!isUsable) throw unusable(path, wanted, value);
  return {
    decision: decision === 'true',
    ...(context !== undefined && { context: JsonText.trusted(context) }),
  };
}

/**
 * The entities of a search rule's value: a list, or an object with the list as `results` and maybe
 * an object `context`. A text stands for an entity with this id (for an action: this name).
 * Subjects and resources of other types are left out.
 */
export function foundOf(path: string, value: string | undefined, search: { kind: SearchKind; type: string }): Found {
  if (value === undefined) return { results: [], context: undefined };
  const wanted = `a list of ${search.kind}s, or {"results": [...], "context": {...}}`;
  const from = jsonKind(value) === 'object' ? members(value) : undefined;
  const list = from === undefined ? value : from.get('results');
  const context = from?.get('context');
  if (list === undefined || jsonKind(list) !== 'array' || (context !== undefined && jsonKind(context) !== 'object')) {
    throw unusable(path, wanted, value);
  }
  const results = elements(list).flatMap((element) => {
    const read = entityOf(element, search);
    if (read === 'unusable') throw unusable(path, `${search.kind}s in its list`, element);
    return read === 'other type' ? [] : [read];
  });
  return { results, context: context === undefined ? undefined : JsonText.trusted(context) };
}

function entityOf(
  text: string,
  { kind, type }: { kind: SearchKind; type: string },
): JsonText | 'unusable' | 'other type' {
  if (text.startsWith('"')) {
    return JsonText.trusted(kind === 'action' ? `{"name":${text}}` : `{"type":${JSON.stringify(type)},"id":${text}}`);
  }
  if (jsonKind(text) !== 'object') return 'unusable';
  const from = members(text);
  const isString = (name: string): boolean => from.get(name)?.startsWith('"') === true;
  if (kind === 'action') return isString('name') ? JsonText.trusted(text) : 'unusable';
  if (!isString('type') || !isString('id')) return 'unusable';
  return jsonString(from.get('type') ?? '""') === type ? JsonText.trusted(text) : 'other type';
}

function shown(text: string): string {
  return text.length > 100 ? `${text.slice(0, 100)}...` : text;
}
