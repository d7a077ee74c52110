import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { test } from 'node:test';
import { parse } from 'yaml';
import { repoRoot } from '../support/repo.js';
import { exists, filesBelow, read } from '../support/repo-pages.js';
import { actionlintProgram } from '../support/server-programs.js';

const WORKFLOWS = filesBelow('.github/workflows', /\.ya?ml$/);

test('actionlint finds nothing in the workflows', async (context) => {
  const program = await actionlintProgram();
  if ('missing' in program) return context.skip(program.missing);
  const said = await new Promise<string>((resolve) => {
    // Without the programs that it would call for scripts, if a machine has them: the same findings everywhere.
    const args = ['-no-color', '-shellcheck=', '-pyflakes=', ...WORKFLOWS];
    execFile(program.path, args, { cwd: repoRoot() }, (error, stdout, stderr) => {
      resolve(error === null ? '' : `${stdout}${stderr}${error.message}`);
    });
  });
  assert.equal(said, '');
});

for (const path of WORKFLOWS) {
  const text = read(path);

  test(`${path} asks for no more than it names, and takes actions by a version that is fixed`, () => {
    assert.match(text, /^permissions:\n {2}contents: read\n(?! )/m, 'the permissions of all jobs: contents: read');
    for (const [, action = ''] of text.matchAll(/\buses: (\S+)/g)) {
      assert.match(action, /^(?:\.\/|[\w.-]+\/[\w./-]+@(?:v\d+|v\d+\.\d+\.\d+|[0-9a-f]{40})$)/);
    }
    assert.doesNotMatch(text, /permissions: write-all|pull_request_target/);
  });

  test(`${path} runs only scripts that are there`, () => {
    const { scripts } = JSON.parse(read('package.json')) as { scripts: Record<string, string> };
    for (const [, name = ''] of text.matchAll(/npm run ([\w:-]+)/g)) assert(name in scripts, `npm run ${name}`);
    for (const [, file = ''] of text.matchAll(/node (scripts\/\S+)/g)) read(file);
  });

  test(`${path} gives each job a time`, () => {
    const jobs = text
      .slice(text.indexOf('\njobs:\n'))
      .split(/^ {2}(?=[\w-]+:\n)/m)
      .slice(1);
    assert(jobs.length > 0);
    for (const job of jobs) assert.match(job, /^ {4}(?:timeout-minutes|uses): /m, job.split('\n')[0]);
  });
}

/** A workflow, as far as it matters when something is published. */
interface Workflow {
  readonly on: Readonly<Record<string, { readonly tags?: readonly string[] } | null>>;
  readonly jobs: Readonly<
    Record<string, { readonly if?: string; readonly uses?: string; readonly needs?: string | readonly string[] }>
  >;
}

test('for a tag nothing is published before its tests have passed and its version is that of package.json', () => {
  const workflowOf = (path: string): Workflow => parse(read(path)) as Workflow;
  const ofTags = WORKFLOWS.filter((path) => workflowOf(path).on.push?.tags !== undefined);
  assert.deepEqual(ofTags, ['.github/workflows/release.yml']);
  const { jobs } = workflowOf('.github/workflows/release.yml');
  assert.equal(jobs.tests?.uses, './.github/workflows/ci.yml');
  assert.match(
    read('.github/workflows/release.yml'),
    /^ {2}notes:\n[\s\S]*?node scripts\/release-notes\.mjs "\$GITHUB_REF_NAME"/m,
  );
  for (const name of ['package', 'images']) assert.deepEqual(jobs[name]?.needs, ['notes', 'tests'], name);
  assert.equal(jobs.images?.uses, './.github/workflows/images.yml');
  const images = workflowOf('.github/workflows/images.yml');
  assert.equal(images.jobs.publish?.if, 'inputs.publish');
  assert.deepEqual(images.jobs.publish?.needs, ['build', 'quickstart']);
});

test('the owners of code are of places that there are', () => {
  const lines = read('.github/CODEOWNERS').split('\n');
  const owned = lines.filter((line) => line.trim() !== '' && !line.startsWith('#')).map((line) => line.split(/\s+/));
  assert(owned.length > 1);
  for (const [path = '', ...owners] of owned) {
    assert(path === '*' || exists(path.slice(1)), path);
    for (const owner of owners) assert.match(owner, /^@[\w-]+\/[\w-]+$/, path);
  }
});
