#!/usr/bin/env node
import { endProgram } from './kit/end-program.js';
import { runByOpalName } from './opal-names.js';

await endProgram(await runByOpalName('server', process.argv.slice(2), process), process);
