import assert from 'node:assert/strict';
import { it } from 'node:test';
import { readSettings, settingValues } from '../lib/settings/options.js';
import { SERVER_SETTINGS } from './options.js';

it('what was loaded may be given to the library: it is read as it is', () => {
  const entries =
    '[{"url":"inline:","dst_path":"/a","data":{"n":1.0}},{"url":"http://x/","config":{"headers":{"a":"b"}}}]';
  const env = {
    SYNC_DATA_CONFIG_SOURCES: `{"config":{"entries":${entries}}}`,
    SYNC_POLICY_REPO_WEBHOOK_PARAMS: 'GitLab',
    SYNC_POLICY_REPO_SSH_KEY: 'k',
    SYNC_RATE_LIMIT: 'none',
    SYNC_CLIENT_LOAD_LIMIT_NOTATION: '5/minute',
    SYNC_DATA_UPDATES_RETAIN_DEFAULT: '30',
    SYNC_POLICY_REPO_POLLING_INTERVAL: '2.5',
    SYNC_TRUSTED_PROXIES: '10.0.0.0/8',
    SYNC_ENVIRONMENT: 'test',
    SYNC_AUTH_MASTER_TOKEN: 't',
  };
  const { values } = readSettings(SERVER_SETTINGS, { env });
  assert.deepEqual(settingValues(SERVER_SETTINGS, values), values);
});

it('a setting with a default has it only where none is given: each value of another can be told from none', () => {
  const values = new Map(Object.entries<unknown>(readSettings(SERVER_SETTINGS, { env: {} }).values));
  for (const [key, { defaultText }] of Object.entries(SERVER_SETTINGS))
    assert.equal(values.get(key) === undefined, defaultText === undefined, key);
});
