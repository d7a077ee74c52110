import { SyncError } from '../errors.js';
import { isRecord } from '../json/is-record.js';
import { didYouMean } from './similar-name.js';

/** What a value that a program gives beside settings must be, or the members that it may have. */
export type PartRule =
  | { readonly must: string; readonly isValid: (value: unknown) => boolean }
  | { readonly members: PartRules };

/** Rules of parts by their names. */
export type PartRules = { readonly [name: string]: PartRule };

/** A rule for each part of a type, and no other. */
export type PartRulesOf<T> = { readonly [K in keyof Required<T>]: PartRule };

export const A_FUNCTION: PartRule = { must: 'must be a function', isValid: (value) => typeof value === 'function' };
export const AN_OBJECT: PartRule = { must: 'must be an object', isValid: isRecord };

/** A rule for lists of objects. */
export const OBJECTS: PartRule = {
  must: 'must be a list of objects',
  isValid: (value) => Array.isArray(value) && value.every(isRecord),
};

/** A logger as those of `createLogger`, or of pino. */
export const A_LOGGER: PartRule = {
  must: 'must be a logger of createLogger, or of pino',
  isValid: (value) => isRecord(value) && typeof (value as { child?: unknown }).child === 'function',
};

/** A number that is no less than `least`. */
export function aNumber(least: number): PartRule {
  return { must: `must be a number from ${least} on`, isValid: (value) => typeof value === 'number' && value >= least };
}

/**
 * Throws `config_invalid` that names each part that does not exist, with the one that was meant, or
 * whose value is not valid.
 */
export function checkParts(given: unknown, rules: PartRules): void {
  const problems = problemsOf(given, rules, '');
  if (problems.length === 0) return;
  const what = problems.length === 1 ? 'a part is' : 'parts are';
  throw new SyncError('config_invalid', `${what} not valid:\n  ${problems.join('\n  ')}`);
}

function problemsOf(given: unknown, rules: PartRules, above: string): string[] {
  if (!isRecord(given)) return [`${above === '' ? 'the second argument' : above.slice(0, -1)} must be an object`];
  return Object.entries(given).flatMap(([name, value]) => {
    const place = `${above}${name}`;
    const rule = Object.hasOwn(rules, name) ? rules[name] : undefined;
    if (rule === undefined) return [`there is no ${place}${didYouMean(name, Object.keys(rules))}`];
    if (value === undefined) return [];
    if ('members' in rule) return problemsOf(value, rule.members, `${place}.`);
    return rule.isValid(value) ? [] : [`${place} ${rule.must}`];
  });
}
