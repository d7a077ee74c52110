import { fork } from 'node:child_process';
import { writeSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { GoProcess } from '../../src/embedded/go/go-process.js';

/** A program that has a Go process, prints its id, and stays; with `early` it is killed before the process has begun. */
if (process.argv[2] === 'early') {
  const program = fileURLToPath(new URL('../../src/embedded/go/go-child.js', import.meta.url));
  const child = fork(program, ['{}'], { serialization: 'advanced', stdio: ['ignore', 'ignore', 'ignore', 'ipc'] });
  writeSync(1, `${child.pid}\n`);
  process.kill(process.pid, 'SIGKILL');
} else {
  const go = await GoProcess.start({});
  writeSync(1, `${go.pid}\n`);
  setInterval(() => undefined, 60_000);
}
