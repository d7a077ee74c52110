import { existsSync, readFileSync } from 'node:fs';
import { basename, dirname, join, resolve } from 'node:path';
import * as z from 'zod';
import { parseJson } from '../../../lib/json/json.js';
import { shellWord } from '../../../lib/run/shell-word.js';

/** Where the program is called, and what it knows of itself. */
export interface Invocation {
  readonly env: NodeJS.ProcessEnv;
  /** The absolute path of the folder in which the commands run that follow. */
  readonly folder: string;
  /** The folder of this package. */
  readonly packageFolder: string;
  /** How it is called without npx. */
  own(): readonly string[];
}

/** What npx notes of the packages in a folder of its cache. */
const NpxManifest = z.object({ dependencies: z.object({ policysync: z.string() }) });

/**
 * How a shell calls this very package again. `npx policysync` alone is right in a folder that has
 * it: anywhere else npm would run what the registry has under this name.
 */
export function calledAs({ env, folder, packageFolder, own }: Invocation): string {
  if (env.npm_command === 'exec') {
    const given = env.npm_config_package ?? '';
    if (given !== '') return npxOf(/^\.{0,2}\//.test(given) ? resolve(given) : given);
    if (projectOf(folder) === installedIn(packageFolder)) return 'npx policysync';
    const source = npxSource(packageFolder);
    if (source !== undefined) return npxOf(source);
  }
  return own().map(shellWord).join(' ');
}

/** Whether a folder is in the cache of npx, which npm may empty, and which belongs to one user. */
export function isInNpxCache(packageFolder: string): boolean {
  const installed = installedIn(packageFolder);
  return installed !== undefined && basename(dirname(installed)) === '_npx';
}

/** Without a question: it is the package that runs already. */
function npxOf(source: string): string {
  return `npx --yes --package ${shellWord(source)} policysync`;
}

/** The folder whose `node_modules` has the package; undefined in a checkout. */
function installedIn(packageFolder: string): string | undefined {
  const modules = dirname(packageFolder);
  return basename(modules) === 'node_modules' ? dirname(modules) : undefined;
}

/** The folder where npm looks for packages, from a folder on. */
function projectOf(folder: string): string | undefined {
  for (let at = folder; ; at = dirname(at)) {
    if (existsSync(join(at, 'package.json')) || existsSync(join(at, 'node_modules'))) return at;
    if (at === dirname(at)) return undefined;
  }
}

/**
 * What npx got a package of its cache from: an absolute file, or a version in the registry;
 * undefined where it does not say.
 */
function npxSource(packageFolder: string): string | undefined {
  const installed = installedIn(packageFolder);
  if (installed === undefined || !isInNpxCache(packageFolder)) return undefined;
  const spec = npxSpec(join(installed, 'package.json'));
  if (spec === undefined) return undefined;
  if (!spec.startsWith('file:')) return `policysync@${spec}`;
  const file = resolve(installed, spec.slice('file:'.length));
  return existsSync(file) ? file : undefined;
}

function npxSpec(file: string): string | undefined {
  try {
    return NpxManifest.parse(parseJson(readFileSync(file, 'utf8'))).dependencies.policysync;
  } catch {
    return undefined; // another npm may note it in another way: the program is then called by its file
  }
}
