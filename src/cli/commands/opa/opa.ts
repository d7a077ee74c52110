import type { Command } from 'commander';
import { CLIENT_SETTINGS } from '../../../client/options.js';
import { type CommandIo, printLine } from '../../kit/command-io.js';
import { addConfigOption, commandSettings, withConfig } from '../../kit/program-settings.js';
import { ExitError, signalExitCode } from '../../kit/run-program.js';

const STOP_SIGNALS = ['SIGINT', 'SIGTERM'] as const;

/** Adds `get`: finds an OPA program, or downloads one to where an inline engine finds it. */
export function addGetOpaCommand(opa: Command, io: CommandIo): void {
  const command = opa
    .command('get')
    .description('Get the OPA program of an inline engine: find it, else download it. Prints version and path.');
  addConfigOption(command.option('--json', 'print version and path as JSON')).action(
    (options: { config?: string; json?: boolean }) => getOpa(withConfig(io, options), options),
  );
}

/**
 * Rejects with `engine_not_found`, or with `config_invalid` if SYNC_INLINE_ENGINE_EXEC_PATH cannot
 * be used.
 */
async function getOpa({ env, stdout, stderr }: CommandIo, { json = false }: { json?: boolean }): Promise<void> {
  const { acquireOpa } = await import('../../../client/engine/get-opa/acquire-opa.js');
  const { progressPrinter } = await import('../../../client/engine/get-opa/acquire-progress.js');
  const { execPath } = commandSettings('client', { execPath: CLIENT_SETTINGS.inlineEngineExecPath }, { env }, stderr);
  const print = progressPrinter(stderr);
  const stop = new AbortController();
  // A download leaves files behind if it is not stopped in order.
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
