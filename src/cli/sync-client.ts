import type { Command } from 'commander';
import { clientProgram } from './client-program.js';
import type { CommandIo } from './command-io.js';
import { addGetOpaCommand } from './get-opa.js';
import { addObtainTokenCommand } from './obtain-token.js';
import { addPublishCommand } from './publish-data-update.js';
import { settingsProgram } from './settings-program.js';
import { addClientStatusCommand } from './status.js';

/** The program `sync-client` with all its commands. */
export function syncClient(io: CommandIo): Command {
  const program = settingsProgram(clientProgram(io), io);
  addPublishCommand(program, io);
  addObtainTokenCommand(program, io);
  addClientStatusCommand(program, io);
  addGetOpaCommand(program, io);
  return program;
}
