import { errorText, SyncError } from '../errors.js';
import { YamlDocument, YamlProblem, type YamlValue } from '../json/yaml-document.js';
import { hasCredentials } from '../net/url-credentials.js';
import { readBoundedText } from './secret-file.js';
import { flagName, type Setting, type Settings, secretFileFlag } from './setting.js';
import { settingHint } from './setting-names.js';
import { didYouMean } from './similar-name.js';

/** No configuration file is longer. */
const MAX_FILE_BYTES = 1024 * 1024;

/** A value as the file has it: text as in an environment variable, or the items of a list. */
export interface FileValue {
  readonly value: string | readonly string[];
  readonly line: number;
}

/** The settings of one section of a file, by key: the name of the flag. */
export interface FileSection {
  readonly path: string;
  readonly values: ReadonlyMap<string, FileValue>;
}

/** A configuration file. */
export interface ConfigFile {
  readonly sections: ReadonlyMap<string, FileSection>;
  readonly warnings: readonly string[];
}

/**
 * Reads a configuration file: one map for each of `sections`, whose keys are the names of flags.
 * Throws `config_invalid` with every unknown section and key, and every value that has the wrong
 * shape, by file and line; the values themselves are checked with those of flags and environment.
 */
export function readConfigFile(path: string, sections: Readonly<Record<string, Settings>>): ConfigFile {
  let text: string;
  let openMode: number | undefined;
  try {
    ({ text, openMode } = readBoundedText(path, MAX_FILE_BYTES));
  } catch (cause) {
    throw new SyncError('config_invalid', `no configuration: ${errorText(cause)}`);
  }
  const parsed = parseConfigFile(text, path, sections);
  const secrets = secretKeys(parsed, sections);
  if (openMode === undefined || secrets.length === 0) return { sections: parsed, warnings: [] };
  const warning = `${path} has secrets (${secrets.join(', ')}), and every user of this machine may read it (mode ${openMode.toString(8)}): chmod 640 ${path}, or put them into files of their own (docs/reference/settings.md#secrets)`;
  return { sections: parsed, warnings: [warning] };
}

/** The sections of the text of a configuration file; see {@link readConfigFile}. */
export function parseConfigFile(
  text: string,
  path: string,
  sections: Readonly<Record<string, Settings>>,
): ReadonlyMap<string, FileSection> {
  const problems: string[] = [];
  const found = new Map<string, FileSection>();
  const noting = (work: () => void): void => {
    try {
      work();
    } catch (error) {
      if (!(error instanceof YamlProblem)) throw error;
      problems.push(`${path}:${error.line}: ${error.message}`);
    }
  };
  noting(() => {
    const document = new YamlDocument(text);
    const names = Object.keys(sections);
    for (const { key: name, line, value } of document.members(document.root(), 'the file')) {
      const values = new Map<string, FileValue>();
      noting(() => {
        const settings = Object.hasOwn(sections, name) ? sections[name] : undefined;
        if (settings === undefined) throw new YamlProblem(line, unknownSection(name, sections));
        for (const member of document.members(value, `${name}:`)) {
          noting(() => {
            const shape = shapeOf(member.key, settings);
            if (shape === undefined) throw new YamlProblem(member.line, unknownKey(member.key, name, sections));
            values.set(member.key, { line: member.line, value: read(document, member.value, member.key, shape) });
          });
        }
        found.set(name, { path, values });
      });
    }
    for (const name of names) if (!found.has(name)) found.set(name, { path, values: new Map() });
  });
  if (problems.length === 0) return found;
  throw new SyncError('config_invalid', `the configuration file is not valid:\n  ${problems.join('\n  ')}`);
}

type Shape = 'scalar' | 'list' | 'json';

/** How the values of a key are written; undefined: there is no such key. */
function shapeOf(key: string, settings: Settings): Shape | undefined {
  for (const setting of Object.values(settings)) {
    if (setting.secret && key === secretFileFlag(setting)) return 'scalar';
    if (key !== flagName(setting)) continue;
    const { kind } = setting.domain;
    return kind === 'list' || kind === 'json' ? kind : 'scalar';
  }
  return undefined;
}

function read(document: YamlDocument, value: YamlValue, key: string, shape: Shape): FileValue['value'] {
  if (value.kind === 'none') throw new YamlProblem(value.line, `${key} has no value: give one, or remove the line`);
  const scalar = document.scalar(value);
  if (scalar !== undefined) return scalar;
  if (shape === 'json') return document.json(value);
  if (shape === 'scalar' || value.kind !== 'list') {
    const wanted = shape === 'list' ? 'a list, or one text' : 'one value';
    throw new YamlProblem(value.line, `${key} must be ${wanted}, not a ${value.kind}`);
  }
  return document.items(value).map((item) => {
    const text = document.scalar(item);
    if (text === undefined) throw new YamlProblem(item.line, `${key} must be a list of texts`);
    return text;
  });
}

function unknownSection(name: string, sections: Readonly<Record<string, Settings>>): string {
  const names = Object.keys(sections);
  const owners = names.filter((section) => keysOf(sections[section] ?? {}).includes(name));
  if (owners.length > 0) return `${name} belongs below ${owners.map((owner) => `${owner}:`).join(' or ')}`;
  return `there is no section ${name}${didYouMean(name, names)} (sections: ${names.join(', ')})`;
}

function unknownKey(key: string, section: string, sections: Readonly<Record<string, Settings>>): string {
  const settings = sections[section] ?? {};
  const renamed = Object.values(settings).find(({ formerly }) => formerly && flagName({ env: formerly }) === key);
  if (renamed !== undefined) return `${key} is called ${flagName(renamed)} now`;
  const owner = Object.keys(sections).find((other) => keysOf(sections[other] ?? {}).includes(key));
  if (owner !== undefined) return `${key} is no setting of the ${section}: it belongs below ${owner}:`;
  return `the ${section} has no setting ${key}${settingHint(key, settings, 'flag')}`;
}

function keysOf(settings: Settings): string[] {
  return Object.values(settings).flatMap((setting: Setting<unknown>) =>
    setting.secret ? [flagName(setting), secretFileFlag(setting)] : [flagName(setting)],
  );
}

/** The keys whose values are secret: those of secrets, and URLs with a password. */
function secretKeys(found: ReadonlyMap<string, FileSection>, sections: Readonly<Record<string, Settings>>): string[] {
  return [...found].flatMap(([name, { values }]) =>
    Object.values(sections[name] ?? {})
      .map((setting) => ({ setting, key: flagName(setting) }))
      .filter(({ setting, key }) => isSecretValue(setting, values.get(key)?.value))
      .map(({ key }) => `${name}.${key}`),
  );
}

function isSecretValue({ secret }: Setting<unknown>, value: FileValue['value'] | undefined): boolean {
  if (value === undefined) return false;
  return secret || [value].flat().some(hasCredentials);
}
