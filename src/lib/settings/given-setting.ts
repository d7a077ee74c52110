import { existsSync } from 'node:fs';
import { dirname, isAbsolute, resolve } from 'node:path';
import { errorText } from '../errors.js';
import type { FileSection, FileValue } from './config-file.js';
import { expandHome } from './home-path.js';
import { readSecretFile } from './secret-file.js';
import { isOfService } from './service-variables.js';
import { flagName, type Setting, secretFileEnv, secretFileFlag } from './setting.js';

/** Where settings are read from. */
export interface SettingSources {
  readonly env: Readonly<Record<string, string | undefined>>;
  /** By flag name. */
  readonly flags?: Readonly<Record<string, string | undefined>>;
  /** The command's own name of a flag, where that is another one: `--token` for `client-token`. */
  readonly flagNames?: Readonly<Record<string, string>>;
  /** The section of the configuration file. */
  readonly file?: FileSection | undefined;
}

/** Where a value came from. */
export type SettingOrigin = 'flag' | 'default' | { env: string } | { file: string; line: number };

/** How messages name the place that a value came from. */
export function originName(setting: Pick<Setting<unknown>, 'env'>, origin: SettingOrigin): string {
  if (typeof origin === 'string') return `--${flagName(setting)}`;
  return 'env' in origin ? origin.env : `${origin.file}:${origin.line}: ${flagName(setting)}`;
}

/** A value that somebody gave, as text or as the items of a list, before it is checked. */
export interface GivenSetting {
  readonly value: string | readonly string[];
  readonly origin: SettingOrigin;
  /** How messages name it: `--x`, `SYNC_X`, `policysync.yaml:3: x`. */
  readonly name: string;
  /** The variable that it was read from, or ''. */
  readonly env: string;
  /** The file that contains it, of a secret that was given so. */
  readonly secretFile?: string;
  /** What is not as it should be, but no reason to end. */
  readonly warning?: string;
}

/** One way of giving a value. */
type Candidate = Pick<GivenSetting, 'value' | 'origin' | 'name' | 'env'> & { readonly isSecretFile: boolean };

/**
 * The value of a setting: of the flags, else of the environment, else of the file; undefined if
 * nobody gives one. The message of what it throws says what is wrong, and with which name.
 */
export function givenSetting(setting: Setting<unknown>, sources: SettingSources): GivenSetting | undefined {
  for (const candidates of [ofFlags(setting, sources), ofEnv(setting, sources.env), ofFile(setting, sources.file)]) {
    const [first] = candidates;
    if (first === undefined) continue;
    const other = candidates.find(({ isSecretFile }) => isSecretFile !== first.isSecretFile);
    if (other !== undefined) throw new Error(`${first.name} and ${other.name} are both given: leave one of them out`);
    if (first.value === '') throw new Error(`${first.name} has an empty value: give one, or leave it out`);
    return withPaths(first, setting);
  }
  return undefined;
}

function ofFlags(setting: Setting<unknown>, { flags = {}, flagNames = {} }: SettingSources): Candidate[] {
  const candidate = (flag: string, isSecretFile: boolean): Candidate[] => {
    const value = flags[flag];
    if (value === undefined) return [];
    return [{ value, origin: 'flag', name: flagNames[flag] ?? `--${flag}`, env: '', isSecretFile }];
  };
  const plain = candidate(flagName(setting), false);
  return setting.secret ? [...plain, ...candidate(secretFileFlag(setting), true)] : plain;
}

/** An empty variable is none, and so is one that Kubernetes made. */
function ofEnv(setting: Setting<unknown>, env: SettingSources['env']): Candidate[] {
  const names = [setting.env, ...setting.aliases];
  const candidates = (all: readonly string[], isSecretFile: boolean): Candidate[] =>
    all.flatMap((name) => {
      const value = env[name] ?? '';
      return value === '' || isOfService(name, value)
        ? []
        : [{ value, origin: { env: name }, name, env: name, isSecretFile }];
    });
  const plain = candidates(names, false);
  return setting.secret ? [...plain, ...candidates(names.map(secretFileEnv), true)] : plain;
}

