import { execFile } from 'node:child_process';
import { existsSync, mkdirSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { isAbsolute, join } from 'node:path';
import { promisify } from 'node:util';
import { Fatal } from './run.mjs';

const exec = promisify(execFile);
const LIMIT_MS = 10 * 60_000;

/** The newest long-term version: tests run on it, and figures are of it. */
export const NEWEST = '24';

/** Of the oldest one the first that is supported. */
export const NODE_VERSIONS = new Map([
  ['24', '24.21.0'],
  ['26', '26.10.0'],
  ['22', '22.23.3'],
  ['20', '20.19.0'],
]);

/**
 * Path of a Node: a path is taken as it is, a major version of {@link NODE_VERSIONS} is installed from the npm package `node` into
 * the user's cache folder, once.
 */
export async function nodeProgram(wanted) {
  const version = NODE_VERSIONS.get(wanted);
  if (version === undefined) {
    if (existsSync(wanted)) return wanted;
    const known = [...NODE_VERSIONS.keys()].join(', ');
    throw new Fatal(`There is no Node ${wanted}; give the path of one, or one of ${known}.`);
  }
  const folder = join(cacheFolder(), 'policysync', 'node', version);
  const program = join(folder, 'node_modules', 'node', 'bin', 'node');
  if (!existsSync(program)) await install(folder, version);
  const { stdout } = await exec(program, ['--version']);
  if (stdout.trim() !== `v${version}`) throw new Fatal(`${program} is Node ${stdout.trim()}; remove ${folder}`);
  return program;
}

async function install(folder, version) {
  const made = `${folder}-${process.pid}`;
  rmSync(made, { recursive: true, force: true });
  mkdirSync(made, { recursive: true });
  try {
    // The package's own script, which is named by it alone, puts the program of this machine into its place.
    const project = { private: true, allowScripts: { node: true, [`node@${version}`]: true } };
    writeFileSync(join(made, 'package.json'), JSON.stringify(project));
    await exec('npm', ['install', '--no-audit', '--no-fund', `node@${version}`], { cwd: made, timeout: LIMIT_MS });
    rmSync(folder, { recursive: true, force: true });
    renameSync(made, folder);
  } catch (error) {
    const said = `${error.stderr ?? error.message}`.trim();
    throw new Fatal(`Node ${version} cannot be had from its npm package:\n${said}`, { cause: error });
  } finally {
    rmSync(made, { recursive: true, force: true });
  }
}

/** As the product's own (src/lib/run/cache-folder.ts), which is not compiled yet where this runs. */
function cacheFolder() {
  const { XDG_CACHE_HOME: xdg = '' } = process.env;
  return isAbsolute(xdg) ? xdg : join(homedir(), '.cache');
}
