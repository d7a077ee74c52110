// Checks the messages of this branch's commits: `area: what changes`, at most 60 characters, then an empty line (CONTRIBUTING.md).
//
// Checked is what is in HEAD, but in no tag, in no main branch that HEAD goes beyond, and after the commit that brought this
// file: older history is as it is. A shallow clone counts as if it began with its oldest commit.
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { Fatal, main } from './lib/run.mjs';

const MOST = 60;
const SUBJECT = /^[a-z][\w./-]*(?:, [a-z][\w./-]*)*: \S.*[^\s.]$/;
const MAIN_BRANCHES = ['main', 'master'].flatMap((name) => [`refs/heads/${name}`, `refs/remotes/origin/${name}`]);

function git(...args) {
  const { status, stdout, stderr, error } = spawnSync('git', args, { encoding: 'utf8', maxBuffer: 64 * 1024 * 1024 });
  if (error !== undefined || status !== 0) throw new Fatal(`git ${args[0]} failed: ${error?.message ?? stderr.trim()}`);
  return stdout.trim();
}

function goesBeyond(branch) {
  return spawnSync('git', ['merge-base', '--is-ancestor', 'HEAD', branch]).status === 1;
}

/** What is wrong with a message; undefined for nothing. */
function problemOf(message) {
  const [subject = '', second = ''] = message.split('\n');
  if (!SUBJECT.test(subject)) return 'is not "area: what changes", without a period';
  if (subject.length > MOST) return `has ${subject.length} characters, ${MOST} are allowed`;
  return second === '' ? undefined : 'has no empty line after its first one';
}

await main(() => {
  if (!existsSync('.git')) {
    console.log('commits: this is no git repository, nothing is checked');
    return 0;
  }
  const since = git('log', '-1', '--diff-filter=A', '--format=%H', '--', 'scripts/commits.mjs');
  if (since === '') return 0;
  const bases = git('for-each-ref', '--format=%(refname)', ...MAIN_BRANCHES)
    .split('\n')
    .filter((ref) => ref !== '' && goesBeyond(ref));
  const hashes = git('rev-list', '--no-merges', 'HEAD', '--not', since, ...bases, '--tags')
    .split('\n')
    .filter(Boolean);
  const problems = hashes.flatMap((hash) => {
    const message = git('log', '-1', '--format=%B', hash);
    const problem = problemOf(message);
    return problem === undefined ? [] : [`${hash.slice(0, 9)} "${message.split('\n')[0]}" ${problem}`];
  });
  for (const problem of problems) console.error(problem);
  if (problems.length > 0)
    console.error('\nReword these commits (git rebase -i, git commit --amend); CONTRIBUTING.md has the rule.');
  return problems.length > 0 ? 1 : 0;
});
