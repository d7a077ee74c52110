import type * as z from 'zod';
import { errorText, SyncError } from '../errors.js';
import { isRecord } from '../json/is-record.js';
import { redactUrl, type Secret } from '../observe/log.js';
import { FileSecret } from './file-secret.js';
import { type GivenSetting, givenSetting, type SettingOrigin, type SettingSources } from './given-setting.js';
import { isOfService } from './service-variables.js';
import { envNames, flagName, type GivenValues, type Setting, type Settings, type SettingValues } from './setting.js';
import { settingHint } from './setting-names.js';
import { hint, surelyMeant } from './similar-name.js';

/** Result of {@link readSettings}. */
export interface LoadedSettings<S extends Settings> {
  values: SettingValues<S>;
  origins: { readonly [K in keyof S]: SettingOrigin };
  /** The text of each value that somebody gave, without those of secrets. */
  texts: { readonly [K in keyof S]?: string };
  /** The files that secrets were read from. */
  secretFiles: { readonly [K in keyof S]?: string };
  /**
   * Names in the environment that start with SYNC_ or OPAL_, and that no setting has and none is
   * near: of other programs, or something that OPAL has and we do not
   * (docs/reference/opal-compatibility.md).
   */
  unknown: string[];
  /** What is not as it should be, but no reason to end. */
  warnings: string[];
}

/**
 * Reads all settings; a flag counts before the environment, the environment before the file, the
 * file before the default. Throws `config_invalid` that names every bad value at once, and each
 * SYNC_ or OPAL_ variable that is nearly a setting. `knownElsewhere` are names that belong to
 * another program of this project.
 */
export function readSettings<S extends Settings>(
  settings: S,
  sources: SettingSources,
  knownElsewhere: readonly string[] = [],
): LoadedSettings<S> {
  const { env } = sources;
  const values: Record<string, unknown> = {};
  const origins: Record<string, SettingOrigin> = {};
  const texts: Record<string, string> = {};
  const secretFiles: Record<string, string> = {};
  const problems: string[] = [];
  const warnings: string[] = [];
  const known = new Set(knownElsewhere);
  for (const [key, setting] of Object.entries(settings)) {
    for (const name of envNames(setting)) {
      known.add(name);
      if (isOfService(name, env[name])) warnings.push(ofServiceText(name, setting));
    }
    origins[key] = 'default';
    try {
      const given = givenSetting(setting, sources);
      if (given !== undefined) {
        origins[key] = given.origin;
        if (!setting.secret) texts[key] = textOf(given.value, setting);
        if (given.secretFile !== undefined) secretFiles[key] = given.secretFile;
        if (given.warning !== undefined) warnings.push(given.warning);
      }
      const warn = (warning: string): unknown => warnings.push(warning);
      if (given !== undefined) values[key] = rereadSecret(given, setting, warn) ?? checkedValue(given, setting, warn);
      else if (setting.defaultText !== undefined) values[key] = setting.schema('').parse(setting.defaultText);
    } catch (error) {
      problems.push(errorText(error));
    }
  }
  const { unknown, misspelt } = unknownNames(env, known);
  problems.push(...misspelt);
  if (problems.length > 0) throw invalidSettings(problems);
  return {
    values: Object.freeze(values) as SettingValues<S>,
    origins: origins as LoadedSettings<S>['origins'],
    texts: texts as LoadedSettings<S>['texts'],
    secretFiles: secretFiles as LoadedSettings<S>['secretFiles'],
    unknown,
    warnings,
  };
}

/**
 * Settings of OPAL that mean nothing here, though they look like others that do
 * (docs/reference/opal-compatibility.md).
 */
export const OPAL_ALONE: readonly string[] = ['OPAL_DEFAULT_DATA_URL', 'OPAL_POLICY_STORE_TYPE', 'OPAL_SERVER_PORT'];

/** Names of no setting, in order; and what is wrong with those that can only be misspelt. */
function unknownNames(
  env: SettingSources['env'],
  known: ReadonlySet<string>,
): { unknown: string[]; misspelt: string[] } {
  const names = Object.keys(env).filter(
    (name) => /^(SYNC|OPAL)_/.test(name) && !known.has(name) && !isOfService(name, env[name]),
  );
  const meant = (name: string): string[] => {
    if (env[name] === '' || OPAL_ALONE.includes(name)) return [];
    const isSameKind = (other: string): boolean => other.startsWith('OPAL_') === name.startsWith('OPAL_');
    return surelyMeant(name, [...known].filter(isSameKind));
  };
  const unknown: string[] = [];
  const misspelt: string[] = [];
  for (const name of names.sort()) {
    const found = meant(name);
    if (found.length === 0) unknown.push(name);
    else misspelt.push(`there is no setting ${name}${hint(found)}`);
  }
  return { unknown, misspelt };
}

