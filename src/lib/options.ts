import type * as z from 'zod';
import { SyncError } from './errors.js';
import { redactUrl, Secret } from './log.js';
import { parseRate, type Rate } from './rate.js';

/**
 * One declaration per setting. Environment name, flag, help text, documentation row, parser and type all come from it.
 * Precedence: flag, environment, default. Every problem is reported at once, by environment name.
 */
export interface Setting<T> {
  /** Environment variable, in full. */
  env: string;
  /** Other environment names for the same setting, the OPAL name first. */
  aliases: readonly string[];
  /** Heading under which help and documentation list it. */
  group: string;
  description: string;
  /** The form of a value, for people: `seconds`, `a,b,c`, `true|false`. */
  form: string;
  /** The default as people write it; undefined: no value. */
  defaultText: string | undefined;
  secret: boolean;
  /** False: a bad value does not show in messages, since parts of it may be secret. */
  shown: boolean;
  /** Reads a value; throws an `Error` whose message says what is due. `env`: the environment name that it came by. */
  parse(text: string, env?: string): T;
  /** The value when nothing is set. */
  fallback: T;
}

/** What every kind of setting is declared with. */
export interface SettingSpec {
  env: string;
  group: string;
  description: string;
  /** OPAL's name where it is not the same behind `OPAL_`; `null` where OPAL has no such setting. */
  opal?: string | null;
  /** More names (for example without a prefix). */
  alsoNamed?: readonly string[];
}

function declare<T>(
  spec: SettingSpec,
  rest: Pick<Setting<T>, 'form' | 'parse' | 'fallback' | 'defaultText'> & { secret?: boolean; shown?: boolean },
): Setting<T> {
  const opal = spec.opal === undefined ? spec.env.replace(/^SYNC_/, 'OPAL_') : spec.opal;
  return {
    env: spec.env,
    aliases: [...(opal === null || opal === spec.env ? [] : [opal]), ...(spec.alsoNamed ?? [])],
    group: spec.group,
    description: spec.description,
    secret: false,
    shown: true,
    ...rest,
  };
}

/** Text; without a default the value may be undefined. */
export function textSetting(spec: SettingSpec & { default: string; form?: string }): Setting<string>;
export function textSetting(spec: SettingSpec & { form?: string }): Setting<string | undefined>;
export function textSetting(spec: SettingSpec & { default?: string; form?: string }): Setting<string | undefined> {
  return declare(spec, {
    form: spec.form ?? 'text',
    parse: (text) => text,
    fallback: spec.default,
    defaultText: spec.default,
  });
}

/** Text that must never be shown. */
export function secretSetting(spec: SettingSpec): Setting<Secret | undefined> {
  return declare<Secret | undefined>(spec, {
    form: 'text',
    parse: (text) => new Secret(text),
    fallback: undefined,
    defaultText: undefined,
    secret: true,
    shown: false,
  });
}

/** An http(s) or ws(s) URL; kept as text, a trailing slash removed. */
export function urlSetting(spec: SettingSpec & { default: string }): Setting<string>;
export function urlSetting(spec: SettingSpec): Setting<string | undefined>;
export function urlSetting(spec: SettingSpec & { default?: string }): Setting<string | undefined> {
  return declare<string | undefined>(spec, {
    form: 'URL',
    parse: (text) => {
      if (!URL.canParse(text)) throw new Error('must be a URL');
      if (!/^(https?|wss?):$/.test(new URL(text).protocol))
        throw new Error('must start with http://, https://, ws:// or wss://');
      return text.replace(/\/+$/, '');
    },
    fallback: spec.default,
    defaultText: spec.default,
  });
}

/** A number within bounds; `seconds` settings are given in seconds and arrive in milliseconds. */
export function numberSetting(
  spec: SettingSpec & { default: number; min?: number; max?: number; integer?: boolean; unit?: string; scale?: number },
): Setting<number> {
  const { min = 0, max = Number.MAX_SAFE_INTEGER, integer = true, scale = 1 } = spec;
  return declare(spec, {
    form: spec.unit ?? 'number',
    parse: (text) => {
      const value = Number(text);
      if (text.trim() === '' || !Number.isFinite(value)) throw new Error('must be a number');
      if (integer && !Number.isInteger(value)) throw new Error('must be a whole number');
      if (value < min || value > max) throw new Error(`must be between ${min} and ${max}`);
      return value * scale;
    },
    fallback: spec.default * scale,
    defaultText: String(spec.default),
  });
}

