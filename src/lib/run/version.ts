import { existsSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { parseJson } from '../json/json.js';

/** What the `package.json` of this package says, as far as the program needs it. */
export interface PackageManifest {
  readonly version: string;
  /** The programs: files relative to its folder. */
  readonly bin: Readonly<Record<'policysync', string>>;
  /** Packages that are not brought along, with the versions that work. */
  readonly peerDependencies?: Readonly<Record<string, string>>;
}

/** The nearest `package.json` above this file. */
export function packageManifest(): PackageManifest {
  return parseJson(readFileSync(join(packageFolder(), 'package.json'), 'utf8')) as PackageManifest;
}

/** The version of this package. */
export function packageVersion(): string {
  return packageManifest().version;
}

/** The folder of this package, installed or checked out. */
export function packageFolder(): string {
  for (let folder = import.meta.dirname; ; folder = dirname(folder)) {
    if (existsSync(join(folder, 'package.json'))) return folder;
    if (folder === dirname(folder)) throw new Error('package.json of this program was not found');
  }
}
