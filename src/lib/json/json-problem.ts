import { endOfString, MAX_JSON_VALUES } from './json.js';
import { JsonCheck, JsonSyntaxError } from './json-check.js';

/**
 * Why a text is no JSON, for the person who wrote it: the place, what is there, and the brackets
 * before it. Names and values may be secret, so none of their characters shows. Undefined if it is
 * JSON.
 */
export function jsonProblem(text: string): string | undefined {
  const bytes = Buffer.from(text);
  const check = new JsonCheck({ maxValues: MAX_JSON_VALUES });
  try {
    check.push(bytes);
    check.end();
    return undefined;
  } catch (error) {
    if (!(error instanceof JsonSyntaxError)) throw error;
    const { offset, expected, message } = error;
    if (expected === undefined) return message;
    const before = bytes.subarray(0, offset).toString();
    const found = bytes.subarray(offset).toString().charAt(0);
    const lines = before.split('\n');
    const place = `line ${lines.length}, column ${(lines.at(-1) ?? '').length + 1}`;
    const shape = shapeOf(before);
    const after = shape === '' ? '' : `, after ${shape}`;
    return `at ${place} there must be ${expected}, not ${kindOf(found)}${after}${hintAt(found, expected)}`;
  }
}

/**
 * What stands at the wrong place: a character that may belong to a secret is only said to be a
 * letter or a digit.
 */
function kindOf(found: string): string {
  if (found === '') return 'the end';
  if (/[a-z]/i.test(found)) return 'a letter';
  if (/[0-9]/.test(found)) return 'a digit';
  if (found === '\n' || found === '\r') return 'the end of the line';
  return /[{}[\]:,"'/\\.#]/.test(found) ? found : 'another character';
}

function hintAt(found: string, expected: string): string {
  const isName = expected.startsWith('a member name');
  if (found === "'") return ': JSON has double quotes';
  if (isName && /[a-z]/i.test(found))
    return ': names are in double quotes, which a shell takes away unless they are quoted themselves';
  if (isName && found === '}') return ': there is a comma too many';
  return '';
}

/** Longest shape that a message has. */
const MAX_SHAPE = 40;

/**
 * The brackets, colons and commas of the beginning of a JSON text, at most the last of them, with
 * all else left out.
 */
function shapeOf(text: string): string {
  let shape = '';
  for (let at = 0; at < text.length; ) {
    const next = text.charAt(at);
    if (next === '"') {
      const end = endOfString(text, at + 1);
      shape += end === -1 ? '"…' : '"…"';
      at = end === -1 ? text.length : end;
    } else {
      if ('{}[]:,'.includes(next)) shape += next;
      else if (next.trim() !== '' && !shape.endsWith('…')) shape += '…';
      at++;
    }
  }
  return shape.length > MAX_SHAPE ? `… ${shape.slice(-MAX_SHAPE)}` : shape;
}
