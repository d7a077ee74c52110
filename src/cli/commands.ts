import type { Command } from 'commander';
import { addCheckCommand } from './check/check.js';
import { clientProgram } from './client-program.js';
import { addClientsCommand } from './clients.js';
import { addCompletionCommand } from './completion.js';
import { addConfigCommand } from './config-command.js';
import { addLogCommand } from './data-log.js';
import { addDemoCommand } from './demo/demo.js';
import { addDoctorCommand } from './doctor/doctor.js';
import { addGetOpaCommand } from './get-opa.js';
import { addHealthcheckCommand } from './healthcheck.js';
import { addInitCommand } from './init/init.js';
import { addKeysCommand } from './keys.js';
import { addObtainTokenCommand } from './obtain-token.js';
import { addPublishCommand } from './publish-data-update.js';
import { addRefreshCommand } from './refresh.js';
import { serverProgram } from './server-program.js';
import { addRunCommand, HELP_COMMAND, newProgram } from './settings-program.js';
import { addStatusCommand } from './status.js';
import { addTraceCommand } from './trace/trace.js';

/** The program `policysync` with all its commands; none of them loads what it runs before it is called. */
export function policysync(env: NodeJS.ProcessEnv): Command {
  const program = newProgram('policysync', 'Keeps a fleet of Open Policy Agent engines current with policy and data.');

  program.commandsGroup('Run:');
  addDemoCommand(program, env);
  addRunCommand(program, 'server', serverProgram(env), env);
  addRunCommand(program, 'client', clientProgram(env), env);

  program.commandsGroup('Publish and look:');
  addPublishCommand(program, env, 'publish');
  addRefreshCommand(program, env);
  addStatusCommand(program, env);
  addClientsCommand(program, env);
  addLogCommand(program, env);
  addTraceCommand(program, env);
  addHealthcheckCommand(program, env);

  program.commandsGroup('Set up:').helpCommand(true);
  addInitCommand(program, env);
  addCheckCommand(program, env);
  addDoctorCommand(program, env);
  addObtainTokenCommand(program, env, 'token');
  addKeysCommand(program);
  addConfigCommand(program, env);
  const opa = program
    .command('opa')
    .helpCommand(...HELP_COMMAND)
    .description('Find, download or build the OPA program of an inline engine.');
  addGetOpaCommand(opa, env, 'get');
  addCompletionCommand(program);
  return program;
}
