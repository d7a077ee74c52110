import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { it } from 'node:test';
import { fileURLToPath } from 'node:url';
import { killProcess } from '../support/kill.js';
import { until } from '../support/until.js';

const OWNER = fileURLToPath(new URL('../support/go-owner.js', import.meta.url));

function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

/** The id of the Go process of an owner. */
async function goOf(owner: ReturnType<typeof startOwner>): Promise<number> {
  const [line] = (await once(owner.stdout, 'data')) as [Buffer];
  const pid = Number(line.toString());
  assert(Number.isInteger(pid) && pid > 1, `${line} is no process id`);
  return pid;
}

function startOwner(...args: string[]) {
  return spawn(process.execPath, [OWNER, ...args], { stdio: ['ignore', 'pipe', 'inherit'] });
}

it('the Go process of a client that was killed ends', async () => {
  const owner = startOwner();
  try {
    const pid = await goOf(owner);
    assert(isRunning(pid));
    killProcess(owner.pid);
    await once(owner, 'exit');
    await until(() => !isRunning(pid), { withinMs: 20_000, what: 'the Go process has ended' });
  } finally {
    if (owner.exitCode === null && owner.signalCode === null) killProcess(owner.pid);
  }
});

it('the Go process of a client that was killed while it started ends', async () => {
  const pid = await goOf(startOwner('early'));
  try {
    await until(() => !isRunning(pid), { withinMs: 20_000, what: 'the Go process has ended' });
  } finally {
    if (isRunning(pid)) killProcess(pid);
  }
});
