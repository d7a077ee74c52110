import { jsonString } from '../../../lib/json/json.js';
import { regoPackage, regoText } from '../../../wire/rego-package.js';

/**
 * What a module defines under a name: a function with so many arguments, a set (`contains`), or
 * anything else.
 */
export type RuleHead =
  | { readonly kind: 'function'; readonly arguments: number }
  | { readonly kind: 'set' }
  | { readonly kind: 'rule' };

/**
 * What a module defines and reads, as far as its text shows it without a compiler: rather too much
 * than too little.
 */
export interface RegoOutline {
  /** Undefined where there is none that OPA would read. */
  readonly package: readonly string[] | undefined;
  readonly heads: ReadonlyMap<string, RuleHead>;
  /** Names other than those that it defines there: rules of its package, variables, functions. */
  readonly words: ReadonlySet<string>;
  /** References below `data` up to their first part that is only known when they are evaluated. */
  readonly refs: readonly (readonly string[])[];
}

/** Comments and white space, names, and single characters. */
const TOKEN = /#[^\n]*|[ \t\r\n]+|[A-Za-z_]\w*|[\s\S]/y;

/** Where the token that begins at an index ends. */
function endOfToken(rego: string, at: number): number {
  if (/["`]/.test(rego.charAt(at))) return regoText(rego, at).end;
  TOKEN.lastIndex = at;
  TOKEN.test(rego);
  return TOKEN.lastIndex;
}

/** Names that begin no rule. */
const KEYWORDS = new Set([
  'package',
  'import',
  'else',
  'if',
  'in',
  'not',
  'some',
  'every',
  'with',
  'as',
  'data',
  'input',
  'true',
  'false',
  'null',
]);

interface Token {
  readonly text: string;
  /** It is the first one of its line, outside of all brackets. */
  readonly isFirst: boolean;
  /** White space is before it. */
  readonly isApart: boolean;
}

function tokensOf(rego: string): Token[] {
  const tokens: Token[] = [];
  let depth = 0;
  let isFirst = true;
  let isApart = true;
  for (let at = 0; at < rego.length; ) {
    const text = rego.slice(at, endOfToken(rego, at));
    at += text.length;
    if (/^[#\s]/.test(text)) {
      isFirst ||= text.includes('\n');
      isApart = true;
      continue;
    }
    if ('}])'.includes(text)) depth = Math.max(0, depth - 1);
    tokens.push({ text, isFirst: isFirst && depth === 0, isApart });
    if ('{[('.includes(text)) depth++;
    // Expressions inside of a template string.
    if (tokens.at(-2)?.text === '$' && /^["`]/.test(text)) for (const token of inner(text)) tokens.push(token);
    isFirst = false;
    isApart = false;
  }
  return tokens;
}

function inner(template: string): Token[] {
  return tokensOf(template.slice(1).replaceAll(/["`]/g, ' ')).map((token) => ({ ...token, isFirst: false }));
}

/** The words of a module and all between them, without comments and white space; a text is one. */
export function regoWords(rego: string): string[] {
  return tokensOf(rego).map(({ text }) => text);
}

/** What Rego v1 has as keywords, and v0 only where they are imported. */
const V1_KEYWORDS: readonly string[] = ['contains', 'every', 'if', 'in'];

/**
 * Whether a module, by its {@link regoWords}, imports `rego.v1` or later, which makes it mean the
 * same in v0 and v1.
 */
export function importsRego(words: readonly string[]): boolean {
  return indexesOf(words, ['import', 'rego', '.']).some((at) => /^v[1-9]$/.test(words[at] ?? ''));
}

/**
 * The keywords of v1 that a module, by its {@link regoWords}, has without importing them: in v0
 * they are names, so that a module which is valid in both may mean something else in each.
 */
export function namesInV0(words: readonly string[]): string[] {
  if (importsRego(words)) return [];
  // `contains(` is a function in both.
  const isOne = (word: string, at: number): boolean => !(word === 'contains' && words[at + 1] === '(');
  const found = new Set(words.filter((word, at) => V1_KEYWORDS.includes(word) && isOne(word, at)));
  for (const at of indexesOf(words, ['import', 'future', '.', 'keywords'])) {
    const name = words[at] === '.' ? words[at + 1] : undefined;
    const imported = name === undefined ? V1_KEYWORDS : name === 'every' ? ['every', 'in'] : [name];
    for (const word of imported) found.delete(word);
  }
  return [...found];
}

/** The indexes after each place where these words stand. */
function indexesOf(words: readonly string[], wanted: readonly string[]): number[] {
  return words.flatMap((_, at) =>
    wanted.every((word, index) => words[at + index] === word) ? [at + wanted.length] : [],
  );
}

/** Reads the outline of a module. */
export function regoOutline(rego: string): RegoOutline {
  const tokens = tokensOf(rego);
  const heads = new Map<string, RuleHead>();
  const words = new Set<string>();
  const refs: (readonly string[])[] = [];
  const at = (index: number): string => tokens[index]?.text ?? '';
  for (const [index, { text, isFirst }] of tokens.entries()) {
    if (!isName(text) || at(index - 1) === '.') continue;
    const isDefault = at(index - 1) === 'default' && tokens[index - 1]?.isFirst === true;
    const isHead = (isFirst && !KEYWORDS.has(text) && text !== 'default') || isDefault;
    if (isHead) {
      if (!heads.has(text)) heads.set(text, headAt(tokens, index + 1));
    } else if (text === 'data') refs.push(refAt(tokens, index + 1));
    else words.add(text);
  }
  return { package: regoPackage(rego), heads, words, refs };
}

function isName(text: string): boolean {
  return /^[A-Za-z_]/.test(text);
}

function headAt(tokens: readonly Token[], index: number): RuleHead {
  const next = tokens[index]?.text;
  if (next === 'contains') return { kind: 'set' };
  if (next !== '(') return { kind: 'rule' };
  let depth = 1;
  let commas = 0;
  let at = index + 1;
  const isEmpty = tokens[at]?.text === ')';
  for (; at < tokens.length && depth > 0; at++) {
    const text = tokens[at]?.text ?? '';
    if ('{[('.includes(text)) depth++;
    else if ('}])'.includes(text)) depth--;
    else if (text === ',' && depth === 1) commas++;
  }
  return { kind: 'function', arguments: isEmpty ? 0 : commas + 1 };
}

function refAt(tokens: readonly Token[], from: number): string[] {
  const path: string[] = [];
  for (let index = from; ; ) {
    const [dot, name, close] = [tokens[index], tokens[index + 1], tokens[index + 2]];
    if (dot === undefined || dot.isApart || name === undefined) return path;
    if (dot.text === '.' && isName(name.text)) {
      path.push(name.text);
      index += 2;
    } else if (dot.text === '[' && /^["`]/.test(name.text) && close?.text === ']') {
      path.push(textOf(name.text));
      index += 3;
    } else return path;
  }
}

function textOf(quoted: string): string {
  if (quoted.startsWith('`')) return quoted.slice(1, -1);
  try {
    return jsonString(quoted);
  } catch {
    return quoted.slice(1, -1); // the engine will say what is wrong with the escape
  }
}

/** The first line of a closed module. */
const CLOSED = '# PolicySync is replacing this module: nothing in it decides.';

/** Whether a text is a {@link closedModule}. */
export function isClosedModule(rego: string): boolean {
  return rego.startsWith(CLOSED);
}

/**
 * Fails whatever asks for it: two values where there can be one. Of any type, so that all that
 * reads it compiles.
 */
const FAILS = ['json.unmarshal("1")', 'json.unmarshal("2")'];
/** Fails an element of a set. */
const FAILING = 'policysync_is_replacing_this_module';

/**
 * A module with the same names, of which each evaluation ends in an error, whatever else defines
 * them: nobody can take it for a decision, nor for its absence. Undefined where there is no
 * package.
 */
export function closedModule(rego: string): string | undefined {
  const { package: place, heads } = regoOutline(rego);
  if (place === undefined) return undefined;
  const [first, ...more] = place;
  const lines = [
    CLOSED,
    `package ${first}${more.map((part) => `[${JSON.stringify(part)}]`).join('')}`,
    '',
    'import rego.v1',
    '',
  ];
  const define = (left: string): void => {
    for (const value of FAILS) lines.push(`${left} := ${value}`);
  };
  let hasSet = false;
  for (const [name, head] of heads) {
    if (head.kind === 'rule') define(name);
    else if (head.kind === 'function') define(`${name}(${Array<string>(head.arguments).fill('_').join(', ')})`);
    else {
      hasSet = true;
      lines.push(`${name} contains 1 if ${FAILING}(1)`);
    }
  }
  if (hasSet) define(`${FAILING}(_)`);
  return `${lines.join('\n')}\n`;
}
