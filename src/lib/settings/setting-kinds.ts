import * as z from 'zod';
import { errorText } from '../errors.js';
import { parseJson } from '../json/json.js';
import { jsonProblem } from '../json/json-problem.js';
import { Secret } from '../observe/log.js';
import { parseRate, type Rate } from '../run/rate.js';
import { withoutEnd } from '../run/without-end.js';
import { FileSecret } from './file-secret.js';
import type { Setting, Settings } from './setting.js';

/** Values by key. */
type Pairs = Readonly<Record<string, string>>;

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
  kind: Pick<Setting<T>, 'form' | 'schema' | 'value' | 'domain'> & Partial<Setting<T>>,
): Setting<T> {
  const aliases = [...(opal === null || opal === env ? [] : [opal]), ...alsoNamed, ...(formerly ? [formerly] : [])];
  const defaultText = spec.default === undefined ? undefined : String(spec.default);
  const plain = { group: '', secret: false, isPath: false, isPathOrText: false, shown: true };
  return { env, aliases, formerly, description, defaultText, ...plain, ...kind };
}

/** The settings under one heading of help and documentation. */
export function inGroup<S extends Settings>(group: string, settings: S): S {
  const entries = Object.entries(settings).map(([name, setting]) => [name, { ...setting, group }]);
  return Object.fromEntries(entries) as S;
}

/** Reads a text by a function; the issue is the message of what that throws. */
function textReadBy<T>(read: (text: string) => T): z.ZodType<T, string> {
  return z.string().transform(readBy(read));
}

/** A transform by a function; the issue is the message of what that throws. */
function readBy<G, T>(read: (given: G) => T): (given: G, context: z.RefinementCtx<G>) => T {
  return (given, context) => {
    try {
      return read(given);
    } catch (error) {
      context.addIssue(errorText(error));
      return z.NEVER;
    }
  };
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
    domain: { kind: 'text' },
    schema: () => TEXT,
    value: () => TEXT,
  });
}

/**
 * The host to listen on: an IPv6 address as sockets take it, also if it is given in brackets, as in
 * a URL.
 */
export function hostSetting<D extends string>(
  env: string,
  description: string,
  spec: SettingSpec & { default: D },
): Setting<string> {
  const host = TEXT.transform((text) => text.trim().replace(/^\[(.*)\]$/, '$1'));
  return { ...textSetting<string>(env, description, spec), schema: () => host, value: () => host };
}

/** Characters that could change how a line of text looks, or end it. */
const NOT_IN_LINE = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/u;

/**
 * A short line of text for people; white space around it is dropped. `not`: lines that mean
 * something else.
 */
export function lineSetting(
  env: string,
  description: string,
  spec: SettingSpec & { maxCharacters: number; not?: readonly string[]; form?: string },
): Setting<string | undefined> {
  const { maxCharacters: max, not = [] } = spec;
  const line = TEXT.trim()
    .refine((text) => text !== '' && text.length <= max && !NOT_IN_LINE.test(text), {
      error: `must be a line of 1 to ${max} characters, without control characters`,
    })
    .refine((text) => !not.includes(text), { error: `must not be ${not.join(' or ')}` });
  return { ...textSetting(env, description, spec), schema: () => line, value: () => line };
}

/** The path of a file or a folder: text in which `~/` at the start stands for the home folder. */
export function pathSetting(
  env: string,
  description: string,
  spec: SettingSpec & { form: string },
): Setting<string | undefined> {
  return { ...textSetting(env, description, spec), isPath: true };
}

/** A setting whose value may be the path of a file that has it. */
export function orPath<T>(setting: Setting<T>): Setting<T> {
  return { ...setting, isPathOrText: true };
}

/** Text that must never be shown. */
export function secretSetting(env: string, description: string, spec: SettingSpec = {}): Setting<Secret | undefined> {
  return secretOf(TEXT, env, description, spec);
}

/** What `Authorization` may have behind its scheme. */
const TOKEN = TEXT.trim().regex(/^[\x21-\x7e]+$/, 'has characters that no token has (blanks, line breaks)');

/** A secret that is sent in a header; white space around it, such as a last newline, is dropped. */
export function tokenSetting(env: string, description: string, spec: SettingSpec = {}): Setting<Secret | undefined> {
  return secretOf(TOKEN, env, description, spec);
}