function ofServiceText(name: string, setting: Setting<unknown>): string {
  return `${name} is what Kubernetes says of a Service with that name, and not read: set enableServiceLinks: false of the pod, or give --${flagName(setting)}`;
}

/**
 * The checked value; the message of what it throws says what is wrong. `warn`: with what is not as
 * it should be.
 */
function checkedValue(
  { value, name, env }: GivenSetting,
  setting: Setting<unknown>,
  warn: (warning: string) => void,
): unknown {
  const schema = typeof value === 'string' ? setting.schema(env) : setting.value();
  const { success, data, error } = schema.safeParse(value);
  const isQuoted = typeof value === 'string' && hasQuotes(value);
  if (isQuoted && success && setting.secret) warn(`${name} ${QUOTES_REMEDY}`);
  const mayBeQuoted = setting.secret || setting.domain.kind === 'json';
  if (success && (!isQuoted || mayBeQuoted)) return data;
  const problem = isQuoted ? QUOTES_REMEDY : error?.issues[0]?.message;
  const shown = setting.shown ? ` (is ${shownText(textOf(value, setting))})` : '';
  throw new Error(`${name} ${problem}${shown}`);
}

const QUOTES_REMEDY =
  'has quotes around its value, which count: leave them out (a shell takes them away, --env-file of Docker and lists of Compose keep them)';

/** Whether a value is in quotes that were meant for somebody who should have taken them away. */
function hasQuotes(value: string): boolean {
  const quote = value.trim().charAt(0);
  return (quote === '"' || quote === "'") && value.trim().length > 1 && value.trim().endsWith(quote);
}

/** The secret of a setting whose file is read at each use. */
function rereadSecret(
  given: GivenSetting,
  setting: Setting<unknown>,
  warn: (warning: string) => void,
): FileSecret | undefined {
  const { secretFile } = given;
  if (setting.isReread !== true || secretFile === undefined) return undefined;
  const first = checkedValue(given, setting, warn) as Secret;
  // Whoever reads it later is not warned again.
  const secretIn = (text: string): string =>
    (checkedValue({ ...given, value: text }, setting, () => undefined) as Secret).reveal();
  return new FileSecret(secretFile, first.reveal(), secretIn);
}

function textOf(value: string | readonly string[], { domain }: Setting<unknown>): string {
  if (typeof value === 'string') return value;
  return value.join(domain.kind === 'list' ? domain.separator : ',');
}

/**
 * Completes values that a program gives with the defaults, and checks them by the same declaration
 * as text. Throws `config_invalid` that names every bad value at once, by property name. `parts`:
 * what is no setting, and given beside them.
 */
export function settingValues<S extends Settings>(
  settings: S,
  given: GivenValues<S>,
  parts: readonly string[] = [],
): SettingValues<S> {
  if (!isRecord(given)) throw new SyncError('config_invalid', 'the settings must be an object');
  const values: Record<string, unknown> = { ...readSettings(settings, { env: {} }).values };
  const problems: string[] = [];
  for (const [key, value] of Object.entries<unknown>(given)) {
    const setting = Object.hasOwn(settings, key) ? settings[key] : undefined;
    if (setting === undefined) {
      const meant = parts.includes(key)
        ? ': it belongs to the second argument'
        : settingHint(key, settings, 'property');
      problems.push(`there is no setting ${key}${meant}`);
    } else if (value !== undefined && value !== values[key]) {
      const { success, data, error } = setting.value().safeParse(value);
      values[key] = data;
      if (!success) problems.push(`${key} ${issueText(error)}${setting.shown ? ` (is ${shownValue(value)})` : ''}`);
    }
  }
  if (problems.length > 0) throw invalidSettings(problems);
  return Object.freeze(values) as SettingValues<S>;
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

function shownValue(value: unknown): string {
  return typeof value === 'string' ? shownText(value) : shownText(String(value));
}

/** A bad value for messages: without credentials, and bounded. */
function shownText(text: string): string {
  const safe = redactUrl(text);
  return JSON.stringify(safe.length > 80 ? `${safe.slice(0, 80)}...` : safe);
}
