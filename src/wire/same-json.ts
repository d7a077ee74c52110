import { jsonString } from '../lib/json.js';
import { elements, jsonKind, members } from '../lib/json-text.js';

/** Exponents of more digits are compared as they are written. */
const MAX_EXPONENT_DIGITS = 300;

/**
 * Whether two valid JSON texts mean the same value: members in any order, strings by their characters, and numbers by their
 * exact mathematical value, however many digits they have (1 and 1.0 are the same, 9007199254740993 and 9007199254740992 are not).
 */
export function sameJson(a: string, b: string): boolean {
  const [left, right] = [a.trim(), b.trim()];
  if (left === right) return true;
  const kind = jsonKind(left);
  if (kind !== jsonKind(right)) return false;
  if (kind === 'array') {
    const [these, those] = [elements(left), elements(right)];
    return these.length === those.length && these.every((item, at) => sameJson(item, those[at] ?? ''));
  }
  if (kind === 'object') {
    const [these, those] = [members(left), members(right)];
    if (these.size !== those.size) return false;
    for (const [name, value] of these) {
      const other = those.get(name);
      if (other === undefined || !sameJson(value, other)) return false;
    }
    return true;
  }
  if (left.startsWith('"') && right.startsWith('"')) return jsonString(left) === jsonString(right);
  return isNumber(left) && isNumber(right) && sameNumber(left, right);
}

function isNumber(text: string): boolean {
  return /^[-\d]/.test(text);
}

function sameNumber(a: string, b: string): boolean {
  const [left, right] = [decimal(a), decimal(b)];
  return left !== undefined && right !== undefined && left.digits === right.digits && left.exponent === right.exponent;
}

/** A number as `digits * 10^exponent`, in the one form where the digits have no zeros at either end; zero has none. */
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
