import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Settings } from '../../src/lib/settings/setting.js';
import { startDataSource } from '../support/data-source.js';
import { gitRepo } from '../support/git-repo.js';
import { field } from '../support/http.js';
import { CLIENT_SETTINGS, SERVER_SETTINGS } from '../support/library.js';
import { following, publish, startClient } from '../support/start-client.js';
import { startServer } from '../support/start-server.js';

const YEAR_SECONDS = 365 * 24 * 60 * 60;

/** Every setting that is a time, as long as it takes. */
function longTimes(settings: Settings): Record<string, string> {
  const env: Record<string, string> = {};
  for (const { env: name, form, schema } of Object.values(settings)) {
    if (form !== 'seconds') continue;
    const longest = [YEAR_SECONDS, 3600].map(String).find((text) => schema(name).safeParse(text).success);
    if (longest !== undefined) env[name] = longest;
  }
  return env;
}

test('with every time as long as it may be nothing runs hot, and policy and data arrive', async () => {
  const overflows: string[] = [];
  const onWarning = (warning: Error): void => {
    if (warning.name === 'TimeoutOverflowWarning') overflows.push(warning.stack ?? warning.message);
  };
  process.on('warning', onWarning);
  const [ofServer, ofClient] = [longTimes(SERVER_SETTINGS), longTimes(CLIENT_SETTINGS)];
  assert(Object.keys(ofServer).length >= 5 && Object.keys(ofClient).length >= 10, 'the times were found');
  {
    await using repo = await gitRepo();
    await repo.commit({ 'app.rego': 'package app\n\nallow := true\n' });
    await using source = await startDataSource();
    source.serve('/users', { ann: true });
    await using server = await startServer({ ...following(repo), ...ofServer });
    await using client = await startClient({ serverUrl: server.url, env: ofClient });
    await client.answers('/app/allow', {}, true);
    await publish(server.url, { url: `${source.url}/users`, dst_path: '/users' });
    await client.holds('/users', { ann: true });
    await client.tells('the socket is up', (health) => field(health, 'server', 'connected') === true);
  }
  process.off('warning', onWarning);
  assert.deepEqual(overflows, []);
});
