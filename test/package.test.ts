import assert from 'node:assert/strict';
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { copyFile, mkdir, readFile, symlink, writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { promisify } from 'node:util';
import { repoRoot } from './support/repo.js';
import { type TempDir, tempDir } from './support/temp-dir.js';
import { until } from './support/until.js';

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
  dependencies: Record<string, string>;
}

const MANIFEST = createRequire(import.meta.url)(join(ROOT, 'package.json')) as Manifest;
const TSC = join(ROOT, 'node_modules', 'typescript', 'bin', 'tsc');

function node(cwd: string, ...args: string[]): Promise<{ stdout: string; stderr: string }> {
  const { PATH = '', HOME = '' } = process.env;
  return exec(process.execPath, args, { cwd, env: { PATH, HOME }, timeout: TIMEOUT_MS });
}

/**
 * A project that has the packed package. It is unpacked and not installed, with links to the dependencies that it names
 * and to no others: so it needs no registry, and an import of something that is not named fails.
 */
describe('the npm package', () => {
  let dir: TempDir;
  let project: string;
  let packed: readonly string[];
  let installed: string;

  before(async () => {
    dir = await tempDir();
    const stage = join(dir.path, 'stage');
    await mkdir(stage);
    for (const file of ['package.json', '.gitignore', ...MANIFEST.files]) {
      if (file.startsWith('!') || file === 'dist' || !existsSync(join(ROOT, file))) continue;
      await copyFile(join(ROOT, file), join(stage, file));
    }
    const dist = join(stage, 'dist');
    await node(ROOT, join(ROOT, 'scripts', 'build.mjs'), '--out', dist);
    const pack = await exec('npm', ['pack', '--ignore-scripts', '--json'], { cwd: stage, timeout: TIMEOUT_MS });
    const [answer] = JSON.parse(pack.stdout) as { filename: string; files: { path: string }[] }[];
    assert(answer !== undefined);
    packed = answer.files.map(({ path }) => path);

    project = join(dir.path, 'project');
    installed = join(project, 'node_modules', MANIFEST.name);
    await mkdir(installed, { recursive: true });
    await exec('tar', ['-xzf', join(stage, answer.filename), '--strip-components=1', '-C', installed]);
    for (const name of [...Object.keys(MANIFEST.dependencies), '@types/node']) {
      const link = join(project, 'node_modules', name);
      await mkdir(dirname(link), { recursive: true });
      await symlink(join(ROOT, 'node_modules', name), link);
    }
    await writeFile(join(project, 'package.json'), '{"type":"module"}');
  });

  after(() => dir[Symbol.asyncDispose]());

  it('has the files that package.json names', () => {
    const { types, default: main } = MANIFEST.exports['.'];
    const named = [types, main, ...Object.values(MANIFEST.bin)].map((path) => path.replace(/^\.\//, ''));
    const wanted = [...named, ...MANIFEST.files.filter((file) => file !== 'dist' && !file.startsWith('!'))];
    assert.deepEqual(
      wanted.filter((file) => !packed.includes(file)),
      [],
      'missing',
    );
  });

  it('has nothing that a user has no use for', () => {
    const allowed =
      /^(?:dist\/(?!.*\.test\.).*\.(?:js|d\.ts)|dist\/THIRD-PARTY-LICENSES\.txt|dist\/docs-ui\/[\w.-]+|package\.json|[A-Z]+(?:\.md)?)$/;
    assert.deepEqual(
      packed.filter((file) => !allowed.test(file)),
      [],
    );
    assert(packed.length > 50, `only ${packed.length} files`);
  });

  it('has the licence of each package that is part of its files', async () => {
    const text = await readFile(join(installed, 'dist', 'THIRD-PARTY-LICENSES.txt'), 'utf8');
    const sections = text.split(/^={80}\n/m).filter((section) => section !== '');
    const names = sections.map((section) => section.split(' ', 1)[0]);
    for (const name of ['fastify', 'pino', 'undici', 'ws', 'zod']) assert(names.includes(name), `${name} is missing`);
    const without = sections.filter(
      (section) => !/Permission|Redistribution|Apache License|Copyright .*https?:/i.test(section),
    );
    assert.deepEqual(without, []);
  });

  it('its server starts, with the update log in a thread of its own', async () => {
    const { 'sync-server': path = '' } = MANIFEST.bin;
    const args = [join(installed, path), 'run', '--server-bind-port', '0', '--state-dir', join(dir.path, 'state')];
    const { PATH = '', HOME = '' } = process.env;
    const server = spawn(process.execPath, args, {
      cwd: project,
      env: { PATH, HOME },
      stdio: ['ignore', 'ignore', 'pipe'],
    });
    const ended = once(server, 'exit');
    let log = '';
    try {
      server.stderr.setEncoding('utf8').on('data', (chunk: string) => {
        log += chunk;
      });
      await until(() => log.includes('"head":0') || server.exitCode !== null, {
        withinMs: TIMEOUT_MS,
        what: 'the server listens',
      });
    } finally {
      server.kill('SIGTERM');
    }
    assert.deepEqual([(await ended)[0], /"level":[56]0/.test(log)], [0, false], log);
  });

  for (const [name, path] of Object.entries(MANIFEST.bin)) {
    it(`${name} tells its version and its help`, async () => {
      const file = join(installed, path);
      assert.match(await readFile(file, 'utf8'), /^#!\/usr\/bin\/env node\n/);
      assert.equal((await node(project, file, '--version')).stdout, `${MANIFEST.version}\n`);
      const { stdout } = await node(project, file, '--help');
      assert.match(stdout, new RegExp(`^Usage: ${name} `));
      assert.match(stdout, /^ +run\b/m);
    });
  }

  it('imports as a library, and importing it does nothing', async () => {
    await writeFile(
      join(project, 'import.mjs'),
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
    const { stdout, stderr } = await node(project, 'import.mjs');
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

  it('has types that a strict project compiles with', async () => {
    await writeFile(
      join(project, 'use.ts'),
      `import { type Client, createClient, createServer, type Server } from '${MANIFEST.name}';
export const server = (...args: Parameters<typeof createServer>): Server => createServer(...args);
export const client = (...args: Parameters<typeof createClient>): Client => createClient(...args);
// @ts-expect-error options are not optional
createServer();
`,
    );
    const options = {
      strict: true,
      module: 'nodenext',
      target: 'es2023',
      types: ['node'],
      noEmit: true,
      skipLibCheck: true,
    };
    await writeFile(join(project, 'tsconfig.json'), JSON.stringify({ compilerOptions: options, files: ['use.ts'] }));
    await node(project, TSC, '-p', '.').catch((error: Error & { stdout?: string }) => {
      assert.fail(`it does not compile:\n${error.stdout}`);
    });
  });
});
