import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdir, readFile, symlink, writeFile } from 'node:fs/promises';
import { builtinModules, createRequire } from 'node:module';
import { join, posix } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { promisify } from 'node:util';
import { installedPackage } from '../support/installed-package.js';
import { repoRoot } from '../support/repo.js';
import { type TempDir, tempDir } from '../support/temp-dir.js';

const exec = promisify(execFile);
const ROOT = repoRoot();
/** Longest time of one command; compiling is the longest. */
const TIMEOUT_MS = 300_000;

/** What package.json says, as far as a package is judged by it. */
interface Manifest {
  name: string;
  version: string;
  bin: Record<string, string>;
  exports: { '.': { types: string; default: string } };
  files: string[];
  engines: { node: string };
  dependencies: Record<string, string>;
  peerDependencies: Record<string, string>;
}

const MANIFEST = createRequire(import.meta.url)(join(ROOT, 'package.json')) as Manifest;
const TSC = join(ROOT, 'node_modules', 'typescript', 'bin', 'tsc');

function node(cwd: string, ...args: string[]): Promise<{ stdout: string; stderr: string }> {
  const { PATH = '', HOME = '' } = process.env;
  return exec(process.execPath, args, { cwd, env: { PATH, HOME }, timeout: TIMEOUT_MS });
}

