import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { freePort } from '../../test/support/opa.js';
import { startProgram } from '../lib/program.js';
import { answers } from '../lib/wait.js';
import { bareBundle } from './bare-bundle.js';
import { type BareOpa, startBareOpa } from './bare-opa.js';

/** A bare OPA that takes its policy as a bundle, by long poll: the cheapest way to load many modules, and to change one. */
export interface BareEngine extends BareOpa {
  /** The bundle that is offered next. */
  prepare(files: Readonly<Record<string, string>>): Promise<void>;
  /** Offers it, after a fetch where there is a repository. OPA loads it at once; who waits for it asks OPA for what is new. */
  offer(): Promise<void>;
}

/** What a {@link BareEngine} starts with. */
export interface BareEngineOptions {
  readonly dir: string;
  readonly files: Readonly<Record<string, string>>;
  /** A bare clone that is brought up to date with each offer. */
  readonly gitDir?: string;
}

/** Longer than any run: a poll is answered when there is something. */
const POLL_SECONDS = 600;

export async function startBareEngine({ dir, files, gitDir }: BareEngineOptions): Promise<BareEngine> {
  const bundle = join(dir, 'bare.tar.gz');
  const prepare = async (all: Readonly<Record<string, string>>): Promise<void> =>
    writeFile(bundle, await bareBundle(all));
  await prepare(files);
  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  const server = startProgram({
    command: process.execPath,
    args: [
      join(import.meta.dirname, 'bare-policy-server.js'),
      `--port=${port}`,
      `--bundle=${bundle}`,
      ...(gitDir === undefined ? [] : [`--fetch=${gitDir}`]),
    ],
    cwd: dir,
    logFile: join(dir, 'bare-policy-server.log'),
  });
  await answers(server, `${url}/`);
  const config = join(dir, 'bare-opa.json');
  const polling = { min_delay_seconds: 1, max_delay_seconds: 1, long_polling_timeout_seconds: POLL_SECONDS };
  await writeFile(
    config,
    JSON.stringify({
      services: { bare: { url, response_header_timeout_seconds: 2 * POLL_SECONDS } },
      bundles: { policy: { service: 'bare', resource: '/bundle.tar.gz', polling } },
    }),
  );
  const opa = await startBareOpa(dir, [`--config-file=${config}`]);
  const end = async (): Promise<void> => {
    await opa.stop();
    await server.stop();
  };
  return {
    ...opa,
    prepare,
    offer: async () => {
      const response = await fetch(url, { method: 'POST' });
      await response.text();
      if (response.status !== 200) throw new Error(`offering a bundle was answered ${response.status}`);
    },
    stop: end,
    [Symbol.asyncDispose]: end,
  };
}
