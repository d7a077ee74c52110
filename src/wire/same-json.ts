import { jsonString } from '../lib/json/json.js';

/** Exponents of more digits are compared as they are written. */
const MAX_EXPONENT_DIGITS = 300;

/**
 * A value as far as it has to be read to be compared: what is no list and no object is its text.
 */
type Value = string | Value[] | Map<string, Value>;

/**
 * Whether two valid JSON texts mean the same value: members in any order, strings by their
 * characters, and numbers by their exact mathematical value, however many digits they have (1 and
 * 1.0 are the same, 9007199254740993 and 9007199254740992 are not). Each text is read once, however
 * deep it is.
 */
export function sameJson(a: string, b: string): boolean {
  if (a === b) return true;
  const open: [Value | undefined, Value | undefined][] = [[valueIn(a), valueIn(b)]];
  for (let pair = open.pop(); pair !== undefined; pair = open.pop()) {
    const [left, right] = pair;
    if (Array.isArray(left)) {
      if (!Array.isArray(right) || left.length !== right.length) return false;
      for (const [at, item] of left.entries()) open.push([item, right[at]]);
    } else if (left instanceof Map) {
      if (!(right instanceof Map) || left.size !== right.size) return false;
      for (const [name, value] of left) open.push([value, right.get(name)]);
    } else if (typeof left !== 'string' || typeof right !== 'string' || !sameScalar(left, right)) return false;
  }
  return true;
}

function sameScalar(a: string, b: string): boolean {
  if (a === b) return true;
  if (a.startsWith('"') && b.startsWith('"')) return jsonString(a) === jsonString(b);
  return isNumber(a) && isNumber(b) && sameNumber(a, b);
}

/** A string, what opens or closes, or a number or word: all else stands between values. */
const TOKEN = /"|[[\]{}]|[^\s,:"[\]{}]+/g;

/** Reads a valid text without a stack of calls. */
function valueIn(text: string): Value {
  const root: Value[] = [];
  const open: (Value[] | Map<string, Value>)[] = [root];
  /**
   * Names of the members that are being read, one for each open object; undefined: a name comes
   * next.
   */
  const names: (string | undefined)[] = [undefined];
  TOKEN.lastIndex = 0;
  for (let found = TOKEN.exec(text); found !== null; found = TOKEN.exec(text)) {
    const [first] = found;
    const place = open[open.length - 1] ?? root;
    if (first === ']' || first === '}') {
      open.pop();
      names.pop();
      continue;
    }
    let value: Value = first;
    if (first === '"') {
      TOKEN.lastIndex = endOfString(text, found.index);
      value = text.slice(found.index, TOKEN.lastIndex);
      if (!Array.isArray(place) && names[names.length - 1] === undefined) {
        names[names.length - 1] = jsonString(value);
        continue;
      }
    } else if (first === '[') value = [];
    else if (first === '{') value = new Map();
    if (Array.isArray(place)) place.push(value);
    else {
      place.set(names[names.length - 1] ?? '', value);
      names[names.length - 1] = undefined;
    }
    if (typeof value === 'string') continue;
    open.push(value);
    names.push(undefined);
  }
  return root[0] ?? '';
}

/** The index after the string that begins at an index. */
function endOfString(text: string, start: number): number {
  let at = start + 1;
  while (text[at] !== '"') at += text[at] === '\\' ? 2 : 1;
  return at + 1;
}

function isNumber(text: string): boolean {
  return /^[-\d]/.test(text);
}

function sameNumber(a: string, b: string): boolean {
  const [left, right] = [decimal(a), decimal(b)];
  return left !== undefined && right !== undefined && left.digits === right.digits && left.exponent === right.exponent;
}

/**
 * A number as `digits * 10^exponent`, in the one form where the digits have no zeros at either end;
 * zero has none.
 */
function decimal(text: string): { digits: string; exponent: bigint } | undefined {
  const found = /^(-?)(\d+)(?:\.(\d+))?(?:[eE]([-+]?)0*([1-9]\d*)?)?$/.exec(text);
  if (found === null) return undefined;
  const [, sign, whole = '', fraction = '', exponentSign, exponentDigits = '0'] = found;
  const all = whole + fraction;
  let first = 0;
  while (all[first] === '0') first++;
  if (first === all.length) return { digits: '', exponent: 0n };
  let end = all.length;
  while (all[end - 1] === '0') end--;
  if (exponentDigits.length > MAX_EXPONENT_DIGITS) return undefined;
  const exponent = BigInt(`${exponentSign === '-' ? '-' : ''}${exponentDigits}`);
  return {
    digits: `${sign}${all.slice(first, end)}`,
    exponent: exponent - BigInt(fraction.length) + BigInt(all.length - end),
  };
}
