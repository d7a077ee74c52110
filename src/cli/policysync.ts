#!/usr/bin/env node
import { policysync } from './commands.js';
import { endProgram } from './kit/end-program.js';
import { runCommandLine } from './kit/run-program.js';

await endProgram(await runCommandLine(policysync(process), process.argv.slice(2), process), process);
