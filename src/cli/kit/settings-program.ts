import { Command, type OutputConfiguration } from 'commander';
import { packageVersion } from '../../lib/run/version.js';
import type { LoadedSettings } from '../../lib/settings/options.js';
import { flagName, type Setting, type Settings, secretFileFlag } from '../../lib/settings/setting.js';
import { type CommandIo, type CommandOutput, printLine } from './command-io.js';
import { configJson, configText } from './config-text.js';
import { HELP_LAYOUT, type ShortHelp, shortenHelp } from './help.js';
import { addConfigOption, loadProgramSettings, printWarnings, type Section, withConfig } from './program-settings.js';
import { USAGE_HINT, UsageError } from './run-program.js';
import { SettingOption } from './setting-option.js';
import { hintAtSettings } from './unknown-option.js';

/** A program that runs a server or a client. */
export interface SettingsProgram<S extends Settings> {
  /** Its section of the configuration file. */
  readonly section: Section;
  readonly settings: S;
  /**
   * The settings that nearly everybody needs, by heading of the help; `--help-all` has the others.
   */
  readonly essential: Readonly<Record<string, readonly (keyof S)[]>>;
  readonly run: (loaded: LoadedSettings<S>) => Promise<void>;
}

/**
 * The command `help`. A command with commands needs its own, else it has that of the program, with
 * the group that it is in there.
 */
export const HELP_COMMAND = ['help [command]', 'Print the help of a command.'] as const;

/** A program without commands yet. */
export function newProgram(name: string, description: string, io: CommandIo): Command {
  return new Command(name)
    .description(description)
    .version(packageVersion(), '-V, --version', 'print the version')
    .helpOption('-h, --help', 'print this help')
    .helpCommand(...HELP_COMMAND)
    .configureHelp(HELP_LAYOUT)
    .configureOutput(parserOutput(io))
    .showHelpAfterError(USAGE_HINT)
    .hook('preAction', (_, command) => refuseEmptyOptions(command));
}

/** Where the parser writes help and usage errors, and how wide that is. */
function parserOutput(io: CommandIo): OutputConfiguration {
  return {
    writeOut: (text) => io.stdout.write(text),
    writeErr: (text) => io.stderr.write(text),
    getOutHelpWidth: () => helpWidth(io.stdout),
    getErrHelpWidth: () => helpWidth(io.stderr),
  };
}

function helpWidth({ isTTY, columns = 80 }: CommandOutput): number {
  return isTTY === true ? columns : 80;
}

/** Adds the command that runs the server or the client. */
export function addRunCommand<S extends Settings>(program: Command, spec: SettingsProgram<S>, io: CommandIo): void {
  const run = program
    .command(spec.section)
    .description(`Run the ${spec.section} until SIGINT or SIGTERM.`)
    .addHelpText('after', NAMES_RULE)
    .option('--print-config', 'print the effective configuration with the origin of each value, then exit');
  addConfigOption(run);
  addSettingFlags(run, spec.settings);
  shortenHelp(run, essentialFlags(spec), `print all ${Object.keys(spec.settings).length} settings`);
  run.action(async (options: { printConfig?: boolean }) => {
    if (options.printConfig === true) printConfig(run, spec, io);
    else await spec.run(loadFromCommand(run, spec, io));
  });
}

/** Adds the command that prints the effective configuration of the server or the client. */
export function addPrintConfigCommand<S extends Settings>(
  program: Command,
  spec: SettingsProgram<S>,
  io: CommandIo,
): void {
  const print = program
    .command(spec.section)
    .description('Print the effective configuration with the origin of each value; secrets are masked.')
    .addHelpText('after', NAMES_RULE)
    .option('--json', 'print one JSON document');
  addConfigOption(print);
  addSettingFlags(print, spec.settings);
  shortenHelp(print, essentialFlags(spec), `print all ${Object.keys(spec.settings).length} settings`);
  print.action(() => printConfig(print, spec, io));
}

function printConfig<S extends Settings>(command: Command, spec: SettingsProgram<S>, io: CommandIo): void {
  const loaded = loadFromCommand(command, spec, io);
  const { settings, section } = spec;
  const asJson = command.optsWithGlobals<{ json?: boolean }>().json === true;
  printWarnings(loaded.warnings, io.stderr);
  printLine(io.stdout, asJson ? configJson([{ section, settings, loaded }]) : configText(settings, loaded));
}

