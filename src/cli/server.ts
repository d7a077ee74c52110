#!/usr/bin/env node
import { runCommandLine } from './run-program.js';
import { syncServer } from './sync-server.js';

process.exit(await runCommandLine(syncServer(process), process.argv.slice(2), process));
