import { mkdirSync, writeFileSync } from 'node:fs';
import { devNull } from 'node:os';
import { join } from 'node:path';
import { DemoFailure } from './failure.js';
import type { Processes } from './processes.js';

const POLICY = `package app.rbac

import rego.v1

# Nothing is allowed unless a rule below says so.
default allow := false

# Users may do what their role allows. Who has which role comes from the data source,
# what a role allows from roles/data.json beside this folder.
allow if {
	role := data.users[input.user].role
	input.action in data.roles[role]
}
`;

/** The rule that the demo commits. */
export const OWNER_RULE = `# The owner of a document may do anything with it.
allow if input.owner == input.user
`;

const ROLES = { viewer: ['read'], editor: ['read', 'write'], admin: ['read', 'write', 'delete'] };

/** Runs git in the policy repository and answers what it printed. */
export type Git = (...args: readonly string[]) => Promise<string>;

/** A git that works in the folder, whatever the user's own configuration says. */
export function gitIn(folder: string, processes: Processes, env: NodeJS.ProcessEnv): Git {
  const foreign = Object.keys(env).filter((name) => name.startsWith('GIT_'));
  const own = { GIT_CONFIG_GLOBAL: devNull, GIT_CONFIG_NOSYSTEM: '1', LC_ALL: 'C' };
  return async (...args) => {
    const { code, output } = await processes.run('git', args, {
      cwd: folder,
      env: { ...env, ...Object.fromEntries(foreign.map((name) => [name, undefined])), ...own },
      missing: 'git is not on PATH; install it (https://git-scm.com/downloads)',
    });
    if (code !== 0) throw new DemoFailure(`"git ${args[0]}" failed in ${folder}: ${output}`);
    return output;
  };
}

/** Makes the policy repository in the folder of `git`. */
export async function makePolicyRepo(folder: string, git: Git): Promise<void> {
  for (const name of ['app', 'roles']) mkdirSync(join(folder, name), { recursive: true });
  writeFileSync(join(folder, 'app', 'rbac.rego'), POLICY);
  writeFileSync(join(folder, 'roles', 'data.json'), `${JSON.stringify(ROLES, null, 2)}\n`);
  await git('init', '--quiet');
  // Not "init --initial-branch": git before 2.28 does not know it.
  await git('symbolic-ref', 'HEAD', 'refs/heads/main');
  // For whoever goes on in this folder with commits of their own.
  await git('config', 'user.name', 'PolicySync demo');
  await git('config', 'user.email', 'demo@example.org');
  await git('config', 'commit.gpgsign', 'false');
  await git('add', '.');
  await git('commit', '--quiet', '-m', 'Roles decide');
}

/** Adds the owner's rule and commits it. */
export async function commitOwnerRule(folder: string, git: Git): Promise<void> {
  writeFileSync(join(folder, 'app', 'rbac.rego'), `${POLICY}\n${OWNER_RULE}`);
  await git('commit', '--quiet', '--all', '-m', 'Owners may do anything with their documents');
}
