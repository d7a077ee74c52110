import * as z from 'zod';
import { errorText, SyncError } from './errors.js';
import { redactUrl, Secret } from './log.js';
import { parseRate, type Rate } from './rate.js';

/**
 * One declaration per setting. Environment name, flag, help text, documentation row, schema and type all come from it.
 * Precedence: flag, environment, default. Every problem is reported at once, by environment name.
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
  /** The default as people write it; undefined: no value. */
  defaultText: string | undefined;
  secret: boolean;
  /** False: a bad value does not show in messages, since parts of it may be secret. */
  shown: boolean;
  /** Reads the text that the variable `env` has; its first issue says what is wrong. */
  schema(env: string): z.ZodType<T>;
  /** Checks a value that a program gives in place of text. */
  value(): z.ZodType<T>;
}

/** What a setting of any kind may have beside its environment name and description. */
export interface SettingSpec {
  /** OPAL's name where it is not the same behind `OPAL_`; `null` where OPAL has no such setting. */
  opal?: string | null;
  /** More names (for example without a prefix). */
  alsoNamed?: readonly string[];
  /** The name before a rename. It keeps working, and the documentation calls it deprecated. */
  formerly?: string;
}

function declare<T>(
  env: string,
  description: string,
  { opal = env.replace(/^SYNC_/, 'OPAL_'), alsoNamed = [], formerly, ...spec }: SettingSpec & { default?: unknown },
  kind: Pick<Setting<T>, 'form' | 'schema' | 'value'> & Partial<Setting<T>>,
): Setting<T> {
  const aliases = [...(opal === null || opal === env ? [] : [opal]), ...alsoNamed, ...(formerly ? [formerly] : [])];
  const defaultText = spec.default === undefined ? undefined : String(spec.default);
  return { env, aliases, formerly, group: '', description, defaultText, secret: false, shown: true, ...kind };
}

/** The settings under one heading of help and documentation. */
export function inGroup<S extends Settings>(group: string, settings: S): S {
  const entries = Object.entries(settings).map(([name, setting]) => [name, { ...setting, group }]);
  return Object.fromEntries(entries) as S;
}

/** Reads a text by a function; the issue is the message of what that throws. */
function textReadBy<T>(read: (text: string) => T): z.ZodType<T, string> {
  return z.string().transform((text, context) => {
    try {
      return read(text);
    } catch (error) {
      context.addIssue(errorText(error));
      return z.NEVER;
    }
  });
}

const TEXT = z.string('must be a text');

/** Text; without a default the value may be undefined. */
export function textSetting<D extends string | undefined = undefined>(
  env: string,
  description: string,
  spec: SettingSpec & { default?: D; form?: string } = {},
): Setting<string | D> {
  return declare<string | D>(env, description, spec, {
    form: spec.form ?? 'text',
    schema: () => TEXT,
    value: () => TEXT,
  });
}

/** Text that must never be shown. */
export function secretSetting(env: string, description: string, spec: SettingSpec = {}): Setting<Secret | undefined> {
  const schema = () => TEXT.transform((text) => new Secret(text));
  const value = () => z.union([z.instanceof(Secret), schema()], 'must be a text or a Secret');
  return declare<Secret | undefined>(env, description, spec, {
    form: 'text',
    schema,
    value,
    secret: true,
    shown: false,
  });
}

/** An http(s) or ws(s) URL; kept as text, a trailing slash removed. */
export function urlSetting<D extends string | undefined = undefined>(
  env: string,
  description: string,
  spec: SettingSpec & { default?: D } = {},
): Setting<string | D> {
  const protocol = /^(https?|wss?)$/;
  const schema = () =>
    z
      .url('must be a URL')
      .pipe(z.url({ protocol, error: 'must start with http://, https://, ws:// or wss://' }))
      .transform((text) => text.replace(/\/+$/, ''));
  return declare<string | D>(env, description, spec, { form: 'URL', schema, value: schema });
}

/** A number within bounds; `scale`: by how much it is multiplied. */
export function numberSetting(
  env: string,
  description: string,
  spec: SettingSpec & { default: number; min?: number; max?: number; integer?: boolean; unit?: string; scale?: number },
): Setting<number> {
  const { min = 0, max = Number.MAX_SAFE_INTEGER, integer = true, scale = 1, unit = 'number' } = spec;
  const outside = `must be between ${min} and ${max}`;
  const schema = () =>
    z
      .string()
      .regex(/\S/, 'must be a number')
      .pipe(
        z.coerce
          .number<string>('must be a number')
          .min(min, outside)
          .max(max, outside)
          .refine((value) => !integer || Number.isInteger(value), 'must be a whole number'),
      )
      .transform((value) => value * scale);
  const [least, most] = [min * scale, max * scale];
  const value = () =>
    z
      .number(`must be a number${scale === 1000 ? ' of milliseconds' : ''}`)
      .refine(
        (given) => given >= least && given <= most && (!integer || Number.isInteger(given / scale)),
        `must be ${integer ? 'a whole number ' : ''}between ${least} and ${most}${scale === 1000 ? ' (milliseconds)' : ''}`,
      );
  return declare(env, description, spec, { form: unit, schema, value });
}