function ofFile(setting: Setting<unknown>, file: FileSection | undefined): Candidate[] {
  const candidate = (key: string, isSecretFile: boolean): Candidate[] => {
    const found: FileValue | undefined = file?.values.get(key);
    if (file === undefined || found === undefined) return [];
    const { value, line } = found;
    const name = `${file.path}:${line}: ${key}`;
    return [{ value, origin: { file: file.path, line }, name, env: '', isSecretFile }];
  };
  const plain = candidate(flagName(setting), false);
  return setting.secret ? [...plain, ...candidate(secretFileFlag(setting), true)] : plain;
}

/** Reads the file of a secret, and finds where paths lead. */
function withPaths({ isSecretFile, ...given }: Candidate, setting: Setting<unknown>): GivenSetting {
  const config = typeof given.origin === 'object' && 'file' in given.origin ? given.origin.file : undefined;
  const placed = (path: string): string => (config === undefined ? expandHome(path) : pathInConfig(path, config));
  const { value } = given;
  if (isSecretFile) return ofSecretFile(given, placed(String(value)));
  if (setting.isPathOrText && config !== undefined) {
    return { ...given, value: pathOrTextInConfig(String(value), config) };
  }
  if (!setting.isPath) return given;
  if (typeof value !== 'string') return { ...given, value: value.map(placed) };
  const { domain } = setting;
  if (domain.kind === 'list') {
    const items = value.split(domain.separator).map((item) => placed(item.trim()));
    return { ...given, value: items.join(domain.separator) };
  }
  const wrong = config === undefined ? undefined : misplaced(value, config);
  return { ...given, value: placed(value), ...(wrong !== undefined && { warning: `${given.name} ${wrong}` }) };
}

function ofSecretFile(given: Omit<Candidate, 'isSecretFile'>, path: string): GivenSetting {
  let secret: ReturnType<typeof readSecretFile>;
  try {
    secret = readSecretFile(path);
  } catch (error) {
    throw new Error(`${given.name}: ${errorText(error)}`);
  }
  const read = { ...given, value: secret.text, secretFile: path };
  if (secret.openMode === undefined) return read;
  const warning = `${given.name}: every user of this machine may read the file ${path} (mode ${secret.openMode.toString(8)}): chmod 600 ${path}`;
  return { ...read, warning };
}

/** What comes before a colon in front of the first slash is a scheme or a host. */
const ADDRESS = /^[^/\\]+:/;

/**
 * Whether a path begins where its reader says: it is neither absolute nor an address nor in the
 * home folder.
 */
function isRelative(path: string): boolean {
  return path !== '' && !isAbsolute(path) && !ADDRESS.test(path) && expandHome(path) === path;
}

/**
 * A path of a configuration file, with the home folder in place of `~`. A relative one begins in
 * the folder of that file, so that the file means the same from everywhere. An address stays.
 */
function pathInConfig(path: string, configFile: string): string {
  return isRelative(path) ? resolve(dirname(configFile), path) : expandHome(path);
}

/** As {@link pathInConfig}, of a value that may be a text: one that names no file there stays. */
function pathOrTextInConfig(value: string, configFile: string): string {
  const path = value.includes('\n') ? value : pathInConfig(value.trim(), configFile);
  return path !== value && existsSync(path) ? path : value;
}

/**
 * What to say of a path that leads elsewhere than from the working directory, where there is
 * something; undefined: nothing.
 */
function misplaced(path: string, configFile: string): string | undefined {
  const [there, here] = [pathInConfig(path, configFile), resolve(path)];
  if (!isRelative(path) || there === here || existsSync(there) || !existsSync(here)) return undefined;
  return `is ${there}, which does not exist: relative paths begin in the folder of the configuration file, not in the working directory, where ${here} is`;
}
