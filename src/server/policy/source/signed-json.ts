import { endOfString, jsonString } from '../../../lib/json/json.js';

/** Values between two turns of the event loop. */
const VALUES_A_STEP = 20_000;

/** An object or array that is being read. */
interface Open {
  /** Undefined: an array. */
  readonly members: Map<string, string> | undefined;
  elements: string;
  name: string | undefined;
}

/**
 * The form of a JSON text over which OPA signs it: no white space, members in the order of their
 * names as UTF-8, of a repeated name the last, numbers as written. Expects valid JSON. Texts are
 * put together without being copied for each level.
 */
export function* signedJson(text: string): Generator<undefined, string> {
  const open: Open[] = [];
  let whole = '';
  const add = (value: string): void => {
    const into = open.at(-1);
    if (into === undefined) whole = value;
    else if (into.members === undefined) into.elements += into.elements === '' ? value : `,${value}`;
    else {
      into.members.set(into.name ?? '', value);
      into.name = undefined;
    }
  };
  const token = /[[\]{}"]|[^\s[\]{}",:]+/g;
  for (let count = 1, found = token.exec(text); found !== null; count++, found = token.exec(text)) {
    if (count % VALUES_A_STEP === 0) yield;
    const [first] = found;
    if (first === '{' || first === '[') {
      open.push({ members: first === '{' ? new Map() : undefined, elements: '', name: undefined });
    } else if (first === '}' || first === ']') {
      const { members, elements } = open.pop() as Open; // it is valid JSON
      add(members === undefined ? `[${elements}]` : objectOf(members));
    } else if (first === '"') {
      const end = endOfString(text, found.index + 1);
      const value = jsonString(text.slice(found.index, end));
      token.lastIndex = end;
      const into = open.at(-1);
      if (into?.members !== undefined && into.name === undefined) into.name = wellFormed(value);
      else add(quoted(value));
    } else add(first);
  }
  return whole;
}

function objectOf(members: ReadonlyMap<string, string>): string {
  let text = '';
  for (const name of [...members.keys()].sort(compareUtf8)) {
    text += `${text === '' ? '' : ','}${quoted(name)}:${members.get(name) ?? ''}`;
  }
  return `{${text}}`;
}

/** UTF-16 has characters above U+FFFF before those from U+E000 on; UTF-8 does not. */
function compareUtf8(a: string, b: string): number {
  return Buffer.compare(Buffer.from(a), Buffer.from(b));
}

/** As Go writes it. */
function quoted(value: string): string {
  return JSON.stringify(wellFormed(value)).replaceAll('\u2028', '\\u2028').replaceAll('\u2029', '\\u2029');
}

/** Go reads half a pair of surrogates as U+FFFD. */
function wellFormed(value: string): string {
  return value.replace(/\p{Surrogate}/gu, '\uFFFD');
}
