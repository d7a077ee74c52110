import assert from 'node:assert/strict';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { builtinModules } from 'node:module';
import { dirname, join, posix, sep } from 'node:path';
import { test } from 'node:test';
import { repoRoot } from './support/repo.js';

const SRC = join(repoRoot(), 'src');
const TEST = join(repoRoot(), 'test');
/** It runs commands, and no server or client. */
const RUN_HERE = join(TEST, 'support', 'run-here.ts');

/** Who may import whom inside src/. A target is a folder or a module; every area may import itself unless noted. */
const TABLE: Record<string, { may: readonly string[]; mayType?: readonly string[]; rule: string }> = {
  lib: { may: [], rule: 'lib knows nothing of ours' },
  wire: {
    may: ['lib/errors', 'lib/json/is-record', 'lib/json/json', 'lib/json/json-check', 'lib/json/json-text'],
    rule: 'wire has schemas and their types, and of lib only errors and what reads and tells values of JSON',
  },
  'fleet-rules': {
    may: [],
    mayType: ['wire'],
    rule: 'fleet-rules has what page and terminal share: of wire only types',
  },
  pubsub: {
    may: ['lib', 'wire/frames', 'wire/topics'],
    rule: 'pubsub carries opaque payloads: of wire only frames and topics',
  },
  auth: { may: ['lib', 'wire'], rule: 'auth has keys, tokens and callers: it knows no protocol' },
  embedded: { may: ['lib', 'wire'], rule: 'the embedded engine knows neither client nor server' },
  http: { may: ['lib', 'wire', 'auth'], rule: 'http is what both APIs are built on: it knows no route' },
  checker: {
    may: ['lib', 'wire', 'client', 'embedded', 'server/policy/bundle/directories'],
    rule: 'the checker compiles policies as clients do: of the server it knows folders',
  },
  server: {
    may: ['lib', 'wire', 'fleet-rules', 'auth', 'pubsub', 'http', 'checker/checker-process', 'checker/messages'],
    rule: 'server and client never import each other',
  },
  client: {
    may: ['lib', 'wire', 'auth', 'pubsub', 'http', 'embedded'],
    rule: 'server and client never import each other',
  },
  settings: {
    may: ['lib', 'server/options', 'client/options'],
    rule: 'settings has those of all programs, and runs none',
  },
  cli: {
    may: ['settings', 'lib', 'wire', 'fleet-rules', 'auth', 'pubsub', 'server', 'client', 'embedded', 'checker'],
    rule: 'cli and index.ts never import each other',
  },
  middleware: {
    may: ['lib', 'client/decisions'],
    rule: 'middleware asks a client for decisions: it knows nothing of the engine',
  },
  index: {
    may: ['settings', 'lib', 'wire', 'auth', 'pubsub', 'server', 'client'],
    rule: 'cli and index.ts never import each other',
  },
};

/**
 * The folders, and the files beside them, of a large area in the order in which they build upon each other: each may import those
 * before it.
 */
const ORDER: Record<string, readonly string[]> = {
  client: [
    ...['topics', 'temporary-folder', 'desired', 'status', 'outbound', 'fetch', 'report', 'authzen'],
    ...[
      'options',
      'server-api',
      'engine',
      'start-facts',
      'position',
      'reconcile',
      'drift',
      'health',
      'offline',
      'asked',
    ],
    ...['decisions', 'follow', 'client-metrics', 'client-deps', 'client-parts', 'routes', 'http', 'client'],
  ],
  server: [
    ...[
      'log',
      'changes/change-times',
      'changes/stages',
      'policy/source',
      'policy/bundle',
      'policy/gate',
      'policy/webhook',
      'options',
      'budgets',
    ],
    ...['start-facts', 'policy/views', 'publish', 'policy'],
    ...['clients', 'peers', 'changes', 'documents', 'live', 'compose-clients'],
    ...['server-metrics', 'routes', 'http', 'server'],
  ],
};

/** Folders with rules of their own: pure code that must stay free of I/O, so that it can be tested as a table. */
const PURE: readonly { folder: string; rule: string }[] = [
  { folder: 'wire', rule: 'wire does no I/O' },
  { folder: 'fleet-rules', rule: 'fleet-rules has pure rules, also for a browser: no I/O' },
  { folder: 'client/desired', rule: 'client/desired has pure rules: no I/O' },
];
/** Node modules that do no I/O. */
const PURE_NODE_MODULES = new Set([
  'node:crypto',
  'node:assert/strict',
  'node:test',
  'node:util',
  'node:path',
  'node:buffer',
]);

