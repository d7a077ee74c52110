import { readFileSync } from 'node:fs';
import { join } from 'node:path';

/** The package as it ships, where scripts/lib/install-package.mjs installed it. */
export interface InstalledPackage {
  /** The project that has it as its only dependency. */
  readonly project: string;
  /** The package itself. */
  readonly folder: string;
  /** The package as a file, which `npm install` takes. */
  readonly tarball: string;
  readonly bin: Readonly<Record<'policysync' | 'sync-server' | 'sync-client', string>>;
  /** What `import 'policysync'` loads. */
  readonly main: string;
}

/** Where the package is, by what its own package.json says. */
export function installedPackage(): InstalledPackage {
  const project = join(import.meta.dirname, '..', '..', 'installed');
  const folder = join(project, 'node_modules', 'policysync');
  const { bin, exports, version } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')) as {
    bin: InstalledPackage['bin'];
    version: string;
    exports: { '.': { default: string } };
  };
  const tarball = join(project, `policysync-${version}.tgz`);
  return { project, folder, tarball, bin, main: join(folder, exports['.'].default) };
}