describe('the npm package', () => {
  const { project, folder } = installedPackage();
  let packed: readonly string[];
  let dir: TempDir;

  before(async () => {
    dir = await tempDir();
    const { stdout } = await exec('tar', ['-tzf', join(project, `${MANIFEST.name}-${MANIFEST.version}.tgz`)]);
    packed = stdout
      .trim()
      .split('\n')
      .map((path) => path.replace(/^package\//, ''));
    // A project that has this package alone.
    await mkdir(join(dir.path, 'node_modules'));
    await symlink(folder, join(dir.path, 'node_modules', MANIFEST.name));
    await writeFile(join(dir.path, 'package.json'), '{"type":"module"}');
  });

  after(() => dir[Symbol.asyncDispose]());

  it('has the files that package.json names', () => {
    const { types, default: main } = MANIFEST.exports['.'];
    const named = [types, main, ...Object.values(MANIFEST.bin)].map((path) => path.replace(/^\.\//, ''));
    const single = MANIFEST.files.filter((file) => !file.endsWith('dist') && !file.startsWith('!'));
    const engine = ['opa.wasm.br', 'wasm_exec.js', 'NOTICE', 'LICENSES.txt'].map((file) => `engine/dist/${file}`);
    const wanted = [...named, ...single, ...engine];
    assert.deepEqual(
      wanted.filter((file) => !packed.some((one) => one === file || one.startsWith(`${file}/`))),
      [],
      'missing',
    );
  });

  it('has nothing that a user has no use for', () => {
    const allowed =
      /^(?:dist\/(?!.*\.test\.).*\.(?:js|cjs|d\.ts)|dist\/THIRD-PARTY-LICENSES\.txt|dist\/docs-ui\/[\w.-]+|dist\/ui\/(?:index\.html(?:\.br)?|assets\/[\w.-]+\.(?:js|css)\.br)|engine\/dist\/(?:opa\.wasm\.br|wasm_exec\.js|NOTICE|LICENSES\.txt)|schema\/[\w.-]+\.json|(?:deploy|examples)\/[\w./-]+|docs\/(?:(?:start|how-to|reference|why|internals)\/)?[\w-]+\.md|docs\/images\/[\w-]+\.(?:svg|png|webp)|bench\/README\.md|package\.json|[A-Z]+(?:\.md)?)$/;
    assert.deepEqual(
      packed.filter((file) => !allowed.test(file)),
      [],
    );
    assert(packed.length > 50, `only ${packed.length} files`);
  });

  it('has its documentation inside: each relative link of a page leads to a file of the package', async () => {
    const pages = packed.filter((file) => file.endsWith('.md'));
    assert(pages.includes('docs/README.md') && pages.length > 30, `only ${pages.join(' ')}`);
    const dead: string[] = [];
    for (const page of pages) {
      const text = (await readFile(join(folder, page), 'utf8')).replace(/^```.*?^```/gms, '');
      for (const [, inText, inTag] of text.matchAll(/\]\(([^)\s]+)\)|\b(?:src|srcset|href)="([^"]+)"/g)) {
        const [target = ''] = (inText ?? inTag ?? '').split('#');
        if (target === '' || /^[a-z]+:/.test(target)) continue;
        const path = posix.join(posix.dirname(page), target).replace(/\/$/, '');
        if (!packed.some((file) => file === path || file.startsWith(`${path}/`))) dead.push(`${page}: ${target}`);
      }
    }
    assert.deepEqual(dead, []);
  });

  it('imports node:http by `require` alone: an import has Node 24 load a part of itself that nothing here uses', async () => {
    const files = packed.filter((file) => /^dist\/(?!(?:docs-)?ui\/).*\.js$/.test(file));
    const texts = await Promise.all(files.map((file) => readFile(join(folder, file), 'utf8')));
    const importing = files.filter((_, at) => /\b(?:from|import\(?)\s*(["'])(?:node:)?http\1/.test(texts[at] ?? ''));
    assert.deepEqual(importing, []);
    assert(texts.some((text) => text.includes('require("node:http")')));
  });

  it('asks for no package but those that npm installs with it, and optional peers', async () => {
    const { dependencies, peerDependencies } = MANIFEST;
    const known = new Set([...builtinModules, ...Object.keys({ ...dependencies, ...peerDependencies })]);
    // An import, or a `require` that the bundle left: one that was made for a file of ours.
    const asked = /(?:\bfrom|\bimport\(?|\(import\.meta\.url\)\()(["'])((?:@[\w-]+\/)?[\w-]+)(?:\/[\w./-]+)?\1/g;
    const files = packed.filter((file) => /^dist\/(?!(?:docs-)?ui\/).*\.c?js$/.test(file));
    const unknown: string[] = [];
    for (const file of files) {
      const text = await readFile(join(folder, file), 'utf8');
      for (const [, , name = ''] of text.matchAll(asked)) if (!known.has(name)) unknown.push(`${file}: ${name}`);
    }
    assert(files.length > 30);
    assert.deepEqual(unknown, []);
  });

  it('has the licence of each package that is part of its files', async () => {
    const text = await readFile(join(folder, 'dist', 'THIRD-PARTY-LICENSES.txt'), 'utf8');
    const sections = text.split(/^={80}\n/m).filter((section) => section !== '');
    const names = sections.map((section) => section.split(' ', 1)[0]);
    for (const name of ['fastify', 'jose', 'pino', 'pino-pretty', 'preact', 'undici', 'ws', 'zod'])
      assert(names.includes(name), `${name} is missing`);
    const without = sections.filter(
      (section) =>
        !/Permission|Redistribution|Apache License|into the public domain|Copyright \S.*https?:/i.test(section),
    );
    assert.deepEqual(without, []);
  });

  it('is tested on each Node that it supports', async () => {
    const list = await readFile(join(ROOT, 'scripts', 'lib', 'node-versions.mjs'), 'utf8');
    const tested = [...list.matchAll(/\['(\d+)', '/g)].map(([, major]) => major);
    const supported = MANIFEST.engines.node.split(' || ').map((range) => /\d+/.exec(range)?.[0]);
    const [, newest] = /^export const NEWEST = '(\d+)';$/m.exec(list) ?? [];
    assert.equal(tested[0], newest, 'the newest long-term version comes first');
    assert.deepEqual(supported, tested);
    // The newest long-term version has the whole suite.
    const ci = await readFile(join(ROOT, '.ci', 'run'), 'utf8');
    const stages = /^if .*; then set -- (.*); fi$/m.exec(ci)?.[1]?.split(' ') ?? [];
    const others = tested.filter((major) => major !== newest).map((major) => `node-${major}`);
    assert.deepEqual(stages.toSorted(), ['check', 'suite', ...others].toSorted());
  });

  it('imports as a library, and importing it does nothing', async () => {
    await writeFile(
      join(dir.path, 'import.mjs'),
      `// The pipe is where this program writes to; requests of the module loader end by themselves.
const ours = (kind) => kind !== 'PipeWrap' && !kind.endsWith('Req') && !kind.startsWith('FSReq');
const seen = () => ({
  open: process.getActiveResourcesInfo().filter(ours), listeners: process.eventNames().map(String).sort(), env: { ...process.env },
});
const before = seen();
const library = await import('${MANIFEST.name}');
await new Promise((resolve) => setImmediate(resolve));
const types = [typeof library.createServer, typeof library.createClient];
console.log(JSON.stringify({ before, after: seen(), names: Object.keys(library), types }));
`,
    );
    // That it ends by itself says that nothing was left open.
    const { stdout, stderr } = await node(dir.path, 'import.mjs');
    assert.equal(stderr, '');
    const answer = JSON.parse(stdout) as {
      before: object;
      after: { open: string[] };
      names: string[];
      types: string[];
    };
    assert.deepEqual(answer.types, ['function', 'function'], `it has ${answer.names.join(', ')}`);
    assert.deepEqual(answer.after, answer.before);
    assert.deepEqual(answer.after.open, []);
  });

  it('has types that a strict project compiles with that has no other package', async () => {
    await writeFile(
      join(dir.path, 'use.ts'),
      `import { type Client, type ClientSettings, createClient, createServer, type Server, type ServerSettings } from '${MANIFEST.name}';
import { policyGuard } from '${MANIFEST.name}/express';
export const server = (...args: Parameters<typeof createServer>): Server => createServer(...args);
export const client = (...args: Parameters<typeof createClient>): Client => createClient(...args);
// @ts-expect-error options are not optional
createServer();
export const guard = policyGuard;
type IsAny<T> = 0 extends 1 & T ? true : false;
type Settings = ServerSettings & ClientSettings;
export const isAny: { [K in keyof Settings]: IsAny<Settings[K]> }[keyof Settings] = false;
`,
    );
    const options = {
      strict: true,
      module: 'nodenext',
      target: 'es2023',
      types: ['node'],
      typeRoots: [join(ROOT, 'node_modules', '@types')],
      noEmit: true,
      skipLibCheck: false,
    };
    await writeFile(join(dir.path, 'tsconfig.json'), JSON.stringify({ compilerOptions: options, files: ['use.ts'] }));
    await node(dir.path, TSC, '-p', '.').catch((error: Error & { stdout?: string }) => {
      assert.fail(`it does not compile:\n${error.stdout}`);
    });
  });
});
