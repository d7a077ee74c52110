import { withoutEnd } from '../../lib/without-end.js';

/** The order of numbers by their texts: those of JSON, as exact as they are written. */

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
