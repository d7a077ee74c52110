/**
 * Sends a signal to one process. A process id that a test failed to find must not become 0 or -1, which mean all processes of
 * the group, or of the user: the tests, and what runs them, would be among them.
 */
export function killProcess(pid: number | undefined, signal: NodeJS.Signals = 'SIGKILL'): void {
  if (pid === undefined || !Number.isInteger(pid) || pid <= 1) throw new Error(`${pid} is no process of a test`);
  process.kill(pid, signal);
}
