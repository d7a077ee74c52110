import type { Command } from 'commander';
import type { CommandIo } from './command-io.js';
import { addGenerateSecretCommand } from './generate-secret.js';
import { addObtainTokenCommand } from './obtain-token.js';
import { serverProgram } from './server-program.js';
import { settingsProgram } from './settings-program.js';
import { addServerStatusCommand } from './status.js';

/** The program `sync-server` with all its commands. */
export function syncServer(io: CommandIo): Command {
  const program = settingsProgram(serverProgram(io), io);
  addObtainTokenCommand(program, io);
  addServerStatusCommand(program, io);
  addGenerateSecretCommand(program, io);
  return program;
}
