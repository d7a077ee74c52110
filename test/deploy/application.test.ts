import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { it } from 'node:test';
import { freePort, startOpa } from '../support/opa.js';
import { repoRoot } from '../support/repo.js';
import { until } from '../support/until.js';

const FOLDER = join(repoRoot(), 'deploy', 'compose', 'application');
const POLICIES = join(repoRoot(), 'examples', 'policies');

it('the sample application of Compose asks OPA, denies what it cannot ask, and ends when it is told to', async (t) => {
  await using opa = await startOpa();
  const put = async (path: string, body: string): Promise<void> => {
    assert((await fetch(`${opa.url}/v1/${path}`, { method: 'PUT', body })).ok, path);
  };
  await put('policies/rbac', await readFile(join(POLICIES, 'app', 'rbac.rego'), 'utf8'));
  await put('data/roles', await readFile(join(POLICIES, 'roles', 'data.json'), 'utf8'));
  await put('data/users', '{"alice":{"role":"viewer"}}');

  const port = await freePort();
  const env = { PORT: String(port), OPA_URL: opa.url, POLICY_PATH: 'app/rbac/allow' };
  const application = spawn(process.execPath, [join(FOLDER, 'main.mjs')], {
    env,
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  t.after(() => application.kill('SIGKILL'));
  const ended = once(application, 'close');
  await once(application.stdout, 'data');

  const ask = async (query: string): Promise<readonly [number, unknown]> => {
    const response = await fetch(`http://127.0.0.1:${port}/?${query}`, { headers: { connection: 'close' } });
    return [response.status, await response.json()];
  };
  const alice = { user: 'alice', action: 'read' };
  assert.deepEqual(await ask('user=alice&action=read'), [200, { ...alice, allowed: true }]);
  assert.deepEqual(await ask('user=alice&action=write'), [403, { ...alice, action: 'write', allowed: false }]);
  assert.deepEqual(await ask('action=read'), [403, { user: null, action: 'read', allowed: false }]);

  await opa[Symbol.asyncDispose]();
  const [status, answer] = await until(() => ask('user=alice&action=read'), { withinMs: 5000, what: 'an answer' });
  assert.equal(status, 503);
  assert.equal((answer as { allowed: boolean }).allowed, false);

  application.kill('SIGTERM');
  assert.deepEqual(await ended, [0, null]);
});
