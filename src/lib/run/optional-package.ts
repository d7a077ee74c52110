import { SyncError } from '../errors.js';
import { packageManifest } from './version.js';

/** What {@link requirePackages} asks for; a test gives its own. */
export interface PackageLookUp {
  /** Versions that work with this package, by name. */
  readonly ranges: Readonly<Record<string, string>>;
  isInstalled(name: string): boolean;
}

/**
 * Fails with `package_missing` unless the packages are installed that `what` is reached by.
 * PolicySync does not bring them along: they are its optional peers. The message has the command
 * that installs them all, those that are there too, so that they fit.
 */
export function requirePackages(
  what: string,
  names: readonly string[],
  lookUp: PackageLookUp = { ranges: packageManifest().peerDependencies ?? {}, isInstalled },
): void {
  const missing = names.filter((name) => !lookUp.isInstalled(name));
  if (missing.length === 0) return;
  const wanted = names.map((name) => `${name}@${lookUp.ranges[name] ?? 'latest'}`).join(' ');
  const packages = `the package${missing.length > 1 ? 's' : ''} ${missing.join(' and ')}`;
  throw new SyncError('package_missing', `${what} needs ${packages}; install with: npm install ${wanted}`);
}

function isInstalled(name: string): boolean {
  try {
    import.meta.resolve(name);
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ERR_MODULE_NOT_FOUND') return false;
    throw error;
  }
}
