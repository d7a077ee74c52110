import { join } from 'node:path';
import { installedPackage } from './installed-package.js';

/**
 * The program that a test starts: that of the package as it ships, installed by `npm test` and `npm run test:faults` into a
 * folder of its own.
 */
export function programFile(program: 'server' | 'client' | 'policysync'): string {
  const { folder, bin } = installedPackage();
  return join(folder, bin[program === 'policysync' ? program : (`sync-${program}` as const)]);
}
