import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { chmod, mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { pathToFileURL } from 'node:url';
import { type GitRepo, gitRepo } from '../support/git-repo.js';
import { field, request } from '../support/http.js';
import { following } from '../support/start-client.js';
import { type StartedServer, startServer } from '../support/start-server.js';
import { tempDir } from '../support/temp-dir.js';
import { until } from '../support/until.js';

/** What a repository, its address or the name of a branch could have git do beside fetching. */

const MODULE = { 'app.rego': 'package app\n\nallow := true\n' };

/** A server that must not do what the settings say: it refuses to start, or serves nothing. */
async function harmless(env: Record<string, string>): Promise<void> {
  let server: StartedServer;
  try {
    server = await startServer(env);
  } catch (error) {
    assert.match(String(field(error, 'code')), /^config_invalid$/, String(error));
    return;
  }
  await using _server = server;
  const healthUrl = `${server.url}/healthcheck`;
  await until(async () => field((await request(healthUrl)).json, 'status') === 'degraded', {
    withinMs: 20_000,
    what: 'the look has failed',
  });
  assert.equal((await request(`${server.url}/policy`)).status, 503);
}

/** The bundle that a server has of the repository. */
async function bundleOf(repo: GitRepo, env: Record<string, string> = {}): Promise<string> {
  await using server = await startServer({ ...following(repo), ...env });
  const answer = await until(
    async () => {
      const tried = await request(`${server.url}/policy`);
      return tried.status === 200 && tried;
    },
    { withinMs: 20_000, what: 'a bundle' },
  );
  return answer.text;
}

describe('git', () => {
  it('runs no program that an address names', async () => {
    await using dir = await tempDir();
    const canary = join(dir.path, 'canary');
    const command = `touch ${canary}`;
    const urls = [
      `ext::sh -c "${command}"`,
      `ext::sh -c ${command.replaceAll(' ', '% ')}`,
      `fd::17/foo`,
      `--upload-pack=${command}`,
      `-u${command}`,
      `--config=core.sshCommand=${command}`,
      `-oProxyCommand=${command}`,
      `ssh://-oProxyCommand=${command.replaceAll(' ', '%20')}/x`,
      `-oProxyCommand=${command}@host:x`,
      `user@-oProxyCommand=${command}:x`,
      `git@$(${command}):x`,
      `ssh://host/\`${command}\``,
      `transport::address`,
      `file:///${dir.path}/no-repository`,
    ];
    await Promise.all(urls.map((url) => harmless({ SYNC_POLICY_REPO_URL: url, SYNC_POLICY_REPO_CLONE_TIMEOUT: '2' })));
    assert(!existsSync(canary));
  });

  it('takes no option from the name of a branch', async () => {
    await using dir = await tempDir();
    await using repo = await gitRepo();
    await repo.commit(MODULE);
    const canary = join(dir.path, 'canary');
    const branches = [
      `--upload-pack=touch ${canary}`,
      `-u`,
      `--exec=touch ${canary}`,
      `--output=${canary}`,
      'master:refs/heads/other',
      '+master',
      '^master',
      'master..other',
      'master~1',
      'master^{tree}',
      '@{-1}',
      'a b',
      'a\nb',
      '*',
      '../../HEAD',
      'refs/../master',
    ];
    await Promise.all(branches.map((branch) => harmless({ ...following(repo), SYNC_POLICY_REPO_MAIN_BRANCH: branch })));
    assert(!existsSync(canary));
  });

  it('follows no link and no submodule of a repository, and reads none of its configuration', async () => {
    await using dir = await tempDir();
    const secret = join(dir.path, 'secret.rego');
    const canary = join(dir.path, 'canary');
    await writeFile(secret, 'package secret\n\nvalue := "of this machine"\n');
    await using inner = await gitRepo();
    await inner.commit({ 'inner.rego': 'package inner\n' });
    await using repo = await gitRepo();
    await repo.commit({
      ...MODULE,
      'link.rego': { link: secret },
      'up.rego': { link: '../../../../../../etc/passwd' },
      'folder/data.json': { link: '/etc/hostname' },
      'linked-folder': { link: dir.path },
      '.gitattributes': '*.rego filter=evil diff=evil export-subst ident\n',
      '.gitmodules': `[submodule "inner"]\n\tpath = inner\n\turl = ${inner.url}\n\tupdate = !touch ${canary}\n`,
      '.gitconfig': `[core]\n\tfsmonitor = touch ${canary}\n[filter "evil"]\n\tsmudge = touch ${canary}\n`,
    });
    const head = await inner.git('rev-parse', 'HEAD');
    await repo.git('update-index', '--add', '--cacheinfo', `160000,${head},inner`);
    await repo.git('commit', '--quiet', '--message=a submodule');
    const bundle = await bundleOf(repo);
    assert.match(bundle, /package app/);
    assert.doesNotMatch(bundle, /of this machine|root:|package inner/);
    assert(!existsSync(canary));
  });

  it('runs no hook and no helper of the repository that it fetches from', async () => {
    await using dir = await tempDir();
    const canary = join(dir.path, 'canary');
    await using repo = await gitRepo();
    await repo.commit(MODULE);
    const hooks = join(repo.path, '.git', 'hooks');
    await mkdir(hooks, { recursive: true });
    for (const name of ['post-checkout', 'post-merge', 'reference-transaction', 'pre-auto-gc', 'fsmonitor-watchman']) {
      await writeFile(join(hooks, name), `#!/bin/sh\ntouch ${canary}\n`);
      await chmod(join(hooks, name), 0o755);
    }
    await repo.git('config', 'core.fsmonitor', `touch ${canary}`);
    await repo.git('config', 'core.sshCommand', `touch ${canary}`);
    assert.match(await bundleOf(repo), /package app/);
    assert(!existsSync(canary), 'a hook of the repository ran');
  });

  it('takes no option from a query: paths and commits of GET /policy', async () => {
    await using dir = await tempDir();
    const canary = join(dir.path, 'canary');
    await using repo = await gitRepo();
    await repo.commit(MODULE);
    await using server = await startServer(following(repo));
    await until(async () => (await request(`${server.url}/policy`)).status === 200, {
      withinMs: 20_000,
      what: 'a bundle',
    });
    for (const text of [
      `--output=${canary}`,
      `-O${canary}`,
      '--',
      '../../../etc',
      ':(top)',
      ':!app.rego',
      'HEAD:app.rego',
      '--exec=id',
      pathToFileURL(canary).href,
    ]) {
      for (const name of ['path', 'base_hash']) {
        const answer = await request(`${server.url}/policy?${name}=${encodeURIComponent(text)}`);
        assert([200, 404, 422].includes(answer.status), `${name}=${text}: ${answer.status} ${answer.text}`);
        assert(!existsSync(canary), text);
      }
    }
  });
});
