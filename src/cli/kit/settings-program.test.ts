import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Command } from 'commander';
import { readSettings } from '../../lib/settings/options.js';
import type { Settings } from '../../lib/settings/setting.js';
import { SERVER_SETTINGS } from '../../server/options.js';
import { addSettingFlags, givenFlags } from './settings-program.js';

function given(...args: string[]): Record<string, string> {
  const command = new Command();
  addSettingFlags(command, SERVER_SETTINGS);
  command.parse(['node', 'program', ...args]);
  return givenFlags(command, SERVER_SETTINGS);
}

const RENAMED = Object.entries(SERVER_SETTINGS as Settings).flatMap(([key, { env, formerly }]) =>
  formerly === undefined ? [] : [{ key, env, formerly }],
);

test('each renamed setting takes its old name too, as a variable and as a flag; the new name counts first', () => {
  assert.deepEqual(
    RENAMED.map(({ env, formerly }) => `${formerly} -> ${env}`),
    [
      'SYNC_CLIENT_MEMORY -> SYNC_CLIENT_AWAY_TTL',
      'SYNC_LOG_KEPT -> SYNC_LOG_RETENTION',
      'SYNC_LOG_KEPT_RECORDS -> SYNC_LOG_RETENTION_RECORDS',
    ],
  );
  const flagOf = (env: string): string => env.replace('SYNC_', '').toLowerCase().replaceAll('_', '-');
  for (const { key, env, formerly } of RENAMED) {
    const loadedValue = (variables: Record<string, string>, flags = {}): unknown => {
      const loaded = readSettings(SERVER_SETTINGS as Settings, { env: variables, flags });
      assert.deepEqual(loaded.unknown, []);
      return loaded.values[key];
    };
    const wanted = loadedValue({ [env]: '100000' });
    assert.deepEqual(loadedValue({ [formerly]: '100000' }), wanted);
    assert.deepEqual(loadedValue({ [formerly]: '200000', [env]: '100000' }), wanted);
    assert.deepEqual(given(`--${flagOf(formerly)}`, '100000'), { [flagOf(env)]: '100000' });
    const both = given(`--${flagOf(formerly)}`, '200000', `--${flagOf(env)}`, '100000');
    assert.deepEqual(loadedValue({}, both), wanted);
  }
});
