#!/usr/bin/env node
import { endProgram } from './end-program.js';
import { runCommandLine } from './run-program.js';
import { syncServer } from './sync-server.js';

await endProgram(await runCommandLine(syncServer(process), process.argv.slice(2), process), process);
