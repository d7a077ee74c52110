import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { freePort } from '../../test/support/opa.js';
import { startProgram } from '../lib/program.js';
import type { Server } from '../lib/system.js';
import { answers } from '../lib/wait.js';

/** Starts a bare HTTP server of some bytes (see `bare-file-server.ts`), and waits until it answers. */
export async function startBareFile(dir: string, bytes: Uint8Array): Promise<Server> {
  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  const file = join(dir, `file-${port}`);
  await writeFile(file, bytes);
  const program = startProgram({
    command: process.execPath,
    args: [join(import.meta.dirname, 'bare-file-server.js'), `--port=${port}`, `--file=${file}`],
    cwd: dir,
    logFile: join(dir, 'bare-file.log'),
  });
  const ready = (): Promise<void> => answers(program, `${url}/`);
  await ready();
  return { ...program, url, ready };
}
