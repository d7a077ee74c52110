import assert from 'node:assert/strict';
import { chmod, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { gitRepo } from '../support/git-repo.js';
import { field, request } from '../support/http.js';
import { following } from '../support/start-client.js';
import { startServer } from '../support/start-server.js';
import { tempDir } from '../support/temp-dir.js';
import { until } from '../support/until.js';

const posix = { skip: process.platform === 'win32' ? 'needs a POSIX shell' : false };

test('the first fetch is seen in /healthcheck from the first second, with its progress', posix, async () => {
  await using repo = await gitRepo();
  const head = await repo.commit({ 'a.rego': 'package a\n' });
  await using dir = await tempDir();
  const goOn = join(dir.path, 'go-on');
  // A git whose fetch takes as long as the test wants.
  const script = `#!/bin/sh
case " $* " in *" fetch "*)
  printf 'remote: Enumerating objects: 100, done.\\nReceiving objects:  45%% (45/100), 3.20 MiB | 1.10 MiB/s\\r' >&2
  while [ ! -e "${goOn}" ]; do sleep 0.05; done;;
esac
PATH="$REAL_PATH" exec git "$@"
`;
  await writeFile(join(dir.path, 'git'), script);
  await chmod(join(dir.path, 'git'), 0o755);
  const programEnv = {
    ...process.env,
    PATH: `${dir.path}:${process.env.PATH}`,
    REAL_PATH: process.env.PATH,
  };
  await using server = await startServer(
    { ...following(repo), SYNC_POLICY_REPO_ENV: 'REAL_PATH' },
    { programEnv, waitForPolicy: false },
  );
  const source = async (): Promise<unknown> => field((await request(`${server.url}/healthcheck`)).json, 'policy');
  assert.equal(field(await source(), 'state'), 'starting', 'at the first look');
  await until(
    async () => field(await source(), 'fetching') === 'Receiving objects: 45% (45/100), 3.20 MiB | 1.10 MiB/s',
    {
      withinMs: 20_000,
      what: 'the progress of the fetch',
    },
  );
  assert.equal(field(await source(), 'state'), 'starting');
  await writeFile(goOn, '');
  await until(async () => field(await source(), 'head') === head, { withinMs: 20_000, what: 'the first head' });
  assert.equal(field(await source(), 'fetching'), undefined);
});
