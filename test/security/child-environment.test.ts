import assert from 'node:assert/strict';
import { chmod, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { gitRepo } from '../support/git-repo.js';
import { field } from '../support/http.js';
import { testOpa } from '../support/opa.js';
import { following, publish, startClient } from '../support/start-client.js';
import { startServer } from '../support/start-server.js';
import { tempDir } from '../support/temp-dir.js';
import { until } from '../support/until.js';

const posix = { skip: process.platform === 'win32' ? 'needs a POSIX shell' : false };
/** Everything that our own environment has and no child needs. */
const SECRETS = {
  SYNC_CLIENT_TOKEN: 'secret-1',
  SYNC_AUTH_PRIVATE_KEY: 'secret-2',
  OPAL_AUTH_MASTER_TOKEN: 'secret-3',
  SYNC_POLICY_REPO_SSH_KEY: 'secret-4',
  AWS_SECRET_ACCESS_KEY: 'secret-5',
  DATABASE_URL: 'postgres://u:secret-6@db',
};

async function program(file: string, text: string): Promise<void> {
  await writeFile(file, text);
  await chmod(file, 0o755);
}

/** What a child had, once it is all there; the dump is complete when its last line is. */
async function environmentIn(file: string): Promise<string> {
  let text = '';
  await until(
    async () => {
      text = await readFile(file, 'utf8').catch(() => '');
      return text.includes('=== end');
    },
    { withinMs: 20_000, what: `the child has written ${file}` },
  );
  return text;
}

function assertMinimal(text: string): void {
  assert.match(text, /^PATH=/m);
  assert.doesNotMatch(text, /secret-\d/);
  assert.doesNotMatch(text, /^(SYNC|OPAL)_/m);
}

test(
  'git and the ssh that it starts have no secret of the server; what the operator names goes along',
  posix,
  async () => {
    await using dir = await tempDir();
    const dump = join(dir.path, 'ssh-env');
    const command = `#!/bin/sh\nif [ ! -e "${dump}" ]; then /usr/bin/env > "${dump}.new"; echo '=== end' >> "${dump}.new"; mv "${dump}.new" "${dump}"; fi\nexit 1\n`;
    await program(join(dir.path, 'ssh'), command);
    const programEnv = {
      ...SECRETS,
      PATH: `${dir.path}:${process.env.PATH}`,
      HOME: dir.path,
      SSH_AUTH_SOCK: '/run/agent',
      HTTPS_PROXY: 'http://proxy.example:3128',
      HELPER_REGION: 'eu',
    };
    await using _server = await startServer(
      {
        SYNC_POLICY_REPO_URL: 'ssh://git@127.0.0.1/policies.git',
        SYNC_POLICY_REPO_ENV: 'HELPER_REGION',
        SYNC_POLICY_REPO_POLLING_INTERVAL: '0.2',
      },
      { programEnv },
    );
    const text = await environmentIn(dump);
    assertMinimal(text);
    assert.match(text, /^GIT_ALLOW_PROTOCOL=/m, 'it is what git had');
    assert.match(text, /^SSH_AUTH_SOCK=\/run\/agent$/m);
    assert.match(text, /^HTTPS_PROXY=/m);
    assert.match(text, /^HELPER_REGION=eu$/m);
  },
);

test(
  'OPA has no secret of the client: asked for its version, as the engine, and as the judge of a policy',
  posix,
  async () => {
    await using dir = await tempDir();
    const execPath = join(dir.path, 'opa');
    const real = await testOpa();
    await program(
      execPath,
      `#!/bin/sh\n{ /usr/bin/env; echo '=== end'; } > "${dir.path}/$1.env"\nexec "${real}" "$@"\n`,
    );
    await using repo = await gitRepo();
    await repo.commit({ 'a.rego': 'package a\n\nx := 1\n' });
    await using server = await startServer(following(repo));
    await using client = await startClient({
      serverUrl: server.url,
      env: { SYNC_INLINE_ENGINE_EXEC_PATH: execPath },
      programEnv: { ...(process.env as Record<string, string>), ...SECRETS },
    });
    await client.healthy();
    // A dynamic document over static data: the commit is judged by itself first.
    await publish(server.url, { dst_path: '/a/d', data: { n: 1 } });
    await client.holds('/a/d', { n: 1 });
    await repo.commit({ 'a/d/data.json': '{"n":2}' });
    for (const command of ['version', 'run', 'eval'])
      assertMinimal(await environmentIn(join(dir.path, `${command}.env`)));
  },
);

test('settings of our own cannot be named as variables for a child', async () => {
  const refused = (error: unknown): boolean =>
    error instanceof Error &&
    field(error, 'code') === 'config_invalid' &&
    /settings of this program/.test(error.message);
  await assert.rejects(
    startClient({ serverUrl: 'http://127.0.0.1:1', env: { SYNC_INLINE_ENGINE_ENV: 'REGION,SYNC_CLIENT_TOKEN' } }),
    refused,
  );
  await assert.rejects(
    startServer({ SYNC_POLICY_REPO_URL: 'ssh://git@127.0.0.1/x.git', SYNC_POLICY_REPO_ENV: 'OPAL_AUTH_MASTER_TOKEN' }),
    refused,
  );
});
