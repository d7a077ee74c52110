import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readSettings } from '../../lib/settings/options.js';
import { CLIENT_SETTINGS } from '../options.js';
import { healthPaths } from './health-document.js';

function paths(env: Record<string, string>, flags: Record<string, string> = {}): string[] {
  const { values } = readSettings(CLIENT_SETTINGS, { env, flags });
  return healthPaths(values.healthDocument).map((path) => path.join('.'));
}

test('the name of the setting decides where the document is; ours wins over that of OPAL', () => {
  const [ours, opals] = ['SYNC_ENGINE_HEALTH_CHECK_POLICY_ENABLED', 'OPAL_OPA_HEALTH_CHECK_POLICY_ENABLED'];
  assert.deepEqual(paths({}), []);
  assert.deepEqual(paths({ [ours]: 'true' }), ['system.sync']);
  assert.deepEqual(paths({ [opals]: 'true' }), ['system.sync', 'system.opal']);
  assert.deepEqual(paths({ [opals]: 'false' }), []);
  assert.deepEqual(paths({ [ours]: 'true', [opals]: 'true' }), ['system.sync']);
  assert.deepEqual(paths({ [ours]: 'false', [opals]: 'true' }), []);
  assert.deepEqual(paths({}, { 'engine-health-check-policy-enabled': 'true' }), ['system.sync']);
  assert.deepEqual(paths({ [opals]: 'true' }, { 'engine-health-check-policy-enabled': 'true' }), ['system.sync']);
  assert.throws(() => paths({ [opals]: 'maybe' }), /OPAL_OPA_HEALTH_CHECK_POLICY_ENABLED must be true or false/);
});
