import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, readFile, rename, rm, symlink } from 'node:fs/promises';
import { homedir } from 'node:os';
import { isAbsolute, join } from 'node:path';
import { promisify } from 'node:util';

const run = promisify(execFile);

/** The programs of this tree as they are shipped (scripts/build.mjs), in a folder. Answers the folder with `server.js` and `client.js`. */
export async function builtPrograms(root: string, out: string): Promise<string> {
  await run(process.execPath, [join(root, 'scripts', 'build.mjs'), '--no-types', '--out', out], { cwd: root });
  return join(out, 'cli');
}

/**
 * The programs of another revision, built in the user's cache folder: once for each commit. Its packages are those of this tree
 * where both have the same lock file. Answers the folder with `server.js` and `client.js`.
 */
export async function builtRevision(root: string, revision: string): Promise<string> {
  const { stdout } = await run('git', ['-C', root, 'rev-parse', '--verify', `${revision}^{commit}`]);
  const commit = stdout.trim();
  const { XDG_CACHE_HOME: xdg = '' } = process.env;
  const cache = join(isAbsolute(xdg) ? xdg : join(homedir(), '.cache'), 'policysync', 'bench');
  const target = join(cache, commit);
  if (!existsSync(target)) {
    await mkdir(cache, { recursive: true });
    const temp = await mkdtemp(join(cache, 'tmp-'));
    try {
      await build(root, commit, temp);
      await rename(temp, target);
    } finally {
      await rm(temp, { recursive: true, force: true });
    }
  }
  return join(target, 'dist', 'cli');
}

async function build(root: string, commit: string, dir: string): Promise<void> {
  // The files alone: a registered work tree would stay in the list of the repository.
  const archive = join(dir, 'tree.tar');
  await run('git', ['-C', root, 'archive', `--output=${archive}`, commit]);
  await run('tar', ['-xf', archive, '-C', dir]);
  await rm(archive);
  const lock = (at: string): Promise<string> => readFile(join(at, 'package-lock.json'), 'utf8');
  const modules = join(root, 'node_modules');
  if ((await lock(root)) === (await lock(dir))) await symlink(modules, join(dir, 'node_modules'));
  else await run('npm', ['ci', '--no-audit', '--no-fund'], { cwd: dir });
  if (existsSync(join(dir, 'scripts', 'build.mjs'))) await builtPrograms(dir, join(dir, 'dist'));
  else
    await run(process.execPath, [join(modules, 'typescript', 'bin', 'tsc'), '-p', 'tsconfig.build.json'], { cwd: dir });
}