/** Only production code is held to the table: a test may borrow what it needs. */
const FILES = readdirSync(SRC, { recursive: true, encoding: 'utf8' })
  .map((file) => file.split(sep).join('/'))
  .filter((file) => file.endsWith('.ts') && !file.endsWith('.test.ts'));

interface Import {
  file: string;
  line: number;
  specifier: string;
  /** `import type`: nothing of it is there at run time. */
  isType: boolean;
  /** The module below src/ without ending, for an import of our own. */
  target: string | undefined;
}

const IMPORTS: readonly Import[] = FILES.flatMap((file) => {
  const text = readFileSync(join(SRC, file), 'utf8');
  const pattern = /(?:^|\n)\s*(?:import|export)\b[^'";]*?\bfrom\s*'([^']+)'|\bimport\s*\(?\s*'([^']+)'/g;
  return [...text.matchAll(pattern)].map((match) => {
    const specifier = match[1] ?? match[2] ?? '';
    const target = specifier.startsWith('.') ? posix.join(dirname(file), specifier).replace(/\.js$/, '') : undefined;
    const isType = /^\s*(?:import|export)\s+type\b/.test(match[0]);
    return { file, line: text.slice(0, match.index).split('\n').length, isType, specifier, target };
  });
});

test('reads the imports of the code', () => {
  assert(FILES.length > 10, `only ${FILES.length} files below src/`);
  assert(IMPORTS.some(({ file, target }) => file === 'wire/data.ts' && target === 'lib/json/json-text'));
});

test('every import follows the table of who may import whom', () => {
  const broken = IMPORTS.flatMap(({ file, line, isType, specifier, target }) => {
    if (target === undefined) return [];
    const area = areaOf(file.replace(/\.ts$/, ''));
    const row = TABLE[area];
    if (row === undefined) return [`src/${file} is in no area of the table: add one or move the file`];
    const may = isType ? [...row.may, ...(row.mayType ?? [])] : row.may;
    const allowed = areaOf(target) === area || may.some((name) => target === name || target.startsWith(`${name}/`));
    return allowed ? [] : [`src/${file}:${line} imports ${specifier}; rule: ${row.rule}`];
  });
  assert.deepEqual(broken, []);
});

test('every name in the rules of imports is one that is there', () => {
  const modules = new Set(FILES.map((file) => file.replace(/\.ts$/, '')));
  const folders = new Set(
    [...modules].flatMap((module) => module.split('/').map((_, at, all) => all.slice(0, at).join('/'))),
  );
  const named = [
    ...Object.entries(TABLE).flatMap(([area, { may, mayType = [] }]) => [area, ...may, ...mayType]),
    ...Object.entries(ORDER).flatMap(([area, names]) => names.map((name) => `${area}/${name}`)),
    ...PURE.map(({ folder }) => folder),
  ];
  const gone = named.filter((name) => !modules.has(name) && !folders.has(name));
  assert.deepEqual(gone, []);
});

test('inside an area imports follow the order of its folders', () => {
  const broken = IMPORTS.flatMap(({ file, line, specifier, target }) => {
    const order = ORDER[areaOf(file)];
    if (order === undefined || target === undefined || areaOf(target) !== areaOf(file)) return [];
    const own = order.indexOf(roomOf(file.replace(/\.ts$/, ''), order) ?? '');
    if (own === -1) return [`src/${file} is in no folder of the order of ${areaOf(file)}: add one or move the file`];
    return order.indexOf(roomOf(target, order) ?? '') <= own
      ? []
      : [`src/${file}:${line} imports ${specifier}, which comes later`];
  });
  assert.deepEqual(broken, []);
});

test('pure folders import nothing that does I/O', () => {
  const broken = PURE.flatMap(({ folder, rule }) =>
    IMPORTS.filter(({ file }) => file.startsWith(`${folder}/`))
      .filter(({ specifier }) => isNodeModule(specifier) && !PURE_NODE_MODULES.has(specifier))
      .map(({ file, line, specifier }) => `src/${file}:${line} imports ${specifier}; rule: ${rule}`),
  );
  assert.deepEqual(broken, []);
});

test('production code never imports tests or test support', () => {
  const broken = IMPORTS.filter(
    ({ specifier, target }) => specifier === 'node:test' || target?.endsWith('.test') || target?.startsWith('..'),
  ).map(({ file, line, specifier }) => `src/${file}:${line} imports ${specifier}`);
  assert.deepEqual(broken, []);
});

test('a whole server or client in a test of several parts is the one that ships', () => {
  const folders = ['flows', 'interop', 'faults', 'security', 'package', 'support'].map((name) => join(TEST, name));
  const whole = /^import (?!type\b)[^;]*'[./]+\/src\/(?:server\/server|client\/client|index|cli\/[^']*)\.js';/m;
  const files = folders.filter(existsSync).flatMap((folder) =>
    readdirSync(folder, { recursive: true, encoding: 'utf8' })
      .filter((file) => file.endsWith('.ts'))
      .map((file) => join(folder, file)),
  );
  const broken = files.filter((file) => file !== RUN_HERE && whole.test(readFileSync(file, 'utf8')));
  assert(files.length > 100, `only ${files.length} files`);
  assert.deepEqual(
    broken,
    [],
    'import from test/support/library.ts, or start a program; a command alone may run by test/support/run-here.ts',
  );
});

