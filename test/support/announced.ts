import type { FileContent, GitRepo } from './git-repo.js';
import { postJson } from './http.js';

/** Server settings that follow a repository without polling: it learns of a commit by {@link announced} alone. */
export function byWebhook(repo: { url: string }): Record<string, string> {
  return { SYNC_POLICY_REPO_URL: repo.url };
}

/** Commits, and tells the server of it as a git service does; answers the hash. Polling costs several processes a second. */
export async function announced(
  server: { url: string },
  repo: GitRepo,
  files: Record<string, FileContent>,
): Promise<string> {
  const hash = await repo.commit(files);
  const push = { ref: 'refs/heads/master', repository: { full_name: 'someone/else', clone_url: repo.url } };
  const answer = await postJson(`${server.url}/webhook`, push, { 'x-github-event': 'push' });
  if (answer.status !== 200 || /ignored/.test(answer.text)) throw new Error(`the push is not heard: ${answer.text}`);
  return hash;
}