function secretOf(
  text: z.ZodType<string, string>,
  env: string,
  description: string,
  spec: SettingSpec,
): Setting<Secret | undefined> {
  const schema = () => text.transform((given) => new Secret(given));
  const either = z.union([z.instanceof(Secret), TEXT], 'must be a text or a Secret');
  const plain = () => either.transform((given) => (given instanceof Secret ? given.reveal() : given)).pipe(schema());
  // It was checked when it was made, and stays what it is.
  const value = () => z.union([z.instanceof(FileSecret), plain()], 'must be a text or a Secret');
  return declare<Secret | undefined>(env, description, spec, {
    form: 'text',
    domain: { kind: 'text' },
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
      .transform((text) => withoutEnd(text, '/'));
  return declare<string | D>(env, description, spec, {
    form: 'URL',
    domain: { kind: 'text', format: 'uri' },
    schema,
    value: schema,
  });
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
  return declare(env, description, spec, { form: unit, domain: { kind: 'number', min, max, integer }, schema, value });
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

/** The words of a flag, in any case. */
export const FLAG_WORDS = { truthy: ['true', '1', 'yes', 'on'], falsy: ['false', '0', 'no', 'off'] };
const FLAG = z
  .string()
  .trim()
  .pipe(z.stringbool({ ...FLAG_WORDS, error: 'must be true or false' }));

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
      domain: { kind: 'flag' },
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
    { form: 'true|false', domain: { kind: 'flag' }, schema, value },
  );
}

/**
 * One of a fixed set of words; without a default the value may be undefined. `also` has other
 * words, in upper case, that are accepted in any case for one of them.
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
  return declare<T | D>(env, description, spec, {
    form: choices.join('|'),
    domain: { kind: 'choice', choices, anyCase: [...(ignoreCase ? choices : []), ...Object.keys(also)] },
    schema,
    value: () => oneOf,
  });
}

/** A rate such as `10 per second`; `none` is no limit. */
export function rateSetting(
  env: string,
  description: string,
  spec: SettingSpec & { default: string },
): Setting<Rate | 'none'> {
  const schema = () =>
    textReadBy<Rate | 'none'>((text) => (text.trim().toLowerCase() === 'none' ? 'none' : parseRate(text)));
  const ofRate = z.object({ text: z.string() }).transform(({ text }) => text);
  const value = () => z.union([schema(), ofRate.pipe(schema())], 'must be a rate such as 10 per second');
  return declare<Rate | 'none'>(env, description, spec, {
    form: 'rate|none',
    domain: { kind: 'text' },
    schema,
    value,
  });
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
    /** Whether the items are paths of files or folders. */
    ofPaths?: boolean;
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
    domain: { kind: 'list', separator },
    isPath: spec.ofPaths === true,
    schema: () => textReadBy((text) => itemsOf(text).map(parseItem)),
    value: () => z.array(textReadBy(parseItem), `must be a list of texts`),
    defaultText: items.join(separator),
  });
}

/**
 * Pairs such as `app=billing,zone=a`. `read` reads the text, or its items; `check` what a program
 * gives; both throw what is wrong.
 */
export function pairsSetting(
  env: string,
  description: string,
  spec: SettingSpec & {
    form: string;
    read: (given: string | readonly string[]) => Pairs;
    check: (given: Pairs) => Pairs;
  },
): Setting<Pairs> {
  const { read, check, form } = spec;
  const given = z.union([z.array(z.string()), z.record(z.string(), z.string())], `must be pairs such as ${form}`);
  return declare<Pairs>(
    env,
    description,
    { ...spec, default: '' },
    {
      form,
      domain: { kind: 'list', separator: ',' },
      schema: () => textReadBy(read),
      value: () => given.transform(readBy((pairs) => (Array.isArray(pairs) ? read(pairs) : check(pairs as Pairs)))),
    },
  );
}

/**
 * A JSON value that follows a schema. It may have tokens inside (headers), so a bad value is never
 * shown.
 */
export function jsonSetting<S extends z.ZodType>(
  env: string,
  description: string,
  spec: SettingSpec & { schema: S; form?: string; parseText?: (text: string) => unknown },
): Setting<z.infer<S> | undefined> {
  const { form = 'JSON', parseText = parseJson } = spec;
  const read = (text: string): z.infer<S> => {
    let value: unknown;
    try {
      value = parseText(text);
    } catch {
      // What was thrown may repeat a part of the text.
      throw new Error(`must be JSON: ${jsonProblem(text) ?? 'it has more values than are read'}`);
    }
    const { success, data, error } = spec.schema.safeParse(value);
    if (success) return data;
    const [issue] = error.issues;
    throw new Error(`at ${issue?.path.join('.') || 'the top'}: ${issue?.message}`);
  };
  return declare<z.infer<S> | undefined>(env, description, spec, {
    form,
    domain: { kind: 'json', schema: spec.schema, orText: !form.startsWith('JSON') },
    schema: () => textReadBy(read),
    value: () => spec.schema as z.ZodType<z.infer<S>>,
    shown: false,
  });
}
