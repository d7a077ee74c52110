import { GoProcess } from '../../src/embedded/go/go-process.js';

/** A program that has a Go process, prints its id, and stays. */
const go = await GoProcess.start({});
process.stdout.write(`${go.pid}\n`);
setInterval(() => undefined, 60_000);
