import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { join, posix } from 'node:path';
import { test } from 'node:test';
import { type ESTree, parseSync, Visitor } from 'vite';
import { repoRoot } from './support/repo.js';
import { filesBelow } from './support/repo-pages.js';

/** A file is a concept: neither a crumb that one other file needs, nor a function that a class should be. */

/** A file below this has more than one importer, or is a table. */
const CRUMB_LINES = 60;
/** A function that makes functions of its own is at most so long. */
const FACTORY_LINES = 80;

interface SourceFile {
  readonly file: string;
  readonly text: string;
  readonly program: ESTree.Program;
}

const FILES: readonly SourceFile[] = filesBelow('src', /(?<!\.test|\.d)\.ts$/).map((file) => {
  const text = readFileSync(join(repoRoot(), file), 'utf8');
  return { file, text, program: parseSync(file, text).program };
});

/** Programs, and what is started by the address of its file. */
const ENTRIES = /^src\/(index|cli\/(policysync|server|client)|middleware\/(express|fastify))\.ts$|-(worker|child)\.ts$/;
/** What commander is told of a command, in the folder of the command. */
const COMMANDS = /^src\/cli\/commands\/([a-z-]+)\/\1\.ts$/;

test('no small file has a single importer, unless it is a table or has tests of its own', () => {
  const importers = new Map<string, Set<string>>();
  const page = filesBelow('ui/src', /\.tsx?$/).map((file) => ({
    file,
    text: readFileSync(join(repoRoot(), file), 'utf8'),
  }));
  for (const { file, text } of [...FILES, ...page]) {
    for (const [, target = ''] of text.matchAll(/(?:from|import\()\s*'(\.[^']+)\.js'/g)) {
      const imported = `${posix.join(posix.dirname(file), target)}.ts`;
      importers.set(imported, (importers.get(imported) ?? new Set()).add(file));
    }
  }
  const crumbs = FILES.filter(
    ({ file, text, program }) =>
      !ENTRIES.test(file) &&
      !COMMANDS.test(file) &&
      text.split('\n').length - 1 < CRUMB_LINES &&
      importers.get(file)?.size === 1 &&
      !hasTests(file) &&
      !isTable(program),
  );
  assert.deepEqual(crumbs.map(({ file }) => `${file} belongs into ${[...(importers.get(file) ?? [])]}`).sort(), []);
});

test('no function that makes functions is long: state is a class', () => {
  const long = FILES.flatMap(({ file, text, program }) =>
    factories(program)
      .map(({ name, node }) => ({ name, lines: text.slice(node.start, node.end).split('\n').length }))
      .filter(({ lines }) => lines > FACTORY_LINES)
      .map(({ name }) => `${file} ${name}`),
  );
  assert.deepEqual(long.sort(), []);
});

function hasTests(file: string): boolean {
  return existsSync(join(repoRoot(), file.replace(/\.ts$/, '.test.ts')));
}

/** Types and constants: nothing is computed but what a constant is made of. */
function isTable(program: ESTree.Program): boolean {
  return program.body.every((statement) => {
    const declared = statement.type === 'ExportNamedDeclaration' ? statement.declaration : statement;
    return declared === null || !['FunctionDeclaration', 'ClassDeclaration'].includes(declared.type);
  });
}

/** Functions of a module that name at least two functions of their own. */
function factories(program: ESTree.Program): { name: string; node: ESTree.Function }[] {
  return program.body.flatMap((statement) => {
    const declared = statement.type === 'ExportNamedDeclaration' ? statement.declaration : statement;
    if (declared?.type !== 'FunctionDeclaration' || declared.body === null) return [];
    let named = 0;
    const count = ({ type }: ESTree.Node): void => {
      if (type === 'FunctionExpression' || type === 'ArrowFunctionExpression') named++;
    };
    new Visitor({
      FunctionDeclaration: () => void named++,
      VariableDeclarator: ({ init }) => init && count(init),
      Property: ({ value }) => count(value),
    }).visit({ ...program, body: declared.body.body });
    return named >= 2 ? [{ name: declared.id?.name ?? '', node: declared }] : [];
  });
}

/** Columns of a comment line; code may be wider. */
const COMMENT_COLUMNS = 100;

test('comment lines are narrow enough to be read', () => {
  const isWide = (line: string): boolean =>
    line.length > COMMENT_COLUMNS && /^\s*(?:\/\/|\/\*\*|\*)/.test(line) && !line.includes('biome-ignore');
  const wide = [...filesBelow('src', /\.ts$/), ...filesBelow('ui/src', /\.tsx?$/)].flatMap((file) =>
    readFileSync(join(repoRoot(), file), 'utf8')
      .split('\n')
      .flatMap((line, index) => (isWide(line) ? [`${file}:${index + 1}`] : [])),
  );
  assert.deepEqual(wide, []);
});

test('no method is taken from its object to be called: a class has lost itself then', () => {
  const taken = FILES.flatMap(({ file, text }) =>
    [...text.matchAll(/\(\{ (\w+) \}\) => \1\(/g)].map(([found]) => `${file}: ${found}`),
  );
  assert.deepEqual(taken, []);
});
