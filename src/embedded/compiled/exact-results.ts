/**
 * Functions that compiled policies leave to the program around them, since their own give other
 * results than OPA's for some operands (2.50, 1e-7, 0.333..., letters beyond ASCII). What is simple
 * is computed here, exactly; everything else is for Go.
 */

const WHOLE = /^-?(?:0|[1-9]\d*)$/;
/** A text as a term, without escapes. */
const ASCII = /^"[ !#-[\]-~]*"$/;
/** So short that it is exact in OPA's numbers of 64 bits. */
const SHORT_DECIMAL = /^-?(?:0|[1-9]\d{0,8})\.\d{1,6}$/;
/** Longer texts are multiplied by Go. */
const MOST_DIGITS = 1000;

/** The functions of {@link exactResult}. */
export const COMPUTED: ReadonlySet<string> = new Set([
  ...['plus', 'minus', 'mul', 'div', 'rem', 'sum', 'product', 'abs', 'round', 'ceil', 'floor'],
  ...['lower', 'upper', 'indexof', 'to_number', 'format_int'],
]);

/** The result as text, or undefined where Go has to say what it is. `args`: Rego terms as text. */
export function exactResult(name: string, args: readonly string[]): string | undefined {
  const [first = '', second = ''] = args;
  switch (name) {
    case 'plus':
    case 'minus':
    case 'mul':
    case 'div':
    case 'rem':
      return isWhole(first) && isWhole(second) ? ofTwo(name, first, second) : undefined;
    case 'lower':
      return ASCII.test(first) ? first.toLowerCase() : undefined;
    case 'upper':
      return ASCII.test(first) ? first.toUpperCase() : undefined;
    case 'indexof':
      return ASCII.test(first) && ASCII.test(second) && second.length > 2
        ? String(first.slice(1).indexOf(second.slice(1, -1)))
        : undefined;
    case 'to_number':
      return toNumber(first);
    case 'format_int':
      return isWhole(first) && second === '10' ? `"${first}"` : undefined;
    case 'sum':
    case 'product':
      return ofList(name, first);
    default:
      return ofOne(name, first);
  }
}

function isWhole(text: string): boolean {
  return text.length <= MOST_DIGITS && text !== '-0' && WHOLE.test(text);
}

function toNumber(text: string): string | undefined {
  if (text === 'true') return '1';
  if (text === 'false' || text === 'null') return '0';
  const inner = ASCII.test(text) ? text.slice(1, -1) : text;
  return (isWhole(inner) && inner.length < 16) || SHORT_DECIMAL.test(inner) ? inner : undefined;
}

function ofTwo(name: 'plus' | 'minus' | 'mul' | 'div' | 'rem', first: string, second: string): string | undefined {
  const a = Number(first);
  const b = Number(second);
  if ((name === 'div' || name === 'rem') && b === 0) return undefined;
  const result =
    name === 'plus' ? a + b : name === 'minus' ? a - b : name === 'mul' ? a * b : name === 'div' ? a / b : a % b;
  if (Number.isSafeInteger(a) && Number.isSafeInteger(b)) {
    if (Number.isSafeInteger(result))
      return isZeroOfDivision(name, result, b) ? undefined : String(result === 0 ? 0 : result);
    if (name === 'div') return undefined;
  }
  if (name === 'div') return undefined;
  const x = BigInt(first);
  const y = BigInt(second);
  return String(name === 'plus' ? x + y : name === 'minus' ? x - y : name === 'mul' ? x * y : x % y);
}

/** OPA writes zero divided by a negative number as -0. */
function isZeroOfDivision(name: string, result: number, divisor: number): boolean {
  return name === 'div' && result === 0 && divisor < 0;
}

function ofOne(name: string, text: string): string | undefined {
  if (name === 'abs') return isWhole(text) && text.length < 16 ? text.replace('-', '') : undefined;
  if (isWhole(text) && text.length < 16) return text;
  if (!SHORT_DECIMAL.test(text)) return undefined;
  const value = Number(text);
  const result = name === 'floor' ? Math.floor(value) : name === 'ceil' ? Math.ceil(value) : awayFromZero(value);
  // OPA has -0 for some of what becomes zero, and 0 for the floor of -0.05.
  return value < 0 && value > -1 ? undefined : String(result);
}

function awayFromZero(value: number): number {
  return Math.sign(value) * Math.floor(Math.abs(value) + 0.5);
}

function ofList(name: 'sum' | 'product', text: string): string | undefined {
  if (text.length > MOST_DIGITS * 10 || text.length < 2 || text === 'set()') return undefined;
  const inner = text.slice(1, -1).trim();
  const items = inner === '' ? [] : inner.split(',').map((item) => item.trim());
  if (!items.every(isWhole)) return undefined;
  const numbers = items.map(BigInt);
  if (name === 'sum') return String(numbers.reduce((all, one) => all + one, 0n));
  return String(numbers.reduce((all, one) => all * one, 1n));
}
