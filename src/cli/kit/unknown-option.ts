import type { Command } from 'commander';
import { didYouMean, meantNames } from '../../lib/settings/similar-name.js';

/** What the parser says before a flag that it does not know. */
const UNKNOWN = "unknown option '";

/** The flag that the parser does not know, without its value, which may be a secret. */
function unknownFlag(text: string): string | undefined {
  const at = text.indexOf(UNKNOWN);
  return at === -1 ? undefined : /^[\w-]*/.exec(text.slice(at + UNKNOWN.length))?.[0];
}

function withoutValue(text: string): string {
  const flag = unknownFlag(text);
  if (flag === undefined) return text;
  const end = text.indexOf(UNKNOWN) + UNKNOWN.length;
  return text.slice(0, end) + flag + text.slice(text.lastIndexOf("'"));
}

/** Leaves out the value of a flag that the parser does not know, in every command of a program. */
export function hideUnknownValues(program: Command): void {
  for (const command of leaves(program)) {
    const { outputError } = command.configureOutput();
    command.configureOutput({
      outputError: (text, write) => outputError?.(withoutValue(text), write),
    });
  }
}

/**
 * What is said of an unknown flag of a command that takes all settings: the setting that was
 * probably meant.
 */
export function hintAtSettings(command: Command): void {
  // The parser's own search knows only the flags of the short help.
  command.showSuggestionAfterError(false).configureOutput({
    outputError: (text, write) => {
      const flag = unknownFlag(text);
      write(flag === undefined ? text : said(flag, didYouMean(flag, longNames(command))));
    },
  });
}

/**
 * Says of a flag before a command, where other programs may take theirs, that it stands after it:
 * of a whole program, once it is made.
 */
export function hintAtOrder(program: Command): void {
  for (const group of groups(program)) {
    group.configureOutput({
      outputError: (text, write) => {
        const flag = unknownFlag(text);
        write(flag === undefined ? text : said(flag, orderHint(flag, group)));
      },
    });
  }
}

function orderHint(flag: string, group: Command): string {
  const takers = new Map<string, Command>();
  for (const command of leaves(group))
    for (const name of longNames(command)) if (!takers.has(name)) takers.set(name, command);
  const [meant] = meantNames(flag, [...takers.keys()]);
  const taker = takers.get(meant ?? '');
  return taker === undefined ? '' : `: options stand after the command, as in \`${calledAs(taker)} ${meant}\``;
}

function said(flag: string, hint: string): string {
  return `error: unknown option '${flag}'${hint}\n`;
}

function longNames({ options }: Command): string[] {
  return options.flatMap(({ long }) => long ?? []);
}

function calledAs(command: Command): string {
  return command.parent === null ? command.name() : `${calledAs(command.parent)} ${command.name()}`;
}

/** The commands that have commands. */
function groups(command: Command): Command[] {
  return command.commands.length === 0 ? [] : [command, ...command.commands.flatMap(groups)];
}

function leaves(command: Command): Command[] {
  return command.commands.flatMap((child) => (child.commands.length === 0 ? [child] : leaves(child)));
}
