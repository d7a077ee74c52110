import { elements, jsonKind, members } from '../../src/lib/json/json-text.js';

/**
 * A text that two JSON texts share exactly if OPA takes them for the same value: the order of members does not count, and 1.0, 1e0
 * and 1 are one number, exactly, whatever its size.
 */
export function canonical(text: string): string {
  const kind = jsonKind(text);
  if (kind === 'array') return `[${elements(text).map(canonical).join()}]`;
  if (kind === 'object') {
    const parts = [...members(text)].map(([key, value]) => `${JSON.stringify(key)}:${canonical(value)}`);
    return `{${parts.sort().join()}}`;
  }
  if (text.startsWith('"')) return JSON.stringify(JSON.parse(text));
  return /^[-\d]/.test(text) ? canonicalNumber(text) : text;
}

/** All digits of a number without zeros at either end, and its power of ten. */
function canonicalNumber(text: string): string {
  const match = /^(-?)(\d+)(?:\.(\d+))?(?:[eE]([-+]?\d+))?$/.exec(text);
  if (match === null) throw new SyntaxError(`not a number: ${text}`);
  const [, sign = '', whole = '', fraction = '', power = '0'] = match;
  const digits = (whole + fraction).replace(/^0+/, '');
  if (digits === '') return '0';
  const short = digits.replace(/0+$/, '');
  return `${sign}${short}e${BigInt(power) - BigInt(fraction.length) + BigInt(digits.length - short.length)}`;
}
