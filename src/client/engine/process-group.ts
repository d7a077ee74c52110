import { backoffMs, sleep } from '../../lib/async.js';

/** Whether a child can have its own process group; Windows has none. */
export const HAS_PROCESS_GROUPS = process.platform !== 'win32';

/** Sends a signal to a child's whole group (started `detached`); returns false if the group is empty. */
export function signalGroup(pid: number, signal: NodeJS.Signals | 0): boolean {
  if (!(pid > 1)) throw new RangeError(`${pid} is no process id of a child`); // 0 and -1 mean groups that are not ours
  try {
    process.kill(HAS_PROCESS_GROUPS ? -pid : pid, signal);
    return true;
  } catch {
    // ESRCH: the group is empty. EPERM: the id has a new owner, so our child is gone.
    return false;
  }
}

/**
 * Ends a group: SIGTERM, then SIGKILL after `killAfterMs`. Returns true if the group is empty, false if it is not a second after
 * SIGKILL: the kernel holds a process, or nothing reaps a dead one.
 */
export async function endGroup(pid: number, killAfterMs: number): Promise<boolean> {
  if (!signalGroup(pid, 'SIGTERM')) return true;
  if (await isGone(pid, killAfterMs)) return true;
  signalGroup(pid, 'SIGKILL');
  return isGone(pid, 1_000);
}

async function isGone(pid: number, withinMs: number): Promise<boolean> {
  const deadline = performance.now() + withinMs;
  const never = new AbortController().signal;
  for (let attempt = 1; signalGroup(pid, 0); attempt += 1) {
    if (performance.now() > deadline) return false;
    await sleep(
      backoffMs(attempt, { minMs: 4, maxMs: 50 }, 0, () => 1),
      never,
    );
  }
  return true;
}
