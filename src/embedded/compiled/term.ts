import { withoutEnd } from '../../lib/run/without-end.js';

/**
 * A ground term of Rego. Numbers keep their text; the items of a set are in Rego's order; an object
 * may have keys of any kind.
 */
export type Term = null | boolean | string | NumberTerm | ArrayTerm | SetTerm | ObjectTerm;

/** A number as written. */
export class NumberTerm {
  readonly text: string;

  constructor(text: string) {
    this.text = text;
  }
}

/** An array. */
export class ArrayTerm {
  readonly items: readonly Term[];

  constructor(items: readonly Term[]) {
    this.items = items;
  }
}

/** A set. */
export class SetTerm {
  readonly items: readonly Term[];

  constructor(items: Term[]) {
    this.items = items.length < 2 ? items : items.sort(compareTerms);
  }
}

/** An object, its members in any order. */
export class ObjectTerm {
  readonly members: readonly Member[];

  constructor(members: readonly Member[]) {
    this.members = members;
  }
}

/** Key and value of an object. */
export type Member = readonly [Term, Term];

function rank(term: Term): number {
  if (term === null) return 0;
  if (typeof term === 'boolean') return 1;
  if (typeof term === 'string') return 3;
  if (term instanceof NumberTerm) return 2;
  if (term instanceof ArrayTerm) return 4;
  return term instanceof ObjectTerm ? 5 : 6;
}

/** Rego's order of all values. */
export function compareTerms(a: Term, b: Term): number {
  if (typeof a === 'string' && typeof b === 'string') return compareStrings(a, b);
  const difference = rank(a) - rank(b);
  if (difference !== 0) return difference;
  if (a instanceof NumberTerm && b instanceof NumberTerm) return compareNumbers(a.text, b.text);
  if (a instanceof ObjectTerm && b instanceof ObjectTerm) return compareObjects(a, b);
  if (a instanceof ArrayTerm && b instanceof ArrayTerm) return compareLists(a.items, b.items);
  if (a instanceof SetTerm && b instanceof SetTerm) return compareLists(a.items, b.items);
  return Number(a) - Number(b);
}

function compareLists(a: readonly Term[], b: readonly Term[]): number {
  for (const [index, item] of a.entries()) {
    const other = b[index];
    if (other === undefined) return 1;
    const order = compareTerms(item, other);
    if (order !== 0) return order;
  }
  return a.length - b.length;
}

/** Key, value, key, value ... in the order of the keys. */
function compareObjects(a: ObjectTerm, b: ObjectTerm): number {
  return compareLists(sortedMembers(a.members).flat(), sortedMembers(b.members).flat());
}

/** Members in the order of their keys. */
export function sortedMembers(members: readonly Member[]): readonly Member[] {
  return members.toSorted(([a], [b]) => compareTerms(a, b));
}

/** The order of strings by their UTF-8 bytes, which is that of their code points. */
export function compareStrings(a: string, b: string): number {
  if (a === b) return 0;
  const shared = Math.min(a.length, b.length);
  for (let index = 0; index < shared; index++) {
    const x = a.charCodeAt(index);
    const y = b.charCodeAt(index);
    if (x === y) continue;
    // Units of a surrogate pair stand for code points above all others.
    const isPair = x >= 0xd800 && x <= 0xdfff;
    if (isPair === (y >= 0xd800 && y <= 0xdfff)) return x - y;
    return isPair ? 1 : -1;
  }
  return a.length - b.length;
}

interface Decimal {
  readonly isNegative: boolean;
  /** Significant digits, without zeros around them; empty for 0. */
  readonly digits: string;
  /** Power of ten of the first digit. */
  readonly exponent: number;
}

const NUMBER = /^(-?)(\d*)(?:\.(\d*))?(?:[eE]([+-]?\d+))?$/;

function decimal(text: string): Decimal {
  const [, sign, whole = '', fraction = '', exponent = '0'] = NUMBER.exec(text) ?? [];
  const all = whole + fraction;
  const digits = all.replace(/^0+/, '');
  return {
    isNegative: sign === '-' && digits !== '',
    digits: withoutEnd(digits, '0'),
    exponent: whole.length + Number(exponent) - (all.length - digits.length),
  };
}

function compareMagnitude(a: Decimal, b: Decimal): number {
  if (a.digits === '' || b.digits === '') return a.digits.length - b.digits.length;
  if (a.exponent !== b.exponent) return a.exponent - b.exponent;
  return a.digits < b.digits ? -1 : a.digits > b.digits ? 1 : 0;
}

/** Negative, zero or positive, as `a` is less than, equal to or greater than `b`. */
export function compareNumbers(a: string, b: string): number {
  if (a === b) return 0;
  const x = Number(a);
  const y = Number(b);
  if (x < y) return -1;
  if (x > y) return 1;
  // The same or next to each other: only the digits tell.
  const left = decimal(a);
  const right = decimal(b);
  if (left.isNegative !== right.isNegative) return left.isNegative ? -1 : 1;
  const magnitude = compareMagnitude(left, right);
  return left.isNegative ? -magnitude : magnitude;
}
