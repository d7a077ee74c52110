/**
 * Starts counting the processor time of this process: for a bound on what a computation costs, which a clock cannot tell on a machine
 * that has other work. The returned function says the milliseconds until now.
 */
export function cpuTimer(): () => number {
  const start = process.cpuUsage();
  return () => {
    const { user, system } = process.cpuUsage(start);
    return (user + system) / 1000;
  };
}
