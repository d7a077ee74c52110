import type { Command } from 'commander';
import type { StartGo } from '../checker/check-engine.js';
import { addCheckCommand } from './check/check.js';
import { clientProgram } from './client-program.js';
import { addClientsCommand } from './clients.js';
import type { CommandIo } from './command-io.js';
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

/** Parts that commands make themselves unless they are given. */
export interface CommandParts {
  /** Of `check`. */
  readonly startGo?: StartGo;
}

/** The program `policysync` with all its commands; none of them loads what it runs before it is called. */
export function policysync(io: CommandIo, { startGo }: CommandParts = {}): Command {
  const program = newProgram(
    'policysync',
    'Keeps a fleet of Open Policy Agent engines current with policy and data.',
    io,
  );

  program.commandsGroup('Run:');
  addDemoCommand(program, io);
  addRunCommand(program, 'server', serverProgram(io), io);
  addRunCommand(program, 'client', clientProgram(io), io);

  program.commandsGroup('Publish and look:');
  addPublishCommand(program, io, 'publish');
  addRefreshCommand(program, io);
  addStatusCommand(program, io);
  addClientsCommand(program, io);
  addLogCommand(program, io);
  addTraceCommand(program, io);
  addHealthcheckCommand(program, io);

  program.commandsGroup('Set up:').helpCommand(true);
  addInitCommand(program, io);
  addCheckCommand(program, io, startGo);
  addDoctorCommand(program, io);
  addObtainTokenCommand(program, io, 'token');
  addKeysCommand(program, io);
  addConfigCommand(program, io);
  const opa = program
    .command('opa')
    .helpCommand(...HELP_COMMAND)
    .description('Find, download or build the OPA program of an inline engine.');
  addGetOpaCommand(opa, io, 'get');
  addCompletionCommand(program, io);
  return program;
}
