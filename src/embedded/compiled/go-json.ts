import { ArrayTerm, compareStrings, NumberTerm, type ObjectTerm, SetTerm, sortedMembers, type Term } from './term.js';

/**
 * A term as JSON, byte for byte as OPA's REST API prints it: Go's encoding of what OPA makes of the term. Numbers as written, sets as
 * arrays, members sorted by name, `<`, `>` and `&` escaped; a key that is no string is named by its JSON.
 */
export function goJson(term: Term): string {
  if (typeof term === 'string') return goString(term);
  if (term === null || typeof term === 'boolean') return String(term);
  if (term instanceof NumberTerm) return term.text;
  if (term instanceof ArrayTerm || term instanceof SetTerm) return `[${term.items.map(goJson).join(',')}]`;
  return objectJson(term);
}

function objectJson(object: ObjectTerm): string {
  const members = object.members.every(([key]) => typeof key === 'string') ? object.members : sortedMembers(object);
  // Of two keys of the same name (1 and "1") the later one in Rego's order wins.
  const named = new Map<string, string>();
  for (const [key, value] of members) named.set(typeof key === 'string' ? key : goJson(key), goJson(value));
  const names = named.size < 2 ? [...named.keys()] : [...named.keys()].sort(compareStrings);
  return `{${names.map((name) => `${goString(name)}:${named.get(name)}`).join(',')}}`;
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
  return `"${text.replace(ESCAPED, (c) => SHORT.get(c) ?? `\\u${c.charCodeAt(0).toString(16).padStart(4, '0')}`)}"`;
}
