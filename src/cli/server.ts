#!/usr/bin/env node
import { addGenerateSecretCommand } from './generate-secret.js';
import { addObtainTokenCommand } from './obtain-token.js';
import { runCommandLine } from './run-program.js';
import { serverProgram } from './server-program.js';
import { settingsProgram } from './settings-program.js';
import { addServerStatusCommand } from './status.js';

const { env } = process;
const program = settingsProgram(serverProgram(env), env);
addObtainTokenCommand(program, env);
addServerStatusCommand(program, env);
addGenerateSecretCommand(program);
process.exit(await runCommandLine(program, process.argv.slice(2)));
