import type { Command } from 'commander';
import { CLIENT_SETTINGS } from '../client/options.js';
import { type CommandIo, printLine } from './command-io.js';
import { addConfigOption, commandSettings, withConfig } from './program-settings.js';
import { ExitError, signalExitCode } from './run-program.js';

const STOP_SIGNALS = ['SIGINT', 'SIGTERM'] as const;

/** Adds the command `name` (`get-opa`): finds an OPA program, or downloads or builds one into the cache folder, where an inline engine finds it. */
export function addGetOpaCommand(program: Command, io: CommandIo, name = 'get-opa'): void {
  const command = program
    .command(name)
    .description(
      'Get the OPA program of an inline engine: find it, else download it, else build it with Go. Prints version and path.',
    );
  addConfigOption(command.option('--json', 'print version and path as JSON')).action(
    (options: { config?: string; json?: boolean }) => getOpa(withConfig(io, options), options),
  );
}

/** Rejects with `engine_not_found`, or with `config_invalid` if SYNC_INLINE_ENGINE_EXEC_PATH cannot be used. */
async function getOpa({ env, stdout, stderr }: CommandIo, { json = false }: { json?: boolean }): Promise<void> {
  const { acquireOpa } = await import('../client/engine/acquire-opa.js');
  const { progressPrinter } = await import('../client/engine/acquire-progress.js');
  const { execPath } = commandSettings('client', { execPath: CLIENT_SETTINGS.inlineEngineExecPath }, { env }, stderr);
  const print = progressPrinter(stderr);
  const stop = new AbortController();
  // A download and a build leave files behind if they are not stopped in order.
  const onSignal = (signal: NodeJS.Signals): void => {
    stop.abort(new ExitError('unexpected', `stopped by ${signal}`, signalExitCode(signal), { isQuiet: true }));
  };
  for (const signal of STOP_SIGNALS) process.once(signal, onSignal);
  try {
    const { version, path } = await acquireOpa({
      ...{ execPath, env, allowDownload: true, signal: stop.signal },
      onProgress: (progress) => {
        if (progress.phase !== 'found') print(progress);
      },
    });
    printLine(stdout, json ? JSON.stringify({ version, path }) : `OPA ${version} at ${path}`);
  } catch (error) {
    throw stop.signal.aborted ? stop.signal.reason : error;
  } finally {
    for (const signal of STOP_SIGNALS) process.off(signal, onSignal);
  }
}
