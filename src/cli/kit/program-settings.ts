import type { Command } from 'commander';
import { type FileSection, readConfigFile } from '../../lib/settings/config-file.js';
import { expandHome } from '../../lib/settings/home-path.js';
import type { LoadedSettings } from '../../lib/settings/options.js';
import type { Settings } from '../../lib/settings/setting.js';
import { CONFIG_VARIABLE, loadSettings, SECTIONS } from '../../settings.js';
import { type CommandIo, type CommandOutput, printLine, withEnv } from './command-io.js';
import { UsageError } from './run-program.js';

/** A name of {@link SECTIONS}. */
export type Section = keyof typeof SECTIONS;

/** Adds `--config <file>`; the action passes its options to {@link withConfig}. */
export function addConfigOption(command: Command): Command {
  return command.option(
    '--config <file>',
    `the configuration file, see docs/reference/settings.md (env: ${CONFIG_VARIABLE})`,
  );
}

/**
 * The environment in which a command loads settings, and its streams: `--config` counts before
 * SYNC_CONFIG.
 */
export function withConfig(io: CommandIo, { config }: { config?: string }): CommandIo {
  if (config === undefined) return io;
  if (config === '') throw new UsageError('--config has an empty value: give the path of a file, or leave it out');
  return withEnv(io, { ...io.env, [CONFIG_VARIABLE]: config });
}

/** Flags by flag name, with the command's own names of some of them. */
interface CommandSources {
  /** From {@link withConfig}, where the command has `--config`. */
  readonly env: NodeJS.ProcessEnv;
  readonly flags?: Readonly<Record<string, string | undefined>>;
  readonly flagNames?: Readonly<Record<string, string>>;
}

/** The flags of a command that calls a server, for {@link commandSettings}: with its own names. */
export function connectionFlags(options: {
  serverUrl?: string | undefined;
  token?: string | undefined;
  tokenFile?: string | undefined;
}): {
  flags: Record<string, string | undefined>;
  flagNames: Record<string, string>;
} {
  return {
    flags: {
      'server-url': options.serverUrl,
      'client-token': options.token,
      'client-token-file': options.tokenFile,
    },
    flagNames: { 'client-token': '--token', 'client-token-file': '--token-file' },
  };
}

/**
 * Loads settings of a program, all or some of them: from flags, environment and configuration file.
 * Throws `config_invalid` that names every bad value at once, and everything in the file that is
 * not valid.
 */
export function loadProgramSettings<S extends Settings>(
  section: Section,
  settings: S,
  sources: CommandSources,
): LoadedSettings<S> {
  const path = sources.env[CONFIG_VARIABLE] ?? '';
  if (path === '') return loadSettings(settings, sources);
  const { sections, warnings } = readConfigFile(expandHome(path), SECTIONS);
  const file: FileSection | undefined = sections.get(section);
  const loaded = loadSettings(settings, { ...sources, file });
  return { ...loaded, warnings: [...warnings, ...loaded.warnings] };
}

/** The same for a command that runs once: prints warnings, and returns the values. */
export function commandSettings<S extends Settings>(
  section: Section,
  settings: S,
  sources: CommandSources,
  stderr: CommandOutput,
): LoadedSettings<S>['values'] {
  const { values, warnings } = loadProgramSettings(section, settings, sources);
  printWarnings(warnings, stderr);
  return values;
}

/** Prints warnings on standard error. */
export function printWarnings(warnings: readonly string[], stderr: CommandOutput): void {
  for (const warning of warnings) printLine(stderr, `warning: ${warning}`);
}
