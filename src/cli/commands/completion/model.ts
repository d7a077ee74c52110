import { type Argument, type Command, Help, type Option } from 'commander';
import { SettingOption } from '../../kit/setting-option.js';

/** What may stand at a place of the command line. */
export interface Completion {
  readonly words: readonly string[];
  readonly isFile: boolean;
}

/** An option as a shell completes it. */
export interface CompletionOption {
  readonly long: string | undefined;
  readonly short: string | undefined;
  readonly description: string;
  /** What comes behind it; undefined: nothing. */
  readonly value: (Completion & { readonly isOptional: boolean }) | undefined;
}

/** A command as a shell completes it. */
export interface CompletionNode {
  /** `config print server`; empty for the program. */
  readonly path: string;
  readonly children: readonly { readonly name: string; readonly description: string }[];
  readonly options: readonly CompletionOption[];
  readonly args: readonly Completion[];
}

/**
 * All commands of a program with what may follow each of them, in the order of its help. Hidden
 * options are left out.
 */
export function completionNodes(program: Command): readonly CompletionNode[] {
  return nodesOf(program, '');
}

function nodesOf(command: Command, path: string): CompletionNode[] {
  const help = new Help();
  // Each group of commands has `help`, too; one is enough.
  const children = help.visibleCommands(command).filter((child) => path === '' || child.name() !== 'help');
  const node: CompletionNode = {
    path,
    children: children.map((child) => ({ name: child.name(), description: firstSentence(child.description()) })),
    options: help.visibleOptions(command).map(optionOf),
    args: command.registeredArguments.map(argumentOf),
  };
  const below = children.flatMap((child) => nodesOf(child, path === '' ? child.name() : `${path} ${child.name()}`));
  const names = node.children.map(({ name }) => name).filter((name) => name !== 'help');
  return [
    node,
    ...below.map((each) => (each.path === 'help' ? { ...each, args: [{ words: names, isFile: false }] } : each)),
  ];
}

function optionOf(option: Option): CompletionOption {
  const { long, short, description, required, optional } = option;
  const value = required || optional ? { ...valuesOf(option), isOptional: optional } : undefined;
  return { long, short, description: firstSentence(description), value };
}

function valuesOf(option: Option): Completion {
  if (!(option instanceof SettingOption))
    return { words: option.argChoices ?? [], isFile: /<(?:file|folder)>/.test(option.flags) };
  const { domain, isPath, isPathOrText } = option.setting;
  if (domain.kind === 'flag') return { words: ['true', 'false'], isFile: false };
  return { words: domain.kind === 'choice' ? domain.choices : [], isFile: isPath || isPathOrText };
}

function argumentOf(argument: Argument): Completion {
  return { words: argument.argChoices ?? [], isFile: /file|folder/.test(argument.name()) };
}

/** Short enough for a list: without brackets, to the first full stop. */
function firstSentence(text: string): string {
  return text
    .replaceAll(/ ?\([^()]*\)/g, '')
    .replace(/[.;] .*$/s, '')
    .replace(/\.$/, '');
}
