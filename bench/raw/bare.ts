import { join } from 'node:path';
import { freePort } from '../../test/support/opa.js';
import { startProgram } from '../lib/program.js';
import type { Server } from '../lib/system.js';
import { answers } from '../lib/wait.js';

/** What the bare server does with an update. */
export interface BareOptions {
  readonly dir: string;
  /** Flush each update to a file before it is answered. */
  readonly durable?: boolean;
  /** Copy the documents of each update into this OPA. */
  readonly engineUrl?: string;
}

/** Starts the raw limit (see `bare-server.ts`), and waits until it answers. */
export async function startBare({ dir, durable = false, engineUrl }: BareOptions): Promise<Server> {
  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  const program = startProgram({
    command: process.execPath,
    args: [
      join(import.meta.dirname, 'bare-server.js'),
      `--port=${port}`,
      ...(durable ? [`--append=${join(dir, 'appended')}`] : []),
      ...(engineUrl === undefined ? [] : [`--opa=${engineUrl}`]),
    ],
    cwd: dir,
    env: { NODE_ENV: 'production' },
    logFile: join(dir, 'bare.log'),
  });
  const ready = (): Promise<void> => answers(program, `${url}/`);
  await ready();
  return { ...program, url, ready };
}
