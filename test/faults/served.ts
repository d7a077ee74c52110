import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { jsonOrUndefined } from '../../src/lib/json/json-text.js';
import { field } from '../support/http.js';
import type { World } from './world.js';

/** Says of each instance, by its log, whether it ever served a commit that the gate had to refuse. */
export async function judgeServed(
  dir: string,
  { instances, policy, hasGate }: Pick<World, 'instances' | 'policy' | 'hasGate'>,
  failures: string[],
): Promise<void> {
  if (!hasGate) return;
  for (const { program } of instances) {
    let served = 0;
    for (const line of (await readFile(join(dir, `${program.name}.log`), 'utf8')).split('\n')) {
      if (!line.includes('policy commit served')) continue;
      served++;
      const hash = String(field(jsonOrUndefined(line), 'hash'));
      if (policy.broken.has(hash)) failures.push(`${program.name} served ${hash}, which does not compile`);
    }
    if (served === 0) failures.push(`the log of ${program.name} says of no commit that it was served`);
  }
}
