import { mkdir, readFile, rmdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { until } from './until.js';

/** A control group of the kernel that limits the memory of the processes in it. `await using` removes it, empty. */
export interface MemoryGroup extends AsyncDisposable {
  /** A process enters it by writing its id here. */
  readonly procs: string;
  /** The most that its processes had together, with their files in the cache. */
  peakBytes(): Promise<number>;
}

/** Names of the files in both versions of control groups. */
const VERSIONS = [
  { root: '/sys/fs/cgroup/memory', limit: 'memory.limit_in_bytes', peak: 'memory.max_usage_in_bytes' },
  { root: '/sys/fs/cgroup', limit: 'memory.max', peak: 'memory.peak' },
];

/** Makes one; undefined where this process may not. */
export async function memoryGroup(limitBytes: number): Promise<MemoryGroup | undefined> {
  for (const { root, limit, peak } of VERSIONS) {
    const folder = join(root, `policysync-test-${process.pid}`);
    try {
      await mkdir(folder);
    } catch {
      continue; // no such version here, or nobody may make a group
    }
    try {
      await writeFile(join(folder, limit), String(limitBytes));
    } catch {
      await rmdir(folder); // a folder that is no group, or a group without memory
      continue;
    }
    const procs = join(folder, 'cgroup.procs');
    return {
      procs,
      peakBytes: async () => Number(await readFile(join(folder, peak), 'utf8')),
      [Symbol.asyncDispose]: async () => {
        const isEmpty = async (): Promise<boolean> => (await readFile(procs, 'utf8')) === '';
        await until(isEmpty, { withinMs: 20_000, what: 'the group is empty' });
        await rmdir(folder);
      },
    };
  }
  return undefined;
}
