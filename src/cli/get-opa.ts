import type { Command } from 'commander';
import { CLIENT_SETTINGS } from '../client/options.js';
import { loadSettings } from '../lib/options.js';

const STOP_SIGNALS = ['SIGINT', 'SIGTERM'] as const;

/** Adds `get-opa`: finds an OPA program, or downloads or builds one into the cache folder, where an inline engine finds it. */
export function addGetOpaCommand(program: Command, env: NodeJS.ProcessEnv): void {
  program
    .command('get-opa')
    .description(
      'Get the OPA program of an inline engine: find it, else download it, else build it with Go. Prints version and path.',
    )
    .action(() => getOpa(env));
}

/** Rejects with `engine_not_found`, or with `config_invalid` if SYNC_INLINE_ENGINE_EXEC_PATH cannot be used. */
async function getOpa(env: NodeJS.ProcessEnv): Promise<void> {
  const { acquireOpa } = await import('../client/engine/acquire-opa.js');
  const { progressPrinter } = await import('../client/engine/acquire-progress.js');
  const { execPath } = loadSettings({ execPath: CLIENT_SETTINGS.inlineEngineExecPath }, { env }).values;
  const print = progressPrinter(process.stderr);
  const stop = new AbortController();
  // A download and a build leave files behind if they are not stopped in order.
  const onSignal = (signal: NodeJS.Signals): void => stop.abort(new Error(`stopped by ${signal}`));
  for (const signal of STOP_SIGNALS) process.once(signal, onSignal);
  try {
    const { version, path } = await acquireOpa({
      ...{ execPath, env, allowDownload: true, signal: stop.signal },
      onProgress: (progress) => {
        if (progress.phase !== 'found') print(progress);
      },
    });
    console.log(`OPA ${version} at ${path}`);
  } finally {
    for (const signal of STOP_SIGNALS) process.off(signal, onSignal);
  }
}
