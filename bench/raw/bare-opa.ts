import { join } from 'node:path';
import { freePort, testOpa } from '../../test/support/opa.js';
import { type Program, startProgram } from '../lib/program.js';
import { answers } from '../lib/wait.js';

/** A bare OPA. */
export interface BareOpa extends Program {
  readonly url: string;
}

/**
 * Starts an OPA in a session of its own, as the systems start theirs: on a busy machine Linux shares the processor out among
 * sessions. Does not wait for it.
 */
export async function launchBareOpa(dir: string, args: readonly string[] = []): Promise<BareOpa> {
  const port = await freePort();
  const program = startProgram({
    command: await testOpa(),
    args: ['run', '--server', `--addr=127.0.0.1:${port}`, '--log-level=error', '--skip-version-check', ...args],
    cwd: dir,
    logFile: join(dir, 'bare-opa.log'),
  });
  return { ...program, url: `http://127.0.0.1:${port}` };
}

/** {@link launchBareOpa}, and waits until it answers. */
export async function startBareOpa(dir: string, args: readonly string[] = []): Promise<BareOpa> {
  const opa = await launchBareOpa(dir, args);
  await answers(opa, `${opa.url}/health`);
  return opa;
}
