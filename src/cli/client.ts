#!/usr/bin/env node
import { endProgram } from './end-program.js';
import { runCommandLine } from './run-program.js';
import { syncClient } from './sync-client.js';

await endProgram(await runCommandLine(syncClient(process), process.argv.slice(2), process), process);