test('a command reads and writes by what it is given: only the programs take the streams of the process', () => {
  const entries = new Set(['policysync', 'server', 'client'].map((name) => `cli/${name}.ts`));
  const ofProcess = /\bprocess\.(?:stdin|stdout|stderr)\b|(?<![\w.])console\./;
  const broken = FILES.filter((file) => file.startsWith('cli/') && !entries.has(file)).filter((file) =>
    ofProcess.test(withoutComments(readFileSync(join(SRC, file), 'utf8'))),
  );
  assert.deepEqual(broken, [], 'take CommandIo of src/cli/kit/command-io.ts');
});

test('no barrels: only src/index.ts is made of what others export, and nobody imports it', () => {
  const reExport = /^export\s+(?:type\s+)?(?:\*|\{[^}]*\})[^;]*\bfrom\b/gm;
  const barrels = FILES.filter((file) => file !== 'index.ts').filter((file) => {
    const text = readFileSync(join(SRC, file), 'utf8');
    const passedOn = text.match(reExport) ?? [];
    const exported = text.match(/^export\b/gm) ?? [];
    return passedOn.some((line) => line.includes('*')) || (passedOn.length > 0 && passedOn.length === exported.length);
  });
  assert.deepEqual(
    barrels.map((file) => `src/${file} is a barrel; import the module that declares the name`),
    [],
  );
  assert.deepEqual(
    IMPORTS.filter(({ target }) => target === 'index').map(({ file }) => `src/${file} imports index.ts`),
    [],
  );
});

test('no import cycles', () => {
  const edges = new Map<string, string[]>();
  for (const { file, target } of IMPORTS) {
    const module = file.replace(/\.ts$/, '');
    if (target !== undefined) edges.set(module, [...(edges.get(module) ?? []), target]);
  }
  const done = new Set<string>();
  const cycles: string[] = [];
  function visit(module: string, trail: readonly string[]): void {
    if (trail.includes(module)) {
      cycles.push([...trail.slice(trail.indexOf(module)), module].join(' -> '));
      return;
    }
    if (done.has(module)) return;
    for (const target of edges.get(module) ?? []) visit(target, [...trail, module]);
    done.add(module);
  }
  for (const module of edges.keys()) visit(module, []);
  assert.deepEqual(cycles, []);
});

function withoutComments(text: string): string {
  return text.replace(/\/\*[\s\S]*?\*\/|\/\/.*/g, '');
}

function areaOf(module: string): string {
  return module.split('/', 1)[0] ?? '';
}

/** The name of an order that a module is in: a folder of a folder before the folder itself. */
function roomOf(module: string, order: readonly string[]): string | undefined {
  const parts = module.split('/');
  const names = [parts.slice(1, 3).join('/'), parts[1] ?? ''];
  return names.find((name) => order.includes(name));
}

function isNodeModule(specifier: string): boolean {
  return specifier.startsWith('node:') || builtinModules.includes(specifier);
}
