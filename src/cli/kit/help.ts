import { type Argument, type Command, Help, type HelpConfiguration, type Option } from 'commander';

/** A term that is wider than this gets a line of its own. */
const WIDEST_TERM = 28;
const INDENT = 2;
const SPACER = 2;

/** ECMA-48; commander leaves them out where the output has no colours, or `NO_COLOR` is set. */
const bold = (text: string): string => `\u001b[1m${text}\u001b[22m`;
const cyan = (text: string): string => `\u001b[36m${text}\u001b[39m`;

/**
 * How every help is laid out: within the width of the terminal (80 where there is none), broken
 * between words alone.
 */
export const HELP_LAYOUT: HelpConfiguration = {
  minWidthToWrap: 20,
  styleTitle: bold,
  styleOptionText: cyan,
  styleSubcommandText: cyan,
  padWidth(command, helper) {
    const terms = [
      ...helper.visibleOptions(command).map((option) => helper.optionTerm(option)),
      ...helper.visibleCommands(command).map((child) => helper.subcommandTerm(child)),
      ...helper.visibleArguments(command).map((argument) => helper.argumentTerm(argument)),
    ];
    return Math.max(0, ...terms.map((term) => term.length).filter((length) => length <= WIDEST_TERM));
  },
  formatItem: formatted,
  subcommandTerm: commandTerm,
  optionDescription: described,
  argumentDescription: described,
};

/** A description with choices and default as they are typed. */
function described({ description, argChoices, defaultValue }: Option | Argument): string {
  const facts = [
    ...(argChoices === undefined ? [] : [`one of ${argChoices.join(', ')}`]),
    ...(typeof defaultValue === 'string' ? [`default: ${defaultValue}`] : []),
  ];
  return facts.length === 0 ? description : `${description} (${facts.join('; ')})`;
}

/**
 * `status [program]`, `config print <server|client>`: without `[options]`, which every command has.
 */
function commandTerm(command: Command): string {
  const { commands } = command;
  const [first] = commands;
  const more =
    first !== undefined && commands.length === 1
      ? [commandTerm(first)]
      : commands.length > 1
        ? [`<${commands.map((child) => child.name()).join('|')}>`]
        : command.registeredArguments.map((argument) =>
            argument.required ? `<${argument.name()}>` : `[${argument.name()}]`,
          );
  return [command.name(), ...more].join(' ');
}

function formatted(term: string, termWidth: number, description: string, helper: Help): string {
  const start = ' '.repeat(INDENT) + term;
  if (description === '') return start;
  const width = helper.displayWidth(term);
  const column = INDENT + termWidth + SPACER;
  const indent = `\n${' '.repeat(column)}`;
  const text = helper.boxWrap(description, (helper.helpWidth ?? 80) - column).replaceAll('\n', indent);
  return width > termWidth ? `${start}${indent}${text}` : `${start}${' '.repeat(termWidth - width + SPACER)}${text}`;
}

/** The options that a short help shows, by heading: their long names. */
export type ShortHelp = Readonly<Record<string, readonly string[]>>;

/**
 * Makes the help of a command with many options short: those of `short`, and those without a group.
 * `--help-all` prints the others too, each in its own group.
 */
export function shortenHelp(command: Command, short: ShortHelp, everything: string): void {
  const headings = new Map(
    Object.entries(short).flatMap(([heading, flags]) => flags.map((flag) => [flag, heading] as const)),
  );
  let isShort = true;
  command
    .option('--help-all', everything)
    .configureHelp({
      ...HELP_LAYOUT,
      visibleOptions: (asked) => {
        const shown = new Help().visibleOptions(asked);
        if (!isShort) return shown;
        const byFlag = new Map(shown.map((option) => [option.long, option]));
        const essential = [...headings.keys()].flatMap((flag) => byFlag.get(flag) ?? []);
        return [...essential, ...shown.filter(({ helpGroupHeading: group }) => group === undefined)];
      },
      groupItems: <T extends Command | Option>(_: T[], items: T[], groupOf: (item: T) => string) => {
        const groups = new Map<string, T[]>();
        for (const item of items) {
          const heading = isShort && 'long' in item ? headings.get(item.long ?? '') : undefined;
          const group = heading === undefined ? groupOf(item) : `${heading}:`;
          groups.set(group, [...(groups.get(group) ?? []), item]);
        }
        return groups;
      },
    })
    .on('option:help-all', () => {
      isShort = false;
      command.help();
    });
}