/** Seconds in the environment, milliseconds in the program. */
export function secondsSetting(spec: SettingSpec & { default: number; min?: number; max?: number }): Setting<number> {
  return numberSetting({ max: 86_400 * 365, ...spec, integer: false, unit: 'seconds', scale: 1000 });
}

/** `true`, `1`, `yes`, `on` and their opposites, in any case; anything else is an error. */
export function flagSetting(spec: SettingSpec & { default: boolean }): Setting<boolean> {
  return declare(spec, {
    form: 'true|false',
    parse: parseFlag,
    fallback: spec.default,
    defaultText: String(spec.default),
  });
}

/** A flag, off by default, that tells when it was OPAL's name that turned it on. */
export function opalFlagSetting(spec: SettingSpec): Setting<boolean | 'opal'> {
  return declare<boolean | 'opal'>(spec, {
    form: 'true|false',
    parse: (text, env = '') => (parseFlag(text) && env.startsWith('OPAL_') ? 'opal' : parseFlag(text)),
    fallback: false,
    defaultText: 'false',
  });
}

function parseFlag(text: string): boolean {
  const value = text.trim().toLowerCase();
  if (['true', '1', 'yes', 'on'].includes(value)) return true;
  if (['false', '0', 'no', 'off'].includes(value)) return false;
  throw new Error('must be true or false');
}

/** One of a fixed set of words; `also` has other words, in upper case, that are taken in any case for one of them. */
export function choiceSetting<const T extends string>(
  spec: SettingSpec & {
    choices: readonly T[];
    default: NoInfer<T>;
    ignoreCase?: boolean;
    also?: Readonly<Record<string, NoInfer<T>>>;
  },
): Setting<T> {
  return declare<T>(spec, {
    form: spec.choices.join('|'),
    parse: (text) => {
      const named = new Map(Object.entries(spec.also ?? {})).get(text.toUpperCase());
      const found =
        named ??
        spec.choices.find(
          (choice) => choice === text || (spec.ignoreCase && choice.toLowerCase() === text.toLowerCase()),
        );
      if (found === undefined) throw new Error(`must be one of ${spec.choices.join(', ')}`);
      return found;
    },
    fallback: spec.default,
    defaultText: spec.default,
  });
}

/** A rate such as `10 per second`; `none` is no limit. */
export function rateSetting(spec: SettingSpec & { default: string }): Setting<Rate | undefined> {
  const parse = (text: string): Rate | undefined =>
    text.trim().toLowerCase() === 'none' ? undefined : parseRate(text);
  return declare<Rate | undefined>(spec, {
    form: 'rate|none',
    parse,
    fallback: parse(spec.default),
    defaultText: spec.default,
  });
}

/** A list; white space around items is dropped, empty items are skipped. */
export function listSetting(
  spec: SettingSpec & {
    separator: ',' | ':';
    default: readonly string[];
    /** Reads an item; throws an `Error` whose message says what is due. Default: as it is. */
    parseItem?: (item: string) => string;
  },
): Setting<readonly string[]> {
  return declare<readonly string[]>(spec, {
    form: `a${spec.separator}b${spec.separator}c`,
    parse: (text) =>
      text
        .split(spec.separator)
        .map((item) => item.trim())
        .filter((item) => item !== '')
        .map(spec.parseItem ?? ((item) => item)),
    fallback: spec.default,
    defaultText: spec.default.join(spec.separator),
  });
}

