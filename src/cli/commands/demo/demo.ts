import type { Command } from 'commander';
import type { CommandIo } from '../../kit/command-io.js';

/** Adds the command `demo`: server, client and OPA on this machine, and decisions that change. */
export function addDemoCommand(program: Command, io: CommandIo): void {
  program
    .command('demo')
    .description(
      'Show it on this machine: a server, a client and OPA, and decisions that change. Leaves nothing behind.',
    )
    .option('--once', 'end after the last decision; otherwise it stays up until Ctrl-C, to try things out')
    .action(async ({ once = false }: { once?: boolean }) => {
      const { runDemo } = await import('./run-demo.js');
      await runDemo({ once, io });
    });
}
