import assert from 'node:assert/strict';
import { it } from 'node:test';
import { errorText } from './lib/errors.js';
import type { Settings } from './lib/settings/setting.js';
import { settingHint } from './lib/settings/setting-names.js';
import { loadSettings, SECTIONS } from './settings.js';

const ALL = Object.values(SECTIONS).flatMap((settings: Settings) => Object.values(settings));

/** What the server says of an environment that must be refused. */
function refusal(env: Record<string, string>): string {
  try {
    loadSettings(SECTIONS.server, { env });
  } catch (error) {
    return errorText(error);
  }
  return '';
}

it('every variable of ours with a slip is refused with its name, whichever program it is of', () => {
  const envs = [...new Set(ALL.map(({ env }) => env))].filter((env) => env.startsWith('SYNC_'));
  assert(envs.length > 150);
  for (const env of envs) {
    const middle = Math.ceil((env.length + 'SYNC_'.length) / 2);
    const without = env.slice(0, middle) + env.slice(middle + 1);
    const twice = env.slice(0, middle) + env.slice(middle - 1);
    for (const name of [without, twice]) {
      const text = refusal({ [name]: 'x' });
      assert(text.includes(`there is no setting ${name}: did you mean `) && text.includes(env), `${name}: ${text}`);
    }
  }
});

it('variables of others are left alone', () => {
  const others = [
    ...[
      'SYNC_API_KEY',
      'SYNC_CLIENT_SECRET',
      'SYNC_DATABASE_URL',
      'SYNC_DEBUG',
      'SYNC_DIR',
      'SYNC_ENABLED',
      'SYNC_HOST',
    ],
    ...['SYNC_INTERVAL', 'SYNC_LOG', 'SYNC_MODE', 'SYNC_PASSWORD', 'SYNC_PORT', 'SYNC_SERVER_NAME', 'SYNC_TIMEOUT'],
    ...['SYNC_TOKEN', 'SYNC_URL', 'SYNC_USER', 'SYNC_WORKERS', 'OPAL_SERVER_PORT', 'OPAL_DEFAULT_DATA_URL'],
  ].sort();
  const env = Object.fromEntries(others.map((name) => [name, 'x']));
  assert.deepEqual(loadSettings(SECTIONS.server, { env }).unknown, others);
});

it('a key and a property are answered with the names of their place', () => {
  const { server, client } = SECTIONS;
  for (const [name, settings, flag, property] of [
    ['server-port', server, 'server-bind-port', 'port'],
    ['serverPort', server, 'server-bind-port', 'port'],
    ['port', server, 'server-bind-port', 'port'],
    ['policyRepoBranch', server, 'policy-repo-main-branch', 'policyRepoBranch'],
    ['engineUrl', client, 'policy-store-url', 'engineUrl'],
    ['client-token-fiel', client, 'client-token-file', 'clientToken'],
    ['SYNC_SERVER_URL', client, 'server-url', 'serverUrl'],
  ] as const) {
    assert.equal(settingHint(name, settings, 'flag'), `: did you mean ${flag}?`, name);
    assert.equal(settingHint(name, settings, 'property'), `: did you mean ${property}?`, name);
  }
});
