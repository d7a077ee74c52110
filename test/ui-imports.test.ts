import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, posix, sep } from 'node:path';
import { test } from 'node:test';
import { repoRoot } from './support/repo.js';

/** Who may import whom inside `ui/src`; a target is a folder or a module of it. `types` may be imported as types only. */
const TABLE: readonly { of: string; may: readonly string[]; types?: readonly string[]; rule: string }[] = [
  { of: 'styles', may: [], rule: 'styles import nothing' },
  { of: 'stream', may: [], rule: 'the stream knows nothing of what is drawn' },
  { of: 'router', may: [], rule: 'the routes know no page' },
  { of: 'api', may: [], types: ['router'], rule: 'the api knows no page' },
  { of: 'now', may: [], rule: 'the clock knows no page' },
  { of: 'session', may: ['api'], rule: 'the session asks the api' },
  { of: 'app', may: [], types: ['api', 'router', 'session', 'stream'], rule: 'app has types only' },
  {
    of: 'parts',
    may: ['api', 'router', 'session'],
    types: ['app', 'stream'],
    rule: 'parts are what pages are made of: they know no page and not the frame',
  },
  { of: 'charts', may: ['parts'], rule: 'charts are what pages draw curves with: they know no page' },
  {
    of: 'pages',
    may: ['parts', 'charts', 'api', 'router', 'session', 'stream/pending'],
    types: ['app', 'stream'],
    rule: 'a page knows parts and itself: no other page, and not the frame',
  },
  {
    of: 'frame',
    may: ['parts', 'pages/table', 'pages/sign-in/index', 'api', 'router', 'session'],
    types: ['app', 'stream'],
    rule: 'the frame knows pages by their table',
  },
  {
    of: 'main',
    may: ['styles', 'frame', 'stream', 'api', 'router', 'session', 'now'],
    types: ['app'],
    rule: 'main makes every part; pages come with the frame',
  },
];
/** What the page has of others: they have to be small, since the browser loads all of it. */
const PACKAGES = new Set(['preact', 'preact/hooks', '@preact/signals']);
/** Packages for one folder only. */
const PACKAGES_OF: Readonly<Record<string, readonly string[]>> = {
  'pages/instances': ['uplot', 'uplot/dist/uPlot.min.css'],
};

const UI = join(repoRoot(), 'ui', 'src');
const FILES = readdirSync(UI, { recursive: true, encoding: 'utf8' })
  .map((file) => file.split(sep).join('/'))
  .filter((file) => /\.tsx?$/.test(file));

interface Import {
  readonly file: string;
  readonly specifier: string;
  readonly isType: boolean;
  /** The module below `ui/src`, or with `../` before it, without ending; undefined: a package. */
  readonly target: string | undefined;
}

const IMPORTS: readonly Import[] = FILES.flatMap((file) => {
  const content = readFileSync(join(UI, file), 'utf8');
  const pattern = /(?:^|\n)\s*(?:import|export)\b[^'";]*?\bfrom\s*'([^']+)'|\bimport\s*\(?\s*'([^']+)'/g;
  return [...content.matchAll(pattern)].map((match) => {
    const specifier = match[1] ?? match[2] ?? '';
    const isType = /^\s*(?:import|export)\s+type\b/.test(match[0]);
    const target = specifier.startsWith('.')
      ? posix.join(dirname(file), specifier).replace(/\.(?:js|css)$/, '')
      : undefined;
    return { file, specifier, isType, target };
  });
});

test('reads the imports of the page', () => {
  assert(FILES.length > 30, `only ${FILES.length} files below ui/src/`);
  assert(IMPORTS.some(({ file, target, isType }) => file === 'app.ts' && target === 'stream/store' && isType));
});

test('the page has few packages, and of src the rules of the fleet and the types of the wire', () => {
  const broken = IMPORTS.filter(({ file, specifier, isType, target }) => {
    if (target === undefined) return !PACKAGES.has(specifier) && !(PACKAGES_OF[pageOf(file)] ?? []).includes(specifier);
    if (!target.startsWith('../')) return false;
    return !target.startsWith('../../src/fleet-rules/') && !(isType && target.startsWith('../../src/wire/'));
  });
  assert.deepEqual(broken.map(told), []);
});

test('inside the page every import follows the table of who may import whom', () => {
  const broken = IMPORTS.flatMap((found) => {
    const { file, isType, target } = found;
    if (target === undefined || target.startsWith('../')) return [];
    const row = TABLE.find(({ of }) => isIn(file.replace(/\.tsx?$/, ''), of));
    if (row === undefined) return [`ui/src/${file} is in no row of the table: add one or move the file`];
    if (isOwn(file, target)) return [];
    const allowed = [...row.may, ...(isType ? (row.types ?? []) : [])].some((name) => isIn(target, name));
    return allowed ? [] : [`${told(found)}; rule: ${row.rule}`];
  });
  assert.deepEqual(broken, []);
});

/** Classes of a state that the frame sets for every page to look at. */
const SHARED_CLASSES = new Set(['stale']);

test('a class has its style in one sheet: the sheets of all pages are one in the browser', () => {
  const sheetsOf = new Map<string, Set<string>>();
  for (const file of readdirSync(UI, { recursive: true, encoding: 'utf8' }).filter((name) => name.endsWith('.css'))) {
    for (const name of outerClasses(readFileSync(join(UI, file), 'utf8'))) {
      sheetsOf.set(name, (sheetsOf.get(name) ?? new Set()).add(file.split(sep).join('/')));
    }
  }
  const twice = [...sheetsOf].filter(([name, sheets]) => sheets.size > 1 && !SHARED_CLASSES.has(name));
  assert(sheetsOf.size > 50);
  assert.deepEqual(
    twice.map(
      ([name, sheets]) => `.${name} is in ${[...sheets].join(' and ')}: rename it, or begin with a class of the page`,
    ),
    [],
  );
});

/** The class that each selector of a sheet begins with. */
function outerClasses(sheet: string): Set<string> {
  const selectors = sheet.replace(/\/\*[\s\S]*?\*\//g, '').matchAll(/(?:^|[{};,])\s*\.([\w-]+)[^{};,]*(?=[{,])/g);
  return new Set([...selectors].map(([, name = '']) => name));
}

/** A page is its folder; the table of pages has all of them. */
function isOwn(file: string, target: string): boolean {
  if (file === 'pages/table.ts') return target.startsWith('pages/');
  return pageOf(file) === pageOf(target);
}

function pageOf(file: string): string {
  const [area = '', page = ''] = file.split('/');
  return area === 'pages' ? `${area}/${page}` : area;
}

function isIn(module: string, name: string): boolean {
  return module === name || module.startsWith(`${name}/`);
}

function told({ file, specifier }: Import): string {
  return `ui/src/${file} imports ${specifier}`;
}