/** Seconds in the environment, milliseconds in the program. */
export function secondsSetting(
  env: string,
  description: string,
  spec: SettingSpec & { default: number; min?: number; max?: number },
): Setting<number> {
  return numberSetting(env, description, { max: 86_400 * 365, ...spec, integer: false, unit: 'seconds', scale: 1000 });
}

/** A size in bytes; OPAL has no such settings. */
export function bytesSetting(
  env: string,
  description: string,
  spec: { default: number; min?: number; max?: number },
): Setting<number> {
  return numberSetting(env, description, { ...spec, opal: null, unit: 'bytes' });
}

const WORDS = { truthy: ['true', '1', 'yes', 'on'], falsy: ['false', '0', 'no', 'off'] };
const FLAG = z
  .string()
  .trim()
  .pipe(z.stringbool({ ...WORDS, error: 'must be true or false' }));

/** `true`, `1`, `yes`, `on` and their opposites, in any case; off by default. */
export function flagSetting(
  env: string,
  description: string,
  spec: SettingSpec & { default?: boolean } = {},
): Setting<boolean> {
  return declare(
    env,
    description,
    { default: false, ...spec },
    {
      form: 'true|false',
      schema: () => FLAG,
      value: () => z.boolean('must be true or false'),
    },
  );
}

/** A flag, off by default, whose value says when OPAL's name turned it on. */
export function opalFlagSetting(env: string, description: string, spec: SettingSpec = {}): Setting<boolean | 'opal'> {
  const schema = (name: string) => FLAG.transform((isOn) => (isOn && name.startsWith('OPAL_') ? 'opal' : isOn));
  const value = () => z.union([z.boolean(), z.literal('opal')], 'must be true or false');
  return declare<boolean | 'opal'>(
    env,
    description,
    { ...spec, default: false },
    { form: 'true|false', schema, value },
  );
}

/**
 * One of a fixed set of words; without a default the value may be undefined. `also` has other words, in upper case, that are
 * accepted in any case for one of them.
 */
export function choiceSetting<const T extends string, const D extends T | undefined = undefined>(
  env: string,
  description: string,
  spec: SettingSpec & {
    choices: readonly T[];
    default?: D;
    ignoreCase?: boolean;
    also?: Readonly<Record<string, NoInfer<T>>>;
  },
): Setting<T | D> {
  const { choices, ignoreCase = false, also = {} } = spec;
  const sameIn = (text: string, choice: string) => ignoreCase && choice.toLowerCase() === text.toLowerCase();
  const chosen = (text: string): string =>
    new Map<string, string>(Object.entries(also)).get(text.toUpperCase()) ??
    choices.find((choice) => sameIn(text, choice)) ??
    text;
  const oneOf = z.enum(choices, `must be one of ${choices.join(', ')}`);
  const schema = () => z.string().transform(chosen).pipe(oneOf);
  return declare<T | D>(env, description, spec, { form: choices.join('|'), schema, value: () => oneOf });
}

/** A rate such as `10 per second`; `none` is no limit. */
export function rateSetting(
  env: string,
  description: string,
  spec: SettingSpec & { default: string },
): Setting<Rate | undefined> {
  const schema = () => textReadBy((text) => (text.trim().toLowerCase() === 'none' ? undefined : parseRate(text)));
  const ofRate = z.object({ text: z.string() }).transform(({ text }) => text);
  const value = () => z.union([schema(), ofRate.pipe(schema())], 'must be a rate such as 10 per second');
  return declare<Rate | undefined>(env, description, spec, { form: 'rate|none', schema, value });
}

/** A list; white space around items is dropped, empty items are skipped. */
export function listSetting(
  env: string,
  description: string,
  spec: SettingSpec & {
    /** Default: a comma. */
    separator?: ':';
    /** Default: none. */
    default?: readonly string[];
    /** Reads an item; throws an `Error` whose message says what is wrong. Default: as it is. */
    parseItem?: (item: string) => string;
  } = {},
): Setting<readonly string[]> {
  const { separator = ',', default: items = [], parseItem = (item) => item } = spec;
  const itemsOf = (text: string) =>
    text
      .split(separator)
      .map((item) => item.trim())
      .filter((item) => item !== '');
  return declare<readonly string[]>(env, description, spec, {
    form: ['a', 'b', 'c'].join(separator),
    schema: () => textReadBy((text) => itemsOf(text).map(parseItem)),
    value: () => z.array(textReadBy(parseItem), `must be a list of texts`),
    defaultText: items.join(separator),
  });
}

