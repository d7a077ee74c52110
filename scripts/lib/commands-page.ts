import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Command } from 'commander';
import { policysync } from '../../src/cli/commands.js';
import { EXIT, EXIT_MEANING, SIGNAL_MEANING, signalExitCode } from '../../src/cli/kit/run-program.js';
import { repoRoot } from '../../test/support/repo.js';

/** What stands between these two lines is written by `npm run docs`. */
const BLOCK = /<!-- (help: [a-z- ]+|exit codes) -->\n[\s\S]*?<!-- end -->/g;

/**
 * docs/reference/commands.md: the page as it is, with the help of each command and the table of exit
 * codes renewed. A command that the page does not have yet gets a section at the end.
 */
export function commandsPage(): string {
  const page = readFileSync(join(repoRoot(), 'docs', 'reference', 'commands.md'), 'utf8');
  const helps = new Map(leavesOf(policysync(process)).map((command) => [fullName(command), helpText(command)]));
  const renewed = page.replace(BLOCK, (_, name: string) => {
    const text = name === 'exit codes' ? exitTable() : helps.get(name.replace('help: ', ''));
    return text === undefined ? '' : block(name, text);
  });
  const missing = [...helps].filter(([name]) => !renewed.includes(`<!-- help: ${name} -->`));
  const added = missing.map(([name, text]) => `\n## ${name}\n\n${block(`help: ${name}`, text)}\n`);
  return renewed + added.join('');
}

/** The commands that do something, with the program itself. One that only groups others has no options. */
export function leavesOf(command: Command): Command[] {
  const below = command.commands.flatMap(leavesOf);
  const acts = below.length === 0 || command.options.length > 0;
  return command.parent === null || acts ? [command, ...below] : below;
}

/** `policysync config print server`. */
export function fullName(command: Command): string {
  return command.parent === null ? command.name() : `${fullName(command.parent)} ${command.name()}`;
}

/** The help as a terminal of 80 columns without colours shows it. */
export function helpText(command: Command): string {
  let text = '';
  command.configureOutput({
    writeOut: (part) => {
      text += part;
    },
    getOutHelpWidth: () => 80,
    getOutHasColors: () => false,
  });
  command.outputHelp();
  return `\`\`\`text\n${text.trimEnd()}\n\`\`\``;
}

function exitTable(): string {
  const rows = Object.entries(EXIT).map(([name, code]) => `| ${code} | ${EXIT_MEANING[name as keyof typeof EXIT]} |`);
  const signals = Object.entries(SIGNAL_MEANING).map(
    ([name, meaning]) => `| ${signalExitCode(name as NodeJS.Signals)} | ${meaning} |`,
  );
  return ['| Code | Meaning |', '|---|---|', ...rows, ...signals].join('\n');
}

function block(name: string, text: string): string {
  return `<!-- ${name} -->\n${text}\n<!-- end -->`;
}
