import { spawn } from 'node:child_process';

/** A problem that ends a script; its message is one sentence that says what to do. */
export class Fatal extends Error {}

/** Runs a program with our terminal; resolves with its exit code (1 when a signal ended it). */
export function run(command, args, options = {}) {
  return new Promise((resolve, reject) => {
    const child = spawn(command, args, { stdio: 'inherit', ...options });
    // Ctrl-C reaches the child through the terminal; we stay until it has cleaned up and printed.
    const wait = () => undefined;
    const pass = () => child.kill('SIGTERM');
    process.on('SIGINT', wait).on('SIGTERM', pass);
    const over = () => process.off('SIGINT', wait).off('SIGTERM', pass);
    child.once('error', (cause) => {
      over();
      reject(new Fatal(`${command} cannot be started (${cause.message}); is it installed?`, { cause }));
    });
    child.once('close', (code) => {
      over();
      resolve(code ?? 1);
    });
  });
}

/** Runs a script's main function: a Fatal prints its sentence, anything else its stack; both end with code 1. */
export async function main(body) {
  try {
    process.exitCode = await body();
  } catch (error) {
    console.error(error instanceof Fatal ? `\n${error.message}` : error);
    process.exitCode = 1;
  }
}
