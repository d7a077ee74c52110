import { readFileSync } from 'node:fs';
import { join } from 'node:path';

/** The package as it ships, where scripts/lib/install-package.mjs installed it. */
export interface InstalledPackage {
  /** The project that has it as its only dependency. */
  readonly project: string;
  /** The package itself. */
  readonly folder: string;
  readonly bin: Readonly<Record<'sync-server' | 'sync-client', string>>;
  /** What `import 'policysync'` loads. */
  readonly main: string;
}

/** Where the package is, by what its own package.json says. */
export function installedPackage(): InstalledPackage {
  const project = join(import.meta.dirname, '..', '..', 'installed');
  const folder = join(project, 'node_modules', 'policysync');
  const { bin, exports } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')) as {
    bin: InstalledPackage['bin'];
    exports: { '.': { default: string } };
  };
  return { project, folder, bin, main: join(folder, exports['.'].default) };
}
