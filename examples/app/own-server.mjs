import { execFileSync } from 'node:child_process';
import { cpSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createServer, loadSettings, SERVER_SETTINGS } from 'policysync';

/** A sync server inside this process that serves ./policy, from a git repository that it makes for that. */
export async function startOwnServer(log) {
  const folder = mkdtempSync(join(tmpdir(), 'policysync-app-'));
  const repository = join(folder, 'policy');
  cpSync(join(import.meta.dirname, 'policy'), repository, { recursive: true });
  const identity = ['-c', 'user.name=example', '-c', 'user.email=example@example.com'];
  const git = (...args) => execFileSync('git', ['-C', repository, ...identity, ...args], { stdio: 'ignore' });
  git('init', '--initial-branch=main');
  git('add', '--all');
  git('commit', '--message=policy');

  const { values } = loadSettings(SERVER_SETTINGS, {
    env: {
      SYNC_POLICY_REPO_URL: repository,
      SYNC_POLICY_REPO_MAIN_BRANCH: 'main',
      SYNC_POLICY_REPO_POLLING_INTERVAL: '1',
      SYNC_SERVER_BIND_PORT: '0',
    },
  });
  const server = createServer({ ...values, stateDir: join(folder, 'state') }, { log, env: process.env });
  const { url } = await server.start();
  console.log(`sync server at ${url}, policy in ${repository}`);
  return {
    url,
    async stop() {
      await server.stop();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