/** Loads settings with the flags of a command and its configuration file. */
export function loadFromCommand<S extends Settings>(
  command: Command,
  { section, settings }: Pick<SettingsProgram<S>, 'section' | 'settings'>,
  io: CommandIo,
): LoadedSettings<S> {
  const sources = { env: withConfig(io, command.optsWithGlobals()).env, flags: givenFlags(command, settings) };
  return loadProgramSettings(section, settings, sources);
}

/** Below the help of a command that takes all settings. */
const NAMES_RULE = `
Every setting is an environment variable and a key of the file, too:
--log-level is SYNC_LOG_LEVEL and log-level.`;

function essentialFlags<S extends Settings>({ essential, settings }: SettingsProgram<S>): ShortHelp {
  const named = (keys: readonly (keyof S)[]): string[] =>
    keys.flatMap((key) => (settings[key] === undefined ? [] : `--${flagName(settings[key])}`));
  return Object.fromEntries(Object.entries(essential).map(([heading, keys]) => [heading, named(keys)]));
}

/** Adds every setting as an option of `command`, by group, with its default. */
export function addSettingFlags(command: Command, settings: Settings): void {
  for (const setting of Object.values(settings)) {
    const form = placeholder(setting);
    const optionOf = (flags: string): SettingOption => new SettingOption(flags, settingHelp(setting), setting);
    command.addOption(optionOf(`--${flagName(setting)} ${form}`).helpGroup(`${setting.group}:`));
    const { formerly, secret } = setting;
    if (formerly !== undefined) command.addOption(optionOf(`--${flagName({ env: formerly })} ${form}`).hideHelp());
    if (secret) command.addOption(optionOf(`--${secretFileFlag(setting)} <file>`).hideHelp());
  }
  hintAtSettings(command);
}

/** Returns the settings given as flags, by flag name, for {@link loadSettings}. */
export function givenFlags(command: Command, settings: Settings): Record<string, string> {
  const given: Record<string, string> = {};
  const take = (flag: string, names: readonly string[]): void => {
    const options = names.map(
      (name) => command.options.find(({ long }) => long === `--${name}`)?.attributeName() ?? '',
    );
    const option = options.find((attribute) => command.getOptionValueSource(attribute) === 'cli');
    if (option === undefined) return;
    const value: unknown = command.getOptionValue(option);
    given[flag] = value === true ? 'true' : String(value); // a boolean flag needs no value
  };
  for (const setting of Object.values(settings)) {
    const { formerly = setting.env } = setting;
    take(flagName(setting), [flagName(setting), flagName({ env: formerly })]);
    if (setting.secret) take(secretFileFlag(setting), [secretFileFlag(setting)]);
  }
  return given;
}

/** Longest list of choices that stands in the placeholder itself. */
const SHORT_CHOICES = 24;

/** Returns the value part of the flag in help, which is optional for a boolean setting. */
function placeholder({ form }: Setting<unknown>): string {
  if (form === 'true|false') return '[true|false]';
  if (/^JSON\b/.test(form)) return '<json>';
  if (/ or JSON\b/.test(form)) return '<name|json>';
  if (isLongChoice(form)) return '<choice>';
  if (form === 'key or file') return '<key>';
  return `<${form.replaceAll(' ', '-').replaceAll(/(?:URL|JSON)/g, (word) => word.toLowerCase())}>`;
}

function isLongChoice(form: string): boolean {
  return form.length > SHORT_CHOICES && form.includes('|');
}

function settingHelp(setting: Setting<unknown>): string {
  const { description, form, defaultText, secret } = setting;
  const facts = [
    ...(isLongChoice(form) ? [form.replaceAll('|', ', ')] : []),
    ...(defaultText === undefined || defaultText === '' ? [] : [`default: ${defaultText}`]),
    ...(secret ? [`or in a file: --${secretFileFlag(setting)}`] : []),
  ];
  return facts.length === 0 ? description : `${description} (${facts.join('; ')})`;
}

/**
 * Throws {@link UsageError} that names the first option with an empty value: nearly always the
 * variable of a script that is not set, as in `--topic "$TOPIC"`.
 */
function refuseEmptyOptions(command: Command): void {
  for (const option of command.options) {
    if (option instanceof SettingOption) continue;
    const name = option.attributeName();
    const values: unknown[] = [command.getOptionValue(name)].flat();
    if (command.getOptionValueSource(name) === 'cli' && values.includes(''))
      throw new UsageError(`${option.long ?? name} has an empty value: give one, or leave it out`);
  }
}