/** A JSON value that follows a schema. It may have tokens inside (headers), so a bad value is never shown. */
export function jsonSetting<S extends z.ZodType>(
  spec: SettingSpec & { schema: S; form?: string; parseText?: (text: string) => unknown },
): Setting<z.infer<S> | undefined> {
  return declare<z.infer<S> | undefined>(spec, {
    form: spec.form ?? 'JSON',
    shown: false,
    parse: (text) => {
      let value: unknown;
      try {
        value = (spec.parseText ?? JSON.parse)(text);
      } catch (cause) {
        throw new Error('must be JSON', { cause });
      }
      const parsed = spec.schema.safeParse(value);
      if (parsed.success) return parsed.data;
      const first = parsed.error.issues[0];
      throw new Error(
        `at ${first === undefined || first.path.length === 0 ? 'the top' : first.path.join('.')}: ${first?.message ?? 'is not valid'}`,
      );
    },
    fallback: undefined,
    defaultText: undefined,
  });
}

/** A program's settings by property name. */
export type Settings = Record<string, Setting<unknown>>;
/** The typed values of a program's settings. */
export type SettingValues<S extends Settings> = { readonly [K in keyof S]: S[K] extends Setting<infer T> ? T : never };

/** The flag of a setting: `--policy-repo-url` for SYNC_POLICY_REPO_URL. */
export function flagName(setting: Pick<Setting<unknown>, 'env'>): string {
  return setting.env
    .replace(/^SYNC_/, '')
    .toLowerCase()
    .replaceAll('_', '-');
}

/** Where a value came from. */
export type SettingOrigin = 'flag' | 'default' | { env: string };

/** Result of {@link loadSettings}. */
export interface LoadedSettings<S extends Settings> {
  values: SettingValues<S>;
  origins: { readonly [K in keyof S]: SettingOrigin };
  /**
   * Names in the environment that start with SYNC_ or OPAL_ and that no setting has: a typing error, or something that
   * OPAL has and we do not (docs/opal-compatibility.md).
   */
  unknown: string[];
}

/**
 * Reads all settings. `flags` are by flag name. Throws `config_invalid` that names every bad value at once. `knownElsewhere`
 * are names that belong to another program of this project.
 */
export function loadSettings<S extends Settings>(
  settings: S,
  sources: { env: Readonly<Record<string, string | undefined>>; flags?: Readonly<Record<string, string | undefined>> },
  knownElsewhere: readonly string[] = [],
): LoadedSettings<S> {
  const values: Record<string, unknown> = {};
  const origins: Record<string, SettingOrigin> = {};
  const problems: string[] = [];
  const known = new Set(knownElsewhere);
  for (const [key, setting] of Object.entries(settings)) {
    const names = [setting.env, ...setting.aliases];
    for (const name of names) known.add(name);
    const flag = sources.flags?.[flagName(setting)];
    const env = names.find((name) => (sources.env[name] ?? '') !== '');
    const text = flag ?? (env === undefined ? undefined : sources.env[env]);
    origins[key] = flag !== undefined ? 'flag' : env === undefined ? 'default' : { env };
    if (text === undefined) {
      values[key] = setting.fallback;
      continue;
    }
    try {
      values[key] = setting.parse(text, flag === undefined ? env : undefined);
    } catch (error) {
      const shown = setting.shown ? ` (is ${shownText(text)})` : '';
      const name = flag !== undefined ? `--${flagName(setting)}` : (env ?? setting.env);
      problems.push(`${name} ${error instanceof Error ? error.message : String(error)}${shown}`);
    }
  }
  if (problems.length > 0) {
    throw new SyncError(
      'config_invalid',
      `${problems.length === 1 ? 'a setting is' : 'settings are'} not valid:\n  ${problems.join('\n  ')}`,
    );
  }
  const unknown = Object.keys(sources.env).filter((name) => /^(SYNC|OPAL)_/.test(name) && !known.has(name));
  return {
    values: Object.freeze(values) as SettingValues<S>,
    origins: origins as LoadedSettings<S>['origins'],
    unknown: unknown.sort(),
  };
}

/** A bad value for messages: without credentials, and bounded. */
function shownText(text: string): string {
  const safe = redactUrl(text);
  return JSON.stringify(safe.length > 80 ? `${safe.slice(0, 80)}...` : safe);
}
