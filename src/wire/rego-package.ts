import { jsonString } from '../lib/json/json.js';

const KEYWORD = /package(?=[ \t\r\n#])/y;
const NAME = /[A-Za-z_][A-Za-z0-9_]*/y;
const NAME_AFTER_DOT = /\.[A-Za-z_][A-Za-z0-9_]*/y;
const OPEN = /\[\s*/y;
const CLOSE = /\s*\]/y;

/**
 * A package declaration: its parts as the text has them, none where there is no package that OPA
 * would read, and where it begins.
 */
interface Declaration {
  readonly parts: readonly string[];
  readonly start: number;
}

function declarationOf(rego: string): Declaration {
  const start = afterSpace(rego, rego.startsWith('\uFEFF') ? 1 : 0);
  const keyword = endOf(KEYWORD, rego, start);
  const parts: string[] = [];
  if (keyword === undefined) return { parts, start };
  let at = afterSpace(rego, keyword);
  for (let end = endOf(NAME, rego, at); end !== undefined; end = endOfPart(rego, at)) {
    parts.push(rego.slice(at, end));
    at = end;
  }
  return { parts, start };
}

/** The index after what a sticky expression finds at `at`; undefined if it finds nothing. */
function endOf(pattern: RegExp, rego: string, at: number): number | undefined {
  pattern.lastIndex = at;
  return pattern.test(rego) ? pattern.lastIndex : undefined;
}

/** The index after white space and comments, of which a module may have any number. */
function afterSpace(rego: string, from: number): number {
  for (let at = from; ; ) {
    const next = rego.charAt(at);
    if (next === '#') {
      const end = rego.indexOf('\n', at);
      at = end === -1 ? rego.length : end + 1;
    } else if (next !== '' && ' \t\r\n'.includes(next)) at++;
    else return at;
  }
}

/** The index after `.name`, `["any text"]` or a raw string in brackets. */
function endOfPart(rego: string, at: number): number | undefined {
  const text = endOf(OPEN, rego, at);
  if (text === undefined) return endOf(NAME_AFTER_DOT, rego, at);
  const { end, isClosed } = regoText(rego, text);
  return isClosed ? endOf(CLOSE, rego, end) : undefined;
}

/**
 * The text in quotes, or raw, at an index: where it ends, and whether by its quote and not by the
 * end of the line or module. Of what is no text, nothing.
 */
export function regoText(rego: string, at: number): { end: number; isClosed: boolean } {
  const quote = rego.charAt(at);
  if (quote === '`') {
    const end = rego.indexOf('`', at + 1);
    return end === -1 ? { end: rego.length, isClosed: false } : { end: end + 1, isClosed: true };
  }
  if (quote !== '"') return { end: at, isClosed: false };
  for (let end = at + 1; end < rego.length; end++) {
    const next = rego.charAt(end);
    if (next === '"') return { end: end + 1, isClosed: true };
    if (next === '\n') return { end, isClosed: false };
    if (next !== '\\') continue;
    if (end + 1 === rego.length || rego.charAt(end + 1) === '\n') return { end, isClosed: false };
    end++;
  }
  return { end: rego.length, isClosed: false };
}

/**
 * The package of a Rego module as its text has it (`a.b["c-d"]`), empty where there is none that
 * OPA would read. Unlike OPAL's it knows comments, underscores, brackets and indentation
 * (opal-protocol P5.3, P10.4).
 */
export function packageName(rego: string): string {
  return declarationOf(rego).parts.join('');
}

/**
 * The package as path segments: `a.b["c d"]` gives `['a', 'b', 'c d']`; undefined where there is
 * none.
 */
export function regoPackage(rego: string): string[] | undefined {
  const { parts } = declarationOf(rego);
  return parts.length === 0 ? undefined : parts.map(segmentOf);
}

/** Names of a package: each is a place of its own wherever packages are looked up. */
const MOST_NAMES = 1_000;

/**
 * Why a module cannot be served, or taken, because of its package, as the end of a sentence that
 * begins with its name; undefined if it can.
 */
export function packageProblem(rego: string): string | undefined {
  const { length } = declarationOf(rego).parts;
  return length > MOST_NAMES ? `has a package of ${length} names, and one may have ${MOST_NAMES}` : undefined;
}

/** The line of the package declaration, 1 for the first. */
export function packageLine(rego: string): number {
  return rego.slice(0, declarationOf(rego).start).split('\n').length;
}

function segmentOf(part: string): string {
  if (part.startsWith('.')) return part.slice(1);
  if (!part.startsWith('[')) return part;
  const quoted = part.slice(1, -1).trim();
  if (quoted.startsWith('`')) return quoted.slice(1, -1);
  try {
    return jsonString(quoted);
  } catch {
    return quoted.slice(1, -1); // The engine will say what is wrong with the escape.
  }
}
