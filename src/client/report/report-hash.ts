import { createHash } from 'node:crypto';
import { jsonString } from '../../lib/json/json.js';

/**
 * SYNC_REPORT_HASH_FORM. `bytes`: SHA-256 of the bytes as they were fetched, which the client has
 * anyway. `opal`: of the parsed value as Python prints it, so that reports of both kinds of clients
 * compare.
 */
export const HASH_FORMS = ['bytes', 'opal'] as const;
export type HashForm = (typeof HASH_FORMS)[number];

/**
 * Larger documents get no hash in OPAL's form: it takes the whole text in memory, several times.
 */
export const OPAL_HASH_LIMIT_BYTES = 16 * 1024 * 1024;

/** A document that can be hashed: what the client has of a fetched one. */
export interface Hashable {
  /** Hex SHA-256 of its bytes. */
  readonly hash: string;
  readonly sizeBytes: number;
  text(): string;
}

/**
 * The hash that a report shows of a document, 64 hex digits; null where the form cannot be had for
 * it.
 */
export function reportHash(form: HashForm, body: Hashable): string | null {
  if (form === 'bytes') return body.hash;
  if (body.sizeBytes > OPAL_HASH_LIMIT_BYTES) return null;
  return opalHash(body.text());
}

/**
 * OPAL's hash of a JSON text (opal-protocol P4.7): hex SHA-256 of a string's own characters, and of
 * what `json.dumps` prints for everything else.
 */
export function opalHash(text: string): string {
  const trimmed = text.trim();
  const hashed = trimmed.startsWith('"') ? jsonString(trimmed) : pythonJson(trimmed);
  return createHash('sha256').update(hashed).digest('hex');
}

/**
 * A JSON text as Python's `json.dumps(json.loads(text))` prints it: what OPAL hashes (opal-protocol
 * P4.7). Separators are `, ` and `: `, text beyond ASCII is escaped, floats are in their shortest
 * form with a point or an exponent, integers keep all digits, and of a repeated name the last value
 * stands at the first one's place. `text` must be valid JSON. Works without recursion: a document
 * may be nested as deep as the fetcher lets in.
 */
export function pythonJson(text: string): string {
  const open: (List | Members)[] = [];
  let at = 0;
  while (at < text.length) {
    const start = at;
    const first = text.charAt(start);
    const top = open.at(-1);
    let value: string;
    if (first === '{' || first === '[') {
      at++;
      open.push(first === '[' ? { kind: 'array', text: '[' } : { kind: 'object', values: new Map(), key: undefined });
      continue;
    } else if (first === '}' || first === ']') {
      at++;
      if (top === undefined) break;
      open.pop();
      value = closed(top);
    } else if (first === '"') {
      at = stringEnd(text, start);
      const string = jsonString(text.slice(start, at));
      if (top?.kind === 'object' && top.key === undefined) {
        top.key = string;
        continue;
      }
      value = pythonString(string);
    } else if (SEPARATORS.includes(first)) {
      at++;
      continue;
    } else {
      while (at < text.length && !ENDS_OF_WORDS.includes(text.charAt(at))) at++;
      const word = text.slice(start, at);
      value = /^[-\d]/.test(word) ? pythonNumber(word) : word;
    }
    const parent = open.at(-1);
    if (parent === undefined) return value;
    if (parent.kind === 'array') parent.text += parent.text === '[' ? value : `, ${value}`;
    else {
      parent.values.set(parent.key ?? '', value);
      parent.key = undefined;
    }
  }
  throw new SyntaxError('the text is not one JSON value');
}

/** Characters between values. */
const SEPARATORS = ' \n\r\t,:';
const ENDS_OF_WORDS = ' \n\r\t,:{}[]"';

interface List {
  kind: 'array';
  /** What is printed of it so far. */
  text: string;
}

interface Members {
  kind: 'object';
  /** Printed values by name. */
  values: Map<string, string>;
  /** The name whose value comes next. */
  key: string | undefined;
}

/** The index after the string that starts at `start`. */
function stringEnd(text: string, start: number): number {
  for (let end = text.indexOf('"', start + 1); end !== -1; end = text.indexOf('"', end + 1)) {
    let slashes = 0;
    while (text.charAt(end - 1 - slashes) === '\\') slashes++;
    if (slashes % 2 === 0) return end + 1;
  }
  throw new SyntaxError('the text is not one JSON value');
}

function closed(frame: List | Members): string {
  if (frame.kind === 'array') return `${frame.text}]`;
  let printed = '{';
  for (const [key, value] of frame.values) {
    printed += `${printed === '{' ? '' : ', '}${pythonString(key)}: ${value}`;
  }
  return `${printed}}`;
}

/** A string as Python prints it: everything but printable ASCII is escaped. */
function pythonString(value: string): string {
  return JSON.stringify(value).replace(/[^ -~]/g, (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`);
}

function pythonNumber(token: string): string {
  // An integer is one of any length; Python has no negative zero among them.
  if (/^-?\d+$/.test(token)) return token === '-0' ? '0' : token;
  return pythonFloat(Number(token));
}

/**
 * Python's `repr` of a float: the same digits as JavaScript's, but other bounds for the exponent
 * form.
 */
function pythonFloat(value: number): string {
  if (!Number.isFinite(value)) return value > 0 ? 'Infinity' : '-Infinity';
  const sign = value < 0 || Object.is(value, -0) ? '-' : '';
  const [mantissa = '', exponentText = '0'] = Math.abs(value).toExponential().split('e');
  const digits = mantissa.replace('.', '');
  const exponent = Number(exponentText);
  if (exponent < -4 || exponent >= 16) {
    const places = String(Math.abs(exponent)).padStart(2, '0');
    return `${sign}${mantissa}e${exponent < 0 ? '-' : '+'}${places}`;
  }
  if (exponent < 0) return `${sign}0.${'0'.repeat(-exponent - 1)}${digits}`;
  const whole = digits.slice(0, exponent + 1).padEnd(exponent + 1, '0');
  return `${sign}${whole}.${digits.slice(exponent + 1) || '0'}`;
}
