#!/usr/bin/env node
import { policysync } from './commands.js';
import { runCommandLine } from './run-program.js';

process.exit(await runCommandLine(policysync(process), process.argv.slice(2), process));
