import { Command, Option } from 'commander';
import { redactUrl } from '../lib/log.js';
import { flagName, type LoadedSettings, loadSettings, type Setting, type Settings } from '../lib/options.js';
import { packageVersion } from '../lib/version.js';
import { USAGE_HINT } from './run-program.js';

/** A program that runs a server or a client. */
interface SettingsProgram<S extends Settings> {
  readonly name: string;
  readonly description: string;
  readonly settings: S;
  /** Settings of the other program, which cause no warning. */
  readonly otherSettings: Settings;
  readonly run: (loaded: LoadedSettings<S>) => Promise<void>;
}

/** Creates the program with `run` and `print-config`, which accept every setting as an option. */
export function settingsProgram<S extends Settings>(
  { name, description, settings, otherSettings, run: runLoaded }: SettingsProgram<S>,
  env: NodeJS.ProcessEnv,
): Command {
  const program = new Command(name)
    .description(description)
    .version(packageVersion(), '-V, --version', 'print the version')
    .showHelpAfterError(USAGE_HINT);
  const load = (command: Command): LoadedSettings<S> => loadFromCommand(command, settings, env, otherSettings);
  const printConfig = (command: Command): void =>
    console.log(configText(settings, load(command), { env, flags: givenFlags(command, settings) }));

  const run = program
    .command('run')
    .description(
      `Run the ${name.replace('sync-', '')} until SIGINT or SIGTERM. Every setting is an option and an environment variable.`,
    )
    .option('--print-config', 'print the effective configuration with the origin of each value, then exit');
  addSettingFlags(run, settings);
  run.action(async (options: { printConfig?: boolean }) => {
    if (options.printConfig === true) printConfig(run);
    else await runLoaded(load(run));
  });

  const print = program
    .command('print-config')
    .description('Print the effective configuration with the origin of each value; secrets are masked.');
  addSettingFlags(print, settings);
  print.action(() => printConfig(print));
  return program;
}

/** Adds every setting as an option of `command`, by group, with its default and environment variable. */
export function addSettingFlags(command: Command, settings: Settings): void {
  for (const setting of Object.values(settings)) {
    const form = placeholder(setting);
    command.addOption(
      new Option(`--${flagName(setting)} ${form}`, settingHelp(setting)).helpGroup(`${setting.group}:`),
    );
    const { formerly } = setting;
    if (formerly !== undefined) command.addOption(new Option(`--${flagName({ env: formerly })} ${form}`).hideHelp());
  }
}

/** Returns the settings given as flags, by flag name, for {@link loadSettings}. */
export function givenFlags(command: Command, settings: Settings): Record<string, string> {
  const given: Record<string, string> = {};
  for (const setting of Object.values(settings)) {
    const names = [setting.env, setting.formerly ?? setting.env].map((env) => `--${flagName({ env })}`);
    const options = names.map((name) => command.options.find(({ long }) => long === name)?.attributeName() ?? '');
    const option = options.find((attribute) => command.getOptionValueSource(attribute) === 'cli');
    if (option === undefined) continue;
    const value: unknown = command.getOptionValue(option);
    given[flagName(setting)] = value === true ? 'true' : String(value); // a boolean flag needs no value
  }
  return given;
}

/** Variables that only a command such as `obtain-token` reads. */
const COMMAND_VARIABLES = ['SYNC_MASTER_TOKEN', 'OPAL_MASTER_TOKEN'];

/** Loads settings with the flags of a command; the names of the other program count as known. */
function loadFromCommand<S extends Settings>(
  command: Command,
  settings: S,
  env: NodeJS.ProcessEnv,
  otherProgram: Settings,
): LoadedSettings<S> {
  const ofOther = Object.values(otherProgram).flatMap((setting) => [setting.env, ...setting.aliases]);
  const knownElsewhere = [...ofOther, ...COMMAND_VARIABLES];
  return loadSettings(settings, { env, flags: givenFlags(command, settings) }, knownElsewhere);
}

/**
 * Prints the effective configuration as lines of an environment file, grouped, each with the origin of its value. Masks secrets,
 * credentials in URLs, header values, and members with secret names as `***`.
 */
function configText<S extends Settings>(
  settings: S,
  loaded: LoadedSettings<S>,
  sources: { env: NodeJS.ProcessEnv; flags: Record<string, string> },
): string {
  const lines: string[] = [];
  let group = '';
  for (const [key, setting] of Object.entries(settings)) {
    if (setting.group !== group) lines.push(...(group === '' ? [] : ['']), `# ${setting.group}`);
    group = setting.group;
    const origin = loaded.origins[key] ?? 'default';
    if (origin === 'default') {
      const { defaultText } = setting;
      lines.push(
        defaultText === undefined ? `# ${setting.env} is not set` : `${setting.env}=${defaultText}  # default`,
      );
    } else if (origin === 'flag') {
      const flag = flagName(setting);
      lines.push(`${setting.env}=${shownValue(setting, sources.flags[flag] ?? '')}  # flag --${flag}`);
    } else {
      lines.push(`${setting.env}=${shownValue(setting, sources.env[origin.env] ?? '')}  # environment ${origin.env}`);
    }
  }
  return lines.join('\n');
}

/** Returns the value part of the flag in help, which is optional for a boolean setting. */
function placeholder(setting: Setting<unknown>): string {
  if (setting.form === 'true|false') return '[true|false]';
  const isPlain = !/[<>[\]{}]/.test(setting.form);
  return `<${isPlain ? setting.form.replaceAll(' ', '-') : setting.form.split(' ', 1)[0]}>`;
}

function settingHelp(setting: Setting<unknown>): string {
  const facts = [
    ...(setting.defaultText === undefined || setting.defaultText === '' ? [] : [`default: ${setting.defaultText}`]),
    `env: ${setting.env}`,
  ];
  return `${setting.description} (${facts.join(', ')})`;
}

function shownValue(setting: Setting<unknown>, text: string): string {
  if (setting.secret) return '***';
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return redactUrl(text); // plain text, possibly a URL
  }
  return typeof value === 'object' && value !== null ? JSON.stringify(redacted(value)) : text;
}

/** Names of secret members of a JSON setting, such as the password in the connection parameters of a data source. */
const SECRET_MEMBER = /(password|passwd|passphrase|secret|token|credentials?|api_?key)$/i;

/** Masks header values, secret members, and credentials in URLs of a JSON value. */
function redacted(value: unknown): unknown {
  if (typeof value === 'string') return URL.canParse(value) ? redactUrl(value) : value;
  if (Array.isArray(value)) return value.map(redacted);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, member]) => [key, shownMember(key, member)]));
}

function shownMember(key: string, member: unknown): unknown {
  if (key === 'headers') return hiddenValues(member);
  return SECRET_MEMBER.test(key) && typeof member === 'string' ? '***' : redacted(member);
}

function hiddenValues(headers: unknown): unknown {
  if (typeof headers !== 'object' || headers === null) return '***';
  return Object.fromEntries(Object.keys(headers).map((name) => [name, '***']));
}
