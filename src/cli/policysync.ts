#!/usr/bin/env node
import { policysync } from './commands.js';
import { endProgram } from './end-program.js';
import { runCommandLine } from './run-program.js';

await endProgram(await runCommandLine(policysync(process), process.argv.slice(2), process), process);
