#!/usr/bin/env node
import { randomBytes } from 'node:crypto';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { type Command, Option } from 'commander';
import { CLIENT_SETTINGS } from '../client/options.js';
import { SERVER_SETTINGS } from '../server/options.js';
import { addObtainTokenCommand } from './obtain-token.js';
import { runCommandLine, runProgram, UsageError } from './run-program.js';
import { settingsProgram } from './settings-program.js';
import { addServerStatusCommand } from './status.js';

/** Default size of a secret: 256 bits. */
const SECRET_BYTES = 32;
const SECRET_FORMATS = { hex: 'hex', urlsafe: 'base64url', base64: 'base64' } as const;

function serverProgram(env: NodeJS.ProcessEnv): Command {
  const program = settingsProgram(
    {
      name: 'sync-server',
      description:
        'Follows a policy repository and accepts data updates; keeps the policy engines of all clients up to date.',
      settings: SERVER_SETTINGS,
      otherSettings: CLIENT_SETTINGS,
      run: (loaded) =>
        runProgram('sync-server', loaded, env, async (log) => {
          const { createServer } = await import('../server/server.js');
          const stateDir = loaded.values.stateDir ?? defaultStateDir(env);
          return createServer({ ...loaded.values, stateDir }, { env, log });
        }),
    },
    env,
  );
  addObtainTokenCommand(program, env);
  addServerStatusCommand(program, env);

  program
    .command('generate-secret')
    .description('Print a new random secret, for example for SYNC_POLICY_REPO_WEBHOOK_SECRET.')
    .option('--size <bytes>', 'number of random bytes, 16 to 1024', String(SECRET_BYTES))
    .addOption(
      new Option('--format <format>', 'encoding of the secret').choices(Object.keys(SECRET_FORMATS)).default('urlsafe'),
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

/** `policysync/server` in XDG_STATE_HOME, otherwise in `~/.local/state` (XDG Base Directory Specification). */
function defaultStateDir(env: NodeJS.ProcessEnv): string {
  const base = env.XDG_STATE_HOME ?? '';
  return join(base === '' ? join(homedir(), '.local', 'state') : base, 'policysync', 'server');
}

process.exit(await runCommandLine(serverProgram(process.env), process.argv.slice(2)));
