import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { errorText, SyncError } from '../../../lib/errors.js';
import { assertNotOurs, childEnv } from '../../../lib/run/child-env.js';
import type { ServerOptions } from '../../../server/options.js';
import { createGitCommand } from '../../../server/policy/source/git-command.js';
import { branchesText, remoteBranches } from '../../../server/policy/source/remote-branches.js';
import { errorFinding, type Finding, okFinding, warningFinding } from '../../kit/findings.js';
import type { Check } from './checks.js';

const PROGRAM = { id: 'git_program', subject: 'git' };
const CHANGES = { id: 'policy_changes', subject: 'policy changes' };
const REPOSITORY = { id: 'policy_repository', subject: 'policy repository' };

type GitSettings = Pick<
  ServerOptions,
  | 'policyRepoUrl'
  | 'policyRepoBranch'
  | 'policyRepoSshKey'
  | 'policyRepoEnv'
  | 'policyRepoPollingIntervalMs'
  | 'policyRepoWebhookSecret'
>;

/**
 * Whether git runs, the repository answers with the credentials of the server, the branch is there,
 * and changes are noticed.
 */
export function gitChecks(
  settings: GitSettings,
  { env, limitMs }: { env: NodeJS.ProcessEnv; limitMs: number },
): Check[] {
  return [
    {
      ...PROGRAM,
      remedy: 'Find out why `git --version` hangs for the user that runs the server.',
      run: (signal) => gitProgram({ env, limitMs }, signal),
    },
    {
      ...REPOSITORY,
      remedy: 'Let this machine reach the repository (network, proxy, VPN), or give it more time with --timeout.',
      run: (signal) => repository(settings, { env, limitMs }, signal),
    },
    ...(settings.policyRepoUrl === undefined ? [] : [changesCheck(settings)]),
  ];
}

async function gitProgram(
  { env, limitMs }: { env: NodeJS.ProcessEnv; limitMs: number },
  signal: AbortSignal,
): Promise<Finding[]> {
  const git = createGitCommand({ gitDir: tmpdir(), env: childEnv(env, 'git') });
  try {
    const version = (await git.run(['version'], { timeoutMs: limitMs, signal })).toString('utf8').trim();
    return [okFinding(PROGRAM.id, PROGRAM.subject, version.replace(/^git version/, 'version'))];
  } catch (error) {
    const remedy = 'Install git so that `git --version` works for the user that runs the server.';
    return [errorFinding(PROGRAM.id, PROGRAM.subject, errorText(error), remedy)];
  }
}

async function repository(
  settings: GitSettings,
  { env, limitMs }: { env: NodeJS.ProcessEnv; limitMs: number },
  signal: AbortSignal,
): Promise<Finding[]> {
  const { id, subject } = REPOSITORY;
  const { policyRepoUrl: url, policyRepoBranch: named, policyRepoSshKey: sshKey, policyRepoEnv } = settings;
  if (url === undefined) {
    const remedy = 'Set SYNC_POLICY_REPO_URL to the git repository of your policies.';
    return [warningFinding(id, subject, 'none is set: the server serves data, and no policy', remedy)];
  }
  assertNotOurs(policyRepoEnv, 'SYNC_POLICY_REPO_ENV');
  const keyFolder = await mkdtemp(join(tmpdir(), 'policysync-doctor-'));
  try {
    const question = { url, sshKey, keyFolder, env: childEnv(env, 'git', policyRepoEnv), timeoutMs: limitMs };
    const { display, commits, head } = await remoteBranches(question, signal);
    const branch = named ?? head;
    const commit = commits.get(branch ?? '');
    if (commit !== undefined)
      return [okFinding(id, subject, `${display}: branch ${branch} is at ${commit.slice(0, 10)}`)];
    const names = [...commits.keys()];
    const wanted = branch === undefined ? 'its default branch' : `branch ${branch}`;
    const remedy =
      names.length === 0
        ? `Push a commit to ${wanted}.`
        : `Set SYNC_POLICY_REPO_MAIN_BRANCH to ${head ?? 'one of them'}, or push ${wanted}.`;
    return [errorFinding(id, subject, `${display}: ${wanted} does not exist; ${branchesText(names)}`, remedy)];
  } catch (error) {
    if (!(error instanceof SyncError) || error.code !== 'git_failed') throw error;
    const remedy =
      'Check SYNC_POLICY_REPO_URL and the credentials (SYNC_POLICY_REPO_SSH_KEY, or user and token in the URL).';
    return [errorFinding(id, subject, errorText(error), remedy)];
  } finally {
    await rm(keyFolder, { recursive: true, force: true });
  }
}

/** Whether the server hears of a new commit. */
function changesCheck(settings: GitSettings): Check {
  return { ...CHANGES, remedy: 'Try again.', run: async () => [changesFinding(settings)] };
}

function changesFinding(settings: GitSettings): Finding {
  const { id, subject } = CHANGES;
  const { policyRepoPollingIntervalMs: pollMs, policyRepoWebhookSecret: secret } = settings;
  const ways = [
    ...(pollMs > 0 ? [`polled every ${pollMs / 1000} s`] : []),
    ...(secret ? ['webhooks with a secret'] : []),
  ];
  if (ways.length > 0) return okFinding(id, subject, ways.join(', '));
  const remedy =
    'Set SYNC_POLICY_REPO_POLLING_INTERVAL, or SYNC_POLICY_REPO_WEBHOOK_SECRET and a webhook; see docs/how-to/policy-source.md.';
  return warningFinding(
    id,
    subject,
    'no polling and no webhook secret: a commit arrives only with a webhook, from anyone',
    remedy,
  );
}
