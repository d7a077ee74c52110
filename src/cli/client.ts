#!/usr/bin/env node
import { runCommandLine } from './run-program.js';
import { syncClient } from './sync-client.js';

process.exit(await runCommandLine(syncClient(process), process.argv.slice(2), process));
