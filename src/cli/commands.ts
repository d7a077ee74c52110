import type { Command } from 'commander';
import type { StartGo } from '../checker/check-engine.js';
import { addCheckCommand } from './commands/check/check.js';
import { addClientsCommand } from './commands/clients/clients.js';
import { addCompletionCommand } from './commands/completion/completion.js';
import { addConfigCommand } from './commands/config/config.js';
import { addDemoCommand } from './commands/demo/demo.js';
import { addDoctorCommand } from './commands/doctor/doctor.js';
import { addHealthcheckCommand } from './commands/healthcheck/healthcheck.js';
import { addInitCommand } from './commands/init/init.js';
import { addKeysCommand } from './commands/keys/keys.js';
import { addLogCommand } from './commands/log/log.js';
import { addGetOpaCommand } from './commands/opa/opa.js';
import { addPublishCommand } from './commands/publish/publish.js';
import { addRefreshCommand } from './commands/refresh/refresh.js';
import { addStatusCommand } from './commands/status/status.js';
import { addTokenCommand } from './commands/token/token.js';
import { addTraceCommand } from './commands/trace/trace.js';
import type { CommandIo } from './kit/command-io.js';
import { addRunCommand, HELP_COMMAND, newProgram } from './kit/settings-program.js';
import { clientProgram } from './programs/client-program.js';
import { serverProgram } from './programs/server-program.js';

/** Parts that commands make themselves unless they are given. */
export interface CommandParts {
  /** Of `check`. */
  readonly startGo?: StartGo;
}

/**
 * The program `policysync` with all its commands; none of them loads what it runs before it is
 * called.
 */
export function policysync(io: CommandIo, { startGo }: CommandParts = {}): Command {
  const program = newProgram(
    'policysync',
    'Keeps a fleet of Open Policy Agent engines current with policy and data.',
    io,
  );

  program.commandsGroup('Run:');
  addDemoCommand(program, io);
  addRunCommand(program, serverProgram(io), io);
  addRunCommand(program, clientProgram(io), io);

  program.commandsGroup('Publish and look:');
  addPublishCommand(program, io);
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
  addTokenCommand(program, io);
  addKeysCommand(program, io);
  addConfigCommand(program, io);
  const opa = program
    .command('opa')
    .helpCommand(...HELP_COMMAND)
    .description('Find, download or build the OPA program of an inline engine.');
  addGetOpaCommand(opa, io);
  addCompletionCommand(program, io);
  return program;
}
