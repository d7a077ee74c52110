import {
  ArrayTerm,
  compareStrings,
  type Member,
  NumberTerm,
  type ObjectTerm,
  SetTerm,
  sortedMembers,
  type Term,
} from './term.js';

/**
 * A term as JSON, byte for byte as OPA's REST API prints it: Go's encoding of what OPA makes of the
 * term. Numbers as written, sets as arrays, members sorted by name, `<`, `>` and `&` escaped; a key
 * that is no string is named by its JSON.
 */
export function goJson(term: Term): string {
  if (typeof term === 'string') return goString(term);
  if (term === null || typeof term === 'boolean') return String(term);
  if (term instanceof NumberTerm) return term.text;
  if (term instanceof ArrayTerm || term instanceof SetTerm) return `[${term.items.map(goJson).join(',')}]`;
  return objectJson(term);
}

function objectJson({ members }: ObjectTerm): string {
  const named: [string, Term][] = [];
  for (const [key, value] of members) {
    if (typeof key !== 'string') return otherKeysJson(members);
    named.push([key, value]);
  }
  return membersJson(named);
}

/**
 * An object with keys that are no strings. Of two that get the same name (1 and "1") the later one
 * in Rego's order wins.
 */
function otherKeysJson(members: readonly Member[]): string {
  const named = new Map<string, Term>();
  for (const [key, value] of sortedMembers(members)) named.set(typeof key === 'string' ? key : goJson(key), value);
  return membersJson([...named]);
}

function membersJson(named: [string, Term][]): string {
  if (named.length > 1) named.sort(([a], [b]) => compareStrings(a, b));
  let text = '{';
  for (const [name, value] of named) text += `${text.length > 1 ? ',' : ''}${goString(name)}:${goJson(value)}`;
  return `${text}}`;
}

/** What Go prints otherwise than as it is. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: Go escapes them
const ESCAPED = /["\\\u0000-\u001f<>&\u2028\u2029]/g;
const SHORT: ReadonlyMap<string, string> = new Map([
  ['"', '\\"'],
  ['\\', '\\\\'],
  ['\b', '\\b'],
  ['\f', '\\f'],
  ['\n', '\\n'],
  ['\r', '\\r'],
  ['\t', '\\t'],
]);

/** A string as Go's `encoding/json` prints it. */
export function goString(text: string): string {
  if (text.search(ESCAPED) === -1) return `"${text}"`;
  return `"${text.replace(ESCAPED, (c) => SHORT.get(c) ?? `\\u${c.charCodeAt(0).toString(16).padStart(4, '0')}`)}"`;
}