/** A JSON value that follows a schema. It may have tokens inside (headers), so a bad value is never shown. */
export function jsonSetting<S extends z.ZodType>(
  env: string,
  description: string,
  spec: SettingSpec & { schema: S; form?: string; parseText?: (text: string) => unknown },
): Setting<z.infer<S> | undefined> {
  const { form = 'JSON', parseText = JSON.parse } = spec;
  const read = (text: string): z.infer<S> => {
    let value: unknown;
    try {
      value = parseText(text);
    } catch {
      throw new Error('must be JSON');
    }
    const { success, data, error } = spec.schema.safeParse(value);
    if (success) return data;
    const [issue] = error.issues;
    throw new Error(`at ${issue?.path.join('.') || 'the top'}: ${issue?.message}`);
  };
  return declare<z.infer<S> | undefined>(env, description, spec, {
    form,
    schema: () => textReadBy(read),
    value: () => spec.schema as z.ZodType<z.infer<S>>,
    shown: false,
  });
}

/** A program's settings by property name. */
export type Settings = Record<string, Setting<unknown>>;
/** The typed values of a program's settings. */
export type SettingValues<S extends Settings> = { readonly [K in keyof S]: S[K] extends Setting<infer T> ? T : never };

/** Values that a program gives, by property name; a secret may be plain text. What is missing, or undefined, has its default. */
export type GivenValues<S extends Settings> = {
  readonly [K in keyof S]?: S[K] extends Setting<infer T> ? (Secret extends T ? T | string : T) | undefined : never;
};

/**
 * Completes values that a program gives with the defaults, and checks them by the same declaration as text. Throws `config_invalid`
 * that names every bad value at once, by property name.
 */
export function settingValues<S extends Settings>(settings: S, given: GivenValues<S>): SettingValues<S> {
  const values: Record<string, unknown> = { ...loadSettings(settings, { env: {} }).values };
  const problems: string[] = [];
  for (const [key, value] of Object.entries<unknown>(given)) {
    const setting = Object.hasOwn(settings, key) ? settings[key] : undefined;
    if (setting === undefined) {
      problems.push(`there is no setting ${key}${similarTo(key, Object.keys(settings))}`);
    } else if (value !== undefined && value !== values[key]) {
      const { success, data, error } = setting.value().safeParse(value);
      values[key] = data;
      if (!success) problems.push(`${key} ${issueText(error)}${setting.shown ? ` (is ${shownValue(value)})` : ''}`);
    }
  }
  if (problems.length > 0) throw invalidSettings(problems);
  return Object.freeze(values) as SettingValues<S>;
}

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
    const text = flag ?? (env === undefined ? setting.defaultText : sources.env[env]);
    origins[key] = flag !== undefined ? 'flag' : env === undefined ? 'default' : { env };
    if (text === undefined) continue;
    const { success, data, error } = setting.schema(flag === undefined && env !== undefined ? env : '').safeParse(text);
    values[key] = data;
    if (success) continue;
    const shown = setting.shown ? ` (is ${shownText(text)})` : '';
    const name = flag !== undefined ? `--${flagName(setting)}` : (env ?? setting.env);
    problems.push(`${name} ${error.issues[0]?.message}${shown}`);
  }
  if (problems.length > 0) throw invalidSettings(problems);
  const unknown = Object.keys(sources.env).filter((name) => /^(SYNC|OPAL)_/.test(name) && !known.has(name));
  return {
    values: Object.freeze(values) as SettingValues<S>,
    origins: origins as LoadedSettings<S>['origins'],
    unknown: unknown.sort(),
  };
}

function invalidSettings(problems: readonly string[]): SyncError {
  const text = `${problems.length === 1 ? 'a setting is' : 'settings are'} not valid:\n  ${problems.join('\n  ')}`;
  return new SyncError('config_invalid', text);
}

/** What is wrong with a value, and where in it. */
function issueText({ issues: [first] }: z.ZodError): string {
  const where = first === undefined || first.path.length === 0 ? '' : `at ${first.path.map(String).join('.')}: `;
  return `${where}${first?.message}`;
}

/** A hint where a name differs by case only, or is the name of an environment variable. */
function similarTo(name: string, names: readonly string[]): string {
  const plain = (text: string): string =>
    text
      .replace(/^(?:SYNC|OPAL)_/, '')
      .replaceAll('_', '')
      .toLowerCase();
  const found = names.find((each) => plain(each) === plain(name));
  return found === undefined ? '' : `: did you mean ${found}?`;
}

function shownValue(value: unknown): string {
  return typeof value === 'string' ? shownText(value) : shownText(String(value));
}

/** A bad value for messages: without credentials, and bounded. */
function shownText(text: string): string {
  const safe = redactUrl(text);
  return JSON.stringify(safe.length > 80 ? `${safe.slice(0, 80)}...` : safe);
}
