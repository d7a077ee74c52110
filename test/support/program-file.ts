import { join } from 'node:path';

/**
 * The program that a test starts: as it is shipped, in few files, which `npm test` and `npm run test:faults` put beside the
 * compiled tests. It starts in half the processor time of the compiled modules one by one.
 */
export function programFile(program: 'server' | 'client'): string {
  return join(import.meta.dirname, '..', '..', 'package', 'cli', `${program}.js`);
}
