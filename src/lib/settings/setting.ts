import type * as z from 'zod';
import type { Secret } from '../observe/log.js';

/**
 * One declaration per setting. Environment name, flag, key of the configuration file, help text,
 * documentation row, schema and type all come from it.
 */
export interface Setting<T> {
  /** Environment variable, in full. */
  env: string;
  /** Other environment names for the same setting, the OPAL name first. */
  aliases: readonly string[];
  /** An older environment name, which is deprecated: the last alias. Its flag works too. */
  formerly: string | undefined;
  /** Heading under which help and documentation list it. */
  group: string;
  description: string;
  /** The form of a value, for people: `seconds`, `a,b,c`, `true|false`. */
  form: string;
  /**
   * What values there are, for code: how the configuration file writes them, and what editors
   * check.
   */
  domain: SettingDomain;
  /** The default as people write it; undefined: no value. */
  defaultText: string | undefined;
  secret: boolean;
  /** Whether a file with it is read again at each use: others replace it while the program runs. */
  isReread?: boolean;
  /** Whether it is a path, or a list of paths: `~/` at the start stands for the home folder. */
  isPath: boolean;
  /** Whether it is a text or the path of a file with it. */
  isPathOrText: boolean;
  /** False: a bad value does not show in messages, since parts of it may be secret. */
  shown: boolean;
  /** Reads the text that the variable `env` has; its first issue says what is wrong. */
  schema(env: string): z.ZodType<T>;
  /** Checks a value that a program gives in place of text. */
  value(): z.ZodType<T>;
}

/**
 * The values that a setting may have. `anyCase`: words that are taken in any case for one of the
 * choices.
 */
export type SettingDomain =
  | { readonly kind: 'text'; readonly format?: 'uri' }
  | { readonly kind: 'number'; readonly min: number; readonly max: number; readonly integer: boolean }
  | { readonly kind: 'flag' }
  | { readonly kind: 'choice'; readonly choices: readonly string[]; readonly anyCase: readonly string[] }
  | { readonly kind: 'list'; readonly separator: string }
  | { readonly kind: 'json'; readonly schema: z.ZodType; readonly orText: boolean };

/** A program's settings by property name. */
export type Settings = Record<string, Setting<unknown>>;
/** The typed values of a program's settings. */
export type SettingValues<S extends Settings> = { readonly [K in keyof S]: S[K] extends Setting<infer T> ? T : never };

/**
 * Values that a program gives, by property name; a secret may be plain text. What is missing, or
 * undefined, has its default.
 */
export type GivenValues<S extends Settings> = {
  readonly [K in keyof S]?: S[K] extends Setting<infer T> ? (Secret extends T ? T | string : T) | undefined : never;
};

/**
 * The flag of a setting: `policy-repo-url` for SYNC_POLICY_REPO_URL. The configuration file has the
 * same name.
 */
export function flagName(setting: Pick<Setting<unknown>, 'env'>): string {
  return setting.env
    .replace(/^SYNC_/, '')
    .toLowerCase()
    .replaceAll('_', '-');
}

/** The flag that names a file with the secret: `client-token-file` for SYNC_CLIENT_TOKEN. */
export function secretFileFlag(setting: Pick<Setting<unknown>, 'env'>): string {
  return `${flagName(setting)}-file`;
}

/** The variable that names a file with the secret that the variable `env` would contain. */
export function secretFileEnv(env: string): string {
  return `${env}_FILE`;
}

/** Every environment name of a setting; of a secret, also those that name a file with it. */
export function envNames({ env, aliases, secret }: Setting<unknown>): string[] {
  const names = [env, ...aliases];
  return secret ? [...names, ...names.map(secretFileEnv)] : names;
}
