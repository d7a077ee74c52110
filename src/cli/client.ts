#!/usr/bin/env node
import type { Command } from 'commander';
import { CLIENT_SETTINGS } from '../client/options.js';
import { SERVER_SETTINGS } from '../server/options.js';
import { addGetOpaCommand } from './get-opa.js';
import { addObtainTokenCommand } from './obtain-token.js';
import { addPublishCommand } from './publish-data-update.js';
import { runCommandLine, runProgram } from './run-program.js';
import { settingsProgram } from './settings-program.js';
import { addClientStatusCommand } from './status.js';

function clientProgram(env: NodeJS.ProcessEnv): Command {
  const program = settingsProgram(
    {
      name: 'sync-client',
      description: 'Keeps a policy engine up to date with the policy and the data that a sync server publishes.',
      settings: CLIENT_SETTINGS,
      otherSettings: SERVER_SETTINGS,
      run: (loaded) =>
        runProgram('sync-client', loaded, env, async (log) => {
          const { createClient } = await import('../client/client.js');
          return createClient(loaded.values, { log, env });
        }),
    },
    env,
  );
  addPublishCommand(program, env);
  addObtainTokenCommand(program, env);
  addClientStatusCommand(program, env);
  addGetOpaCommand(program, env);
  return program;
}

process.exit(await runCommandLine(clientProgram(process.env), process.argv.slice(2)));
