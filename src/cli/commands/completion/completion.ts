import { Argument, type Command } from 'commander';
import type { CommandIo } from '../../kit/command-io.js';

const SHELLS = ['bash', 'zsh', 'fish'] as const;

const WAYS = `
bash: eval "$(policysync completion bash)"       in ~/.bashrc
zsh:  source <(policysync completion zsh)        in ~/.zshrc, after compinit
fish: policysync completion fish | source        in ~/.config/fish/config.fish`;

/**
 * Adds `completion`: prints the script by which a shell completes the commands and options of
 * `program`.
 */
export function addCompletionCommand(program: Command, io: CommandIo): void {
  program
    .command('completion')
    .description('Print the script by which a shell completes commands and options.')
    .addArgument(new Argument('<shell>', 'for which shell').choices(SHELLS))
    .addHelpText('after', WAYS)
    .action(async (shell: (typeof SHELLS)[number]) => {
      const { completionNodes } = await import('./model.js');
      const nodes = completionNodes(program);
      const { bashCompletion, fishCompletion, zshCompletion } = await import('./scripts.js');
      const script = { bash: bashCompletion, zsh: zshCompletion, fish: fishCompletion }[shell];
      io.stdout.write(script(program.name(), nodes));
    });
}
