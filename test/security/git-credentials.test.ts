import assert from 'node:assert/strict';
import { basename, dirname, join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { silentLogger } from '../../src/lib/observe/log.js';
import { createGitSource } from '../../src/server/policy/source/git-source.js';
import { remoteBranches } from '../../src/server/policy/source/remote-branches.js';
import { type GitHttpServer, gitHttpServer } from '../support/git-http-server.js';
import { type GitRepo, gitRepo } from '../support/git-repo.js';
import { type TempDir, tempDir } from '../support/temp-dir.js';

/** User and password of a repository are for its scheme, host and port: wherever that leads git, they stay behind. */

const AUTH = { user: 'reader', password: 'p4ss-w0rd' };
const BASIC = `Basic ${Buffer.from(`${AUTH.user}:${AUTH.password}`).toString('base64')}`;

describe('credentials of a repository', () => {
  let repo: GitRepo;
  let head: string;
  let dir: TempDir;
  let ours: GitHttpServer;
  let open: GitHttpServer;
  let asking: GitHttpServer;
  let mirrors = 0;

  before(async () => {
    repo = await gitRepo();
    head = await repo.commit({ 'app.rego': 'package app\n\nallow := true\n' });
    dir = await tempDir();
    const root = dirname(repo.path);
    ours = await gitHttpServer(root, AUTH);
    open = await gitHttpServer(root);
    asking = await gitHttpServer(root, AUTH);
  });

  after(async () => {
    for (const each of [ours, open, asking, repo, dir]) await each[Symbol.asyncDispose]();
  });

  const path = (): string => `/${basename(repo.path)}/.git`;
  const withAuth = (server: GitHttpServer, at: string): string =>
    server.url.replace('http://', `http://${AUTH.user}:${AUTH.password}@`) + at;
  const env = (): NodeJS.ProcessEnv => ({ PATH: process.env.PATH, HOME: dir.path });

  /** What a server that follows the address says of it, and a command that asks for its branches. */
  async function fetched(url: string): Promise<string[]> {
    mirrors += 1;
    const clonePath = join(dir.path, `mirror-${mirrors}`);
    const options = { url, branch: 'master', clonePath, fetchTimeoutMs: 10_000, env: env() };
    const { signal } = new AbortController();
    const question = { url, sshKey: undefined, keyFolder: dir.path, env: env(), timeoutMs: 10_000 };
    const said = (error: Error): string => error.message;
    return [
      await createGitSource(options, { log: silentLogger() }).fetch(signal).catch(said),
      await remoteBranches(question, signal).then(({ commits }) => commits.get('master') ?? '', said),
    ];
  }

  it('are given where they belong, and along a redirect within their origin', async () => {
    assert.deepEqual(await fetched(withAuth(ours, path())), [head, head]);
    ours.lead = ({ url = '' }) => (url.startsWith('/moved') ? `${path()}${url.slice('/moved'.length)}` : undefined);
    assert.deepEqual(await fetched(withAuth(ours, '/moved')), [head, head]);
    ours.lead = undefined;
  });

  it('are given to no other origin, whether that asks for them or not, and the error names it', async () => {
    const elsewhere = [asking.url, open.url, open.url.replace('127.0.0.1', 'localhost')];
    const moments = {
      'at once': () => true,
      'once they are given': (authorization: string | undefined) => authorization !== undefined,
    };
    for (const place of elsewhere) {
      for (const [moment, isNow] of Object.entries(moments)) {
        ours.lead = ({ url, headers }) => (isNow(headers.authorization) ? `${place}${url}` : undefined);
        for (const said of await fetched(withAuth(ours, path()))) {
          const what = `${place} ${moment}: ${said}`;
          // Once it has said who it is, git stops by itself, and does not tell where it was led.
          if (moment === 'at once') {
            assert(said.includes(`is redirected to ${place}`) && said.includes(`are for ${ours.url} alone`), what);
          } else
            assert.match(
              said,
              /: git [a-z-]+ failed: .*(?:Authentication failed|HTTP 302.*the repository has moved: give its new address)/,
              what,
            );
          assert(!said.includes(AUTH.password) && !said.includes(BASIC), what);
        }
      }
    }
    ours.lead = undefined;
    assert.deepEqual([...asking.authorizations, ...open.authorizations], []);
  });

  it('do not follow the second request, which names what is wanted', async () => {
    ours.lead = ({ method, url }) => (method === 'POST' ? `${asking.url}${url}` : undefined);
    for (const said of await fetched(withAuth(ours, path()))) assert.match(said, /git [a-z-]+ failed/);
    ours.lead = undefined;
    assert.deepEqual(asking.authorizations, []);
  });

  it('are not those of somebody else: no helper and no program of the user is asked', async () => {
    const wrong = withAuth(ours, path()).replace(AUTH.password, 'wr0ng');
    const [said = ''] = await fetched(wrong);
    assert.match(said, /Authentication failed/);
    assert(!said.includes('wr0ng'), said);
  });

  it('are not needed to follow a repository without any to where it has moved', async () => {
    ours.lead = ({ url }) => `${open.url}${url}`;
    assert.deepEqual(await fetched(`${ours.url}${path()}`), [head, head]);
    ours.lead = undefined;
  });

  it('in a query show in no failure', async () => {
    for (const said of await fetched(`${open.url}/none.git?private_token=qu3ry`)) {
      assert.match(said, /git [a-z-]+ failed/);
      assert(!said.includes('qu3ry'), said);
    }
  });
});
