import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { cpSync, existsSync, mkdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { build } from './build.mjs';
import { Fatal } from './run.mjs';
import { filesBelow } from './test-files.mjs';
import { uiSources } from './ui.mjs';

const exec = promisify(execFile);
const LIMIT_MS = 10 * 60_000;

/**
 * Installs the package as it ships into `folder`, which it replaces: built, packed by npm, and installed into an empty folder
 * with its production dependencies and its optional peers alone, in the versions of our lock file. Nothing is done where the
 * folder has it already. The tarball stays in the folder, for tests that install it otherwise.
 */
export async function installPackage(root, folder) {
  const key = keyOf(root);
  const keyFile = join(folder, '.made-of');
  if (existsSync(keyFile) && readFileSync(keyFile, 'utf8') === key) return;
  const made = `${folder}-${process.pid}`;
  rmSync(made, { recursive: true, force: true });
  mkdirSync(made, { recursive: true });
  try {
    const tarball = await pack(root, made);
    writeProject(root, made, tarball);
    await npm(made, 'ci', '--omit=dev', '--prefer-offline', '--no-audit', '--no-fund');
    writeFileSync(join(made, '.made-of'), key);
    rmSync(folder, { recursive: true, force: true });
    renameSync(made, folder);
  } finally {
    rmSync(made, { recursive: true, force: true });
  }
}

/** Builds and packs; answers the name of the tarball in `folder`. */
async function pack(root, folder) {
  const stage = join(folder, 'stage');
  mkdirSync(stage);
  const { files } = manifestOf(root);
  for (const file of ['package.json', '.gitignore', ...files]) {
    if (file !== 'dist') cpSync(join(root, file), join(stage, file), { recursive: true });
  }
  await build(root, { out: join(stage, 'dist'), types: true, unbundled: false, toShip: true });
  // The build is done: "prepack" would do it again.
  const { stdout } = await npm(stage, 'pack', '--ignore-scripts', '--json', '--pack-destination', folder);
  const [{ filename }] = JSON.parse(stdout);
  rmSync(stage, { recursive: true });
  return filename;
}

/** A project that depends on the tarball and the optional peers, and its lock file: what they need, of ours. */
function writeProject(root, folder, tarball) {
  const { name, version, bin, engines, dependencies, peerDependencies, peerDependenciesMeta } = manifestOf(root);
  const wanted = { [name]: `file:${tarball}`, ...peerDependencies };
  const project = { name: 'installed', version: '0.0.0', private: true, dependencies: wanted };
  const { lockfileVersion, packages } = JSON.parse(readFileSync(join(root, 'package-lock.json'), 'utf8'));
  const own = {
    ...{ version, resolved: `file:${tarball}`, bin, engines },
    ...{ dependencies, peerDependencies, peerDependenciesMeta },
  };
  const lock = {
    name: project.name,
    version: project.version,
    lockfileVersion,
    requires: true,
    packages: {
      '': project,
      [`node_modules/${name}`]: own,
      ...needed(packages, Object.keys({ ...dependencies, ...peerDependencies })),
    },
  };
  for (const [file, content] of Object.entries({ 'package.json': project, 'package-lock.json': lock })) {
    writeFileSync(join(folder, file), `${JSON.stringify(content, null, 2)}\n`);
  }
}

/** The packages of a lock file that these names need, no longer marked as being for development. */
function needed(packages, names) {
  const found = {};
  const add = (from, name) => {
    const path = placeOf(packages, from, name);
    if (path === undefined || path in found) return;
    const { dev: _dev, devOptional: _devOptional, peer: _peer, ...entry } = packages[path];
    found[path] = entry;
    for (const next of Object.keys({ ...entry.dependencies, ...entry.optionalDependencies })) add(path, next);
  };
  for (const name of names) add('', name);
  return found;
}

/** Where a package finds another: in its own folder or in one of those above; undefined where an optional one is left out. */
function placeOf(packages, from, name) {
  for (let folder = from; ; folder = folder.slice(0, Math.max(folder.lastIndexOf('/node_modules/'), 0))) {
    const path = `${folder === '' ? '' : `${folder}/`}node_modules/${name}`;
    if (path in packages) return path;
    if (folder === '') return undefined;
  }
}

async function npm(cwd, ...args) {
  try {
    return await exec('npm', args, { cwd, timeout: LIMIT_MS });
  } catch (error) {
    const said = `${error.stderr ?? error.message}`.trim();
    throw new Fatal(`The package cannot be installed for the tests: npm ${args[0]} failed.\n${said}`, { cause: error });
  }
}

/** A hash of all that the package and its installation are made of. */
function keyOf(root) {
  const { files } = manifestOf(root);
  const sources = filesBelow(join(root, 'src')).filter((file) => !file.endsWith('.test.ts'));
  const scripts = ['build.mjs', 'bundle.mjs', 'docs-ui.mjs', 'install-package.mjs', 'public-types.mjs', 'ui.mjs'].map(
    (file) => `scripts/lib/${file}`,
  );
  const hash = createHash('sha256');
  for (const file of [
    ...['package.json', 'package-lock.json', 'tsconfig.json', 'tsconfig.build.json'],
    ...files.filter((file) => file !== 'dist').flatMap((file) => filesAt(root, file)),
    ...scripts,
    ...sources.map((file) => `src/${file}`),
    ...uiSources(root).filter((file) => !file.startsWith('src/')),
  ]) {
    const content = readFileSync(join(root, file));
    hash.update(`${file} ${content.length}\n`).update(content);
  }
  return hash.digest('hex');
}

/** A file itself, or all files of a folder. */
function filesAt(root, path) {
  if (statSync(join(root, path)).isFile()) return [path];
  return filesBelow(join(root, path)).map((file) => `${path}/${file}`);
}

function manifestOf(root) {
  return JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
}
