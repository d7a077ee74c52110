import { readdirSync, readFileSync, writeFileSync } from 'node:fs';

/** What a program has used, with the programs that it started; OPA is left out, since it is the same for every system. */
export interface Usage {
  /** Processor time, user and system, since the start. The kernel tells it in steps of 10 ms. */
  readonly cpuMs: number;
  /** Resident memory now. */
  readonly rssBytes: number;
  /** Highest resident memory since the start, or since {@link resetPeak}. */
  readonly peakBytes: number;
}

/** USER_HZ: the unit of times in /proc/<pid>/stat on every Linux. */
const TICK_MS = 10;
const LEFT_OUT = new Set(['opa']);

/** A process and all below it that still run, OPA apart. Linux only. */
export function familyOf(pid: number): number[] {
  const found: number[] = [];
  const look = (id: number): void => {
    const name = read(id, 'comm')?.trim();
    if (name === undefined || LEFT_OUT.has(name)) return;
    found.push(id);
    for (const child of childrenOf(id)) look(child);
  };
  look(pid);
  return found;
}

/** Ids of the processes that the threads of a process have started and that still run, OPA with them. */
export function childrenOf(pid: number): number[] {
  let threads: string[];
  try {
    threads = readdirSync(`/proc/${pid}/task`);
  } catch {
    return []; // it has ended
  }
  return threads.flatMap((thread) =>
    (read(pid, `task/${thread}/children`) ?? '').split(' ').filter(Boolean).map(Number),
  );
}

/** Adds up a family. */
export function usageOf(pid: number): Usage {
  let usedMs = 0;
  let rssBytes = 0;
  let peakBytes = 0;
  for (const id of familyOf(pid)) {
    const status = read(id, 'status');
    if (status === undefined) continue;
    usedMs += cpuMs(id);
    rssBytes += kilobytes(status, 'VmRSS');
    peakBytes += kilobytes(status, 'VmHWM');
  }
  return { cpuMs: usedMs, rssBytes, peakBytes };
}

/** Processor time that the engines below a process have used since their start. */
export function engineCpuMs(pid: number): number {
  return childrenOf(pid).reduce((sum, child) => {
    const name = read(child, 'comm')?.trim() ?? '';
    return sum + (LEFT_OUT.has(name) ? cpuMs(child) : 0) + engineCpuMs(child);
  }, 0);
}

/** Processor time that the children of this process have used which have ended. */
export function endedChildrenCpuMs(): number {
  return cpuMs(process.pid, 'ended children');
}

/** Of a process, with its children that have ended, or of these alone. */
function cpuMs(pid: number, of: 'all' | 'ended children' = 'all'): number {
  const stat = read(pid, 'stat') ?? '';
  // The name, in parentheses, may have blanks. After it: utime, stime and those of children that have ended (proc(5): 14 to 17).
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return fields.slice(of === 'all' ? 11 : 13, 15).reduce((sum, ticks) => sum + Number(ticks), 0) * TICK_MS;
}

/** Open files and sockets of a process, without those below it. */
export function openFiles(pid: number): number {
  return readdirSync(`/proc/${pid}/fd`).length;
}

/** Resident memory of a process and all below it that still run, OPA with them. */
export function rssWithOpa(pid: number): number {
  const own = kilobytes(read(pid, 'status') ?? '', 'VmRSS');
  return childrenOf(pid).reduce((sum, child) => sum + rssWithOpa(child), own);
}

/** From now on {@link Usage.peakBytes} is the peak since this moment. */
export function resetPeak(pid: number): void {
  for (const id of familyOf(pid)) {
    try {
      writeFileSync(`/proc/${id}/clear_refs`, '5');
    } catch (error) {
      if (id === pid) throw error; // one below it may have ended meanwhile
    }
  }
}

function kilobytes(status: string, name: string): number {
  return Number(new RegExp(`^${name}:\\s+(\\d+) kB`, 'm').exec(status)?.[1] ?? 0) * 1024;
}

function read(pid: number, file: string): string | undefined {
  try {
    return readFileSync(`/proc/${pid}/${file}`, 'utf8');
  } catch {
    return undefined; // it has ended
  }
}
