import { CLIENT_SETTINGS } from '../../src/client/options.js';
import { flagName, type Setting, type Settings, secretFileFlag } from '../../src/lib/settings/setting.js';
import { SERVER_SETTINGS } from '../../src/server/options.js';
import { ANY_SCALAR, valueForms } from './setting-forms.js';

type JsonObject = Record<string, unknown>;

/** The JSON Schema of the configuration file, for editors: made of the declarations that check its values. */
export function settingsSchema(): string {
  const schema = {
    $schema: 'http://json-schema.org/draft-07/schema#',
    title: 'Configuration file of PolicySync',
    description: 'Settings of the sync server and the sync client; see docs/reference/settings.md.',
    type: 'object',
    additionalProperties: false,
    properties: {
      server: section('Settings of the sync server.', SERVER_SETTINGS),
      client: section('Settings of the sync client.', CLIENT_SETTINGS),
    },
  };
  return `${JSON.stringify(schema, null, 2)}\n`;
}

function section(description: string, settings: Settings): JsonObject {
  const properties = Object.values(settings).flatMap((setting): [string, JsonObject][] => [
    [flagName(setting), { description: descriptionOf(setting), ...valueForms(setting), ...defaultOf(setting) }],
    ...(setting.secret ? [[secretFileFlag(setting), fileForm(setting)] as [string, JsonObject]] : []),
  ]);
  const twice = Object.values(settings).filter(({ secret }) => secret);
  // A section without members is one whose lines are all comments.
  return {
    description,
    type: ['object', 'null'],
    additionalProperties: false,
    properties: Object.fromEntries(properties),
    allOf: twice.map((setting) => ({ not: { required: [flagName(setting), secretFileFlag(setting)] } })),
  };
}

function descriptionOf({ description, env, group }: Setting<unknown>): string {
  return `${description}\n\n${group}. Environment: ${env}.`;
}

function fileForm(setting: Setting<unknown>): JsonObject {
  return { description: `Path of a file that contains ${flagName(setting)}.`, ...ANY_SCALAR };
}

function defaultOf({ domain, defaultText }: Setting<unknown>): JsonObject {
  if (defaultText === undefined || defaultText === '') return {};
  if (domain.kind === 'list') return { default: defaultText.split(domain.separator) };
  return { default: domain.kind === 'number' || domain.kind === 'flag' ? JSON.parse(defaultText) : defaultText };
}
