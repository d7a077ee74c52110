#!/usr/bin/env node
import { Command } from 'commander';
import { CLIENT_SETTINGS } from '../client/options.js';
import { packageVersion } from '../lib/version.js';
import { SERVER_SETTINGS } from '../server/options.js';
import { useCompileCache } from './compile-cache.js';
import { addObtainTokenCommand } from './obtain-token.js';
import { addPublishCommand } from './publish-data-update.js';
import { programLogger, runCommandLine, runUntilSignal, USAGE_HINT, warnUnknownNames } from './run-program.js';
import { addSettingFlags, configText, givenFlags, loadFromCommand } from './settings-flags.js';
import { addClientStatusCommand } from './status.js';

function clientProgram(env: NodeJS.ProcessEnv): Command {
  const program = new Command('sync-client')
    .description('Keeps the policy engine beside it current with the policy and the data that a sync server publishes.')
    .version(packageVersion(), '-V, --version', 'print the version')
    .showHelpAfterError(USAGE_HINT);

  const run = program
    .command('run')
    .description('Run the client until it is asked to stop. Every setting is an option and an environment variable.')
    .option('--print-config', 'print the configuration in effect and where each value comes from, then end');
  addSettingFlags(run, CLIENT_SETTINGS);
  run.action(async (options: { printConfig?: boolean }) => {
    if (options.printConfig === true) printConfig(run, env);
    else await runClient(run, env);
  });

  addPublishCommand(program, env);
  addObtainTokenCommand(program, env);
  addClientStatusCommand(program, env);

  const print = program
    .command('print-config')
    .description('Print the configuration in effect and where each value comes from; secrets are hidden.');
  addSettingFlags(print, CLIENT_SETTINGS);
  print.action(() => printConfig(print, env));
  return program;
}

function printConfig(command: Command, env: NodeJS.ProcessEnv): void {
  const loaded = loadFromCommand(command, CLIENT_SETTINGS, env, SERVER_SETTINGS);
  console.log(configText(CLIENT_SETTINGS, loaded, { env, flags: givenFlags(command, CLIENT_SETTINGS) }));
}

async function runClient(command: Command, env: NodeJS.ProcessEnv): Promise<void> {
  const { values, unknown } = loadFromCommand(command, CLIENT_SETTINGS, env, SERVER_SETTINGS);
  const log = programLogger('sync-client', values);
  warnUnknownNames(log, unknown);
  useCompileCache(env);
  // Here alone: the other commands start in half the time without it.
  const { createClient } = await import('../client/client.js');
  await runUntilSignal(createClient(values, { log, env }), log);
}

process.exit(await runCommandLine(clientProgram(process.env), process.argv.slice(2)));
