#!/usr/bin/env node
import { clientProgram } from './client-program.js';
import { addGetOpaCommand } from './get-opa.js';
import { addObtainTokenCommand } from './obtain-token.js';
import { addPublishCommand } from './publish-data-update.js';
import { runCommandLine } from './run-program.js';
import { settingsProgram } from './settings-program.js';
import { addClientStatusCommand } from './status.js';

const { env } = process;
const program = settingsProgram(clientProgram(env), env);
addPublishCommand(program, env);
addObtainTokenCommand(program, env);
addClientStatusCommand(program, env);
addGetOpaCommand(program, env);
process.exit(await runCommandLine(program, process.argv.slice(2)));
