import { parseJson } from '../../lib/json/json.js';
import { redactUrl } from '../../lib/observe/log.js';
import type { LoadedSettings } from '../../lib/settings/options.js';
import { flagName, type Setting, type Settings, secretFileFlag } from '../../lib/settings/setting.js';

/** The settings of a program with their values. */
export interface ProgramConfig {
  /** `server` or `client`. */
  readonly section: string;
  readonly settings: Settings;
  readonly loaded: LoadedSettings<Settings>;
}

/**
 * Returns the effective configuration as lines of an environment file, grouped, each with the
 * origin of its value. Masks secrets, credentials in URLs, header values, and members with secret
 * names as `***`.
 */
export function configText(settings: Settings, loaded: LoadedSettings<Settings>): string {
  const lines: string[] = [];
  let group = '';
  for (const [key, setting] of Object.entries(settings)) {
    if (setting.group !== group) lines.push(...(group === '' ? [] : ['']), `# ${setting.group}`);
    group = setting.group;
    const value = shownValue(key, setting, loaded);
    const origin = originText(originOf(key, setting, loaded));
    lines.push(value === null ? `# ${setting.env} is not set` : `${setting.env}=${value}  # ${origin}`);
  }
  return lines.join('\n');
}

/** The same as one JSON document, of one program or several. */
export function configJson(programs: readonly ProgramConfig[]): string {
  const settings = programs.flatMap(({ section, settings: declared, loaded }) =>
    Object.entries(declared).map(([key, setting]) => ({
      program: section,
      name: setting.env,
      key: flagName(setting),
      group: setting.group,
      value: shownValue(key, setting, loaded),
      origin: originOf(key, setting, loaded),
    })),
  );
  return JSON.stringify({ settings }, null, 2);
}

/** Where a value came from, as `--json` has it. */
type Origin =
  | { readonly from: 'default' }
  | ({ readonly secret_file?: string } & (
      | { readonly from: 'flag' | 'environment'; readonly name: string }
      | { readonly from: 'file'; readonly path: string; readonly line: number }
    ));

function originOf(key: string, setting: Setting<unknown>, { origins, secretFiles }: LoadedSettings<Settings>): Origin {
  const origin = origins[key] ?? 'default';
  if (origin === 'default') return { from: 'default' };
  const secretFile = secretFiles[key];
  const file = secretFile === undefined ? {} : { secret_file: secretFile };
  if (origin === 'flag') {
    return {
      from: 'flag',
      name: `--${secretFile === undefined ? flagName(setting) : secretFileFlag(setting)}`,
      ...file,
    };
  }
  if ('env' in origin) return { from: 'environment', name: origin.env, ...file };
  return { from: 'file', path: origin.file, line: origin.line, ...file };
}

function originText(origin: Origin): string {
  if (origin.from === 'default') return 'default';
  const where = origin.from === 'file' ? `file ${origin.path}:${origin.line}` : `${origin.from} ${origin.name}`;
  return origin.secret_file === undefined ? where : `${where}, read from ${origin.secret_file}`;
}

/** The value as text, safe to be shown; null: none. */
function shownValue(
  key: string,
  setting: Setting<unknown>,
  { origins, texts }: LoadedSettings<Settings>,
): string | null {
  if (origins[key] === 'default') return setting.defaultText ?? null;
  return setting.secret ? '***' : shownText(texts[key] ?? '');
}

function shownText(text: string): string {
  let value: unknown;
  try {
    value = parseJson(text);
  } catch {
    // Plain text, possibly a URL, or a private key in the place of a public one.
    return /PRIVATE[ _]KEY/.test(text) ? '***' : redactUrl(text);
  }
  return typeof value === 'object' && value !== null ? JSON.stringify(redacted(value)) : text;
}

/**
 * Names of secret members of a JSON setting, such as the password in the connection parameters of a
 * data source.
 */
const SECRET_MEMBER = /(password|passwd|passphrase|secret|token|credentials?|api_?key)$/i;

/** Masks header values, secret members, and credentials in URLs of a JSON value. */
function redacted(value: unknown): unknown {
  if (typeof value === 'string') return URL.canParse(value) || /^[\w+.-]*:?\/\//.test(value) ? redactUrl(value) : value;
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
