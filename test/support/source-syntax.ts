import { readdirSync, readFileSync } from 'node:fs';
import { join, sep } from 'node:path';
import { type ESTree, parseSync, Visitor } from 'vite';
import { repoRoot } from './repo.js';

/** A place in the code that ships. */
export interface SourcePlace {
  /** Below the root of the repository. */
  readonly file: string;
  readonly line: number;
  readonly text: string;
}

/** A regular expression as the code has it. */
export interface SourceExpression extends SourcePlace {
  readonly pattern: string;
  readonly flags: string;
}

/** What this file is asked for in all files of `src` and of the page, found by a parser: comments and texts are told apart. */
export interface SourceSyntax {
  readonly files: number;
  readonly expressions: readonly SourceExpression[];
  /** Expressions that are made of texts: `RegExp(...)`, with or without `new`, and methods that make one of a text. */
  readonly made: readonly SourcePlace[];
  /** `JSON.parse`, called or passed on, and `json()` of a response. */
  readonly jsonParses: readonly SourcePlace[];
  /** What ends the process or says how it ends: `process.exit`, `process.exitCode` and the like, by every way to get at them. */
  readonly exits: readonly SourcePlace[];
  /** Calls of functions by their names. */
  readonly calls: readonly (SourcePlace & { readonly name: string })[];
}

/** Reads all files. */
export function sourceSyntax(): SourceSyntax {
  const files = ['src', 'ui/src'].flatMap((folder) =>
    readdirSync(join(repoRoot(), folder), { recursive: true, encoding: 'utf8' })
      .filter((file) => /\.[cm]?tsx?$/.test(file) && !/\.test\.tsx?$/.test(file))
      .map((file) => `${folder}/${file.split(sep).join('/')}`),
  );
  const all = files.map((file) => syntaxOf(file, readFileSync(join(repoRoot(), file), 'utf8')));
  return {
    files: files.length,
    expressions: all.flatMap(({ expressions }) => expressions),
    made: all.flatMap(({ made }) => made),
    jsonParses: all.flatMap(({ jsonParses }) => jsonParses),
    exits: all.flatMap(({ exits }) => exits),
    calls: all.flatMap(({ calls }) => calls),
  };
}

/** Reads the text of one file. */
export function syntaxOf(file: string, text: string): Omit<SourceSyntax, 'files'> {
  const { program, errors } = parseSync(file, text);
  if (errors.length > 0) throw new Error(`${file}: ${errors[0]?.message}`);
  const expressions: SourceExpression[] = [];
  const made: SourcePlace[] = [];
  const jsonParses: SourcePlace[] = [];
  const exits: SourcePlace[] = [];
  const calls: (SourcePlace & { name: string })[] = [];
  const place = ({ start, end }: { start: number; end: number }): SourcePlace => ({
    file,
    line: text.slice(0, start).split('\n').length,
    text: text.slice(start, end),
  });
  const call = (node: ESTree.CallExpression | ESTree.NewExpression): void => {
    const { callee } = node;
    if (callee.type === 'Identifier') {
      calls.push({ ...place(node), name: callee.name });
      if (callee.name === 'RegExp') made.push(place(node));
    }
    if (callee.type !== 'MemberExpression') return;
    const name = nameOf(callee);
    if (name === 'json' && node.arguments.length === 0) jsonParses.push(place(node));
    const [first] = node.arguments;
    const isText = first?.type === 'TemplateLiteral' || (first?.type === 'Literal' && typeof first.value === 'string');
    if (['match', 'matchAll', 'search'].includes(name ?? '') && isText) made.push(place(node));
  };
  new Visitor({
    Literal(node) {
      if ('regex' in node) expressions.push({ ...place(node), pattern: node.regex.pattern, flags: node.regex.flags });
    },
    CallExpression: call,
    NewExpression: call,
    MemberExpression(node) {
      const { object } = node;
      if (object.type === 'Identifier' && object.name === 'JSON' && nameOf(node) !== 'stringify') {
        jsonParses.push(place(node));
      }
      if (isProcess(object) && EXITS.has(nameOf(node) ?? '')) exits.push(place(node));
    },
    VariableDeclarator(node) {
      if (node.id.type !== 'ObjectPattern' || node.init === null || !isProcess(node.init)) return;
      for (const property of node.id.properties)
        if (property.type === 'Property' && EXITS.has(keyOf(property) ?? '')) exits.push(place(node));
    },
    ImportSpecifier(node) {
      const name = node.imported.type === 'Identifier' ? node.imported.name : node.imported.value;
      if (['exit', 'reallyExit', 'abort'].includes(name)) exits.push(place(node));
    },
  }).visit(program);
  return { expressions, made, jsonParses, exits, calls };
}

function nameOf({ property }: ESTree.MemberExpression): string | undefined {
  if (property.type === 'Identifier') return property.name;
  return property.type === 'Literal' ? String(property.value) : undefined;
}

/** Members of `process` that end it. */
const EXITS: ReadonlySet<string> = new Set(['exit', 'exitCode', 'reallyExit', 'abort']);

/** `process`, also as `globalThis.process`. */
function isProcess(node: ESTree.Expression | ESTree.Super): boolean {
  if (node.type === 'Identifier') return node.name === 'process';
  return node.type === 'MemberExpression' && nameOf(node) === 'process';
}

function keyOf({ key }: { key: ESTree.PropertyKey }): string | undefined {
  if (key.type === 'Identifier') return key.name;
  return key.type === 'Literal' ? String(key.value) : undefined;
}
