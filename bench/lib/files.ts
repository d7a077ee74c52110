import { readFileSync } from 'node:fs';

/** Files that a process has open beside its sockets. */
const OTHER_FILES = 200;

/** Throws if a process may not have so many sockets. Node raises the limit of its processes as far as it may. */
export function mustHaveSockets(sockets: number): void {
  const needed = sockets + OTHER_FILES;
  const limit = /^Max open files\s+\S+\s+(\S+)/m.exec(readFileSync('/proc/self/limits', 'utf8'))?.[1];
  if (limit !== 'unlimited' && Number(limit) < needed) {
    throw new Error(`a process may open ${limit} files here, ${needed} are needed: raise the hard limit (ulimit -Hn)`);
  }
}
