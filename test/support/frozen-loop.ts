import { existsSync, readFileSync } from 'node:fs';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { isMainThread } from 'node:worker_threads';

/**
 * Loaded before a program of ours (`--import`): answers each SIGUSR2 with one text on standard error, how long its event
 * loop stood still at most since the one before, and starts to measure anew. `maxMs` is by the clock, and so has what other
 * programs took of the machine meanwhile; `maxCpuMs` is what the thread itself used between two looks of a timer (proc(5)).
 */
if (isMainThread) {
  const delay = monitorEventLoopDelay({ resolution: 1 });
  delay.enable();
  const schedule = `/proc/self/task/${process.pid}/schedstat`;
  const cpuMs = existsSync(schedule) ? () => Number(readFileSync(schedule, 'latin1').split(' ', 1)[0]) / 1e6 : () => 0; // no such system
  let last = cpuMs();
  let maxCpuMs = 0;
  let usedCpuMs = 0;
  const look = (): void => {
    const now = cpuMs();
    usedCpuMs += now - last;
    maxCpuMs = Math.max(maxCpuMs, now - last);
    last = now;
  };
  setInterval(look, 1).unref();
  process.on('SIGUSR2', () => {
    // Some turns later, so that what blocks right now is counted.
    setTimeout(() => {
      look();
      const rounded = (ms: number): number => Math.round(ms * 10) / 10;
      const report = {
        maxMs: rounded(delay.max / 1e6),
        maxCpuMs: rounded(maxCpuMs),
        usedCpuMs: rounded(usedCpuMs),
      };
      process.stderr.write(`\nloop-delay ${JSON.stringify(report)}\n`);
      delay.reset();
      maxCpuMs = 0;
      usedCpuMs = 0;
      last = cpuMs();
    }, 50);
  });
}
