#!/usr/bin/env node
import { randomBytes } from 'node:crypto';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { Command, Option } from 'commander';
import { CLIENT_SETTINGS } from '../client/options.js';
import { packageVersion } from '../lib/version.js';
import { SERVER_SETTINGS } from '../server/options.js';
import { useCompileCache } from './compile-cache.js';
import { addObtainTokenCommand } from './obtain-token.js';
import {
  programLogger,
  runCommandLine,
  runUntilSignal,
  USAGE_HINT,
  UsageError,
  warnUnknownNames,
} from './run-program.js';
import { addSettingFlags, configText, givenFlags, loadFromCommand } from './settings-flags.js';
import { addServerStatusCommand } from './status.js';

/** Bytes of a secret unless asked otherwise: 256 bits. */
const SECRET_BYTES = 32;
const SECRET_FORMATS = { hex: 'hex', urlsafe: 'base64url', base64: 'base64' } as const;

function serverProgram(env: NodeJS.ProcessEnv): Command {
  const program = new Command('sync-server')
    .description(
      'Follows a policy repository and accepts data updates; keeps the policy engines of all clients current.',
    )
    .version(packageVersion(), '-V, --version', 'print the version')
    .showHelpAfterError(USAGE_HINT);

  const run = program
    .command('run')
    .description('Run the server until it is asked to stop. Every setting is an option and an environment variable.')
    .option('--print-config', 'print the configuration in effect and where each value comes from, then end');
  addSettingFlags(run, SERVER_SETTINGS);
  run.action(async (options: { printConfig?: boolean }) => {
    if (options.printConfig === true) printConfig(run, env);
    else await runServer(run, env);
  });

  const print = program
    .command('print-config')
    .description('Print the configuration in effect and where each value comes from; secrets are hidden.');
  addSettingFlags(print, SERVER_SETTINGS);
  print.action(() => printConfig(print, env));

  addObtainTokenCommand(program, env);
  addServerStatusCommand(program, env);

  program
    .command('generate-secret')
    .description('Print a new random secret, for example for SYNC_POLICY_REPO_WEBHOOK_SECRET.')
    .option('--size <bytes>', 'number of random bytes, 16 to 1024', String(SECRET_BYTES))
    .addOption(
      new Option('--format <format>', 'how to write them').choices(Object.keys(SECRET_FORMATS)).default('urlsafe'),
    )
    .action((options: { size: string; format: keyof typeof SECRET_FORMATS }) => {
      const size = Number(options.size);
      if (!Number.isInteger(size) || size < 16 || size > 1024) {
        throw new UsageError(`--size must be a whole number from 16 to 1024 (is ${options.size})`);
      }
      console.log(randomBytes(size).toString(SECRET_FORMATS[options.format]));
    });
  return program;
}

function printConfig(command: Command, env: NodeJS.ProcessEnv): void {
  const loaded = loadFromCommand(command, SERVER_SETTINGS, env, CLIENT_SETTINGS);
  console.log(configText(SERVER_SETTINGS, loaded, { env, flags: givenFlags(command, SERVER_SETTINGS) }));
}

async function runServer(command: Command, env: NodeJS.ProcessEnv): Promise<void> {
  const { values, unknown } = loadFromCommand(command, SERVER_SETTINGS, env, CLIENT_SETTINGS);
  const log = programLogger('sync-server', values);
  warnUnknownNames(log, unknown);
  useCompileCache(env);
  // Here alone: the other commands start in half the time without it.
  const { createServer } = await import('../server/server.js');
  await runUntilSignal(
    createServer({ ...values, stateDir: values.stateDir ?? defaultStateDir(env) }, { env, log }),
    log,
  );
}

/** `policysync/server` in XDG_STATE_HOME, else in `~/.local/state` (XDG Base Directory Specification). */
function defaultStateDir(env: NodeJS.ProcessEnv): string {
  const base = env.XDG_STATE_HOME ?? '';
  return join(base === '' ? join(homedir(), '.local', 'state') : base, 'policysync', 'server');
}

process.exit(await runCommandLine(serverProgram(process.env), process.argv.slice(2)));
