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

/** A step of a job. */
interface Step {
  readonly uses?: string;
  readonly run?: string;
  readonly with?: Readonly<Record<string, string | boolean>>;
}
/** A job, as far as it matters when something is published. */
interface Job {
  readonly if?: string;
  readonly uses?: string;
  readonly needs?: string | readonly string[];
  readonly permissions?: Readonly<Record<string, string>>;
  readonly environment?: unknown;
  readonly steps?: readonly Step[];
}
interface Workflow {
  readonly on: Readonly<
    Record<string, { readonly tags?: readonly string[]; readonly paths?: readonly string[] } | null>
  >;
  readonly env?: Readonly<Record<string, unknown>>;
  readonly jobs: Readonly<Record<string, Job>>;
}

const workflowOf = (path: string): Workflow => parse(read(path)) as Workflow;

test('a job that may write, or that has secrets, takes actions by commit', () => {
  const privileged = WORKFLOWS.flatMap((path) =>
    Object.entries(workflowOf(path).jobs).flatMap(([name, job]) => {
      const writes = Object.values(job.permissions ?? {}).includes('write');
      return writes || job.environment !== undefined ? [{ name: `${path} ${name}`, steps: job.steps ?? [] }] : [];
    }),
  );
  assert(privileged.length >= 5);
  const all = WORKFLOWS.map(read).join('\n');
  for (const { name, steps } of privileged) {
    for (const { uses } of steps) {
      if (uses === undefined) continue;
      assert.match(uses, /@[0-9a-f]{40}$/, name);
      const [, version] = new RegExp(`${uses}(.*)`).exec(all) ?? [];
      assert.match(version ?? '', /^ # v\d+\.\d+\.\d+$/, `${name}: ${uses} says its version`);
    }
  }
});

test('a release has the files that it names, after everything else is published', () => {
  const { jobs } = workflowOf('.github/workflows/release.yml');
  assert.deepEqual(jobs.release?.needs, ['package', 'images']);
  const isDownload = ({ uses = '' }: Step): boolean => uses.startsWith('actions/download-artifact@');
  const names = jobs.release?.steps?.filter(isDownload).map((step) => step.with?.name);
  assert.deepEqual(names, ['release-notes', 'package']);
  // Builds of images leave artifacts of their own otherwise.
  assert.equal(workflowOf('.github/workflows/images.yml').env?.DOCKER_BUILD_RECORD_UPLOAD, false);
});

test('images are published as they were tried on their platform, signed by digest', () => {
  const { build, publish } = workflowOf('.github/workflows/images.yml').jobs;
  const steps = build?.steps ?? [];
  const at = (found: (step: Step) => boolean): number => steps.findIndex(found);
  const tried = at(({ run = '' }) => run.includes('--cap-drop ALL'));
  const pushed = at((step) => String(step.with?.outputs).includes('push-by-digest=true'));
  assert(tried > 0 && pushed > tried);
  assert.deepEqual([steps[pushed]?.with?.provenance, steps[pushed]?.with?.sbom], ['mode=max', true]);
  assert.equal(
    steps[pushed]?.with?.['build-args'],
    steps.find((step) => step.with?.load === true)?.with?.['build-args'],
  );
  const actions = publish?.steps?.map(({ uses = '' }) => uses.replace(/@.*/, '')) ?? [];
  for (const builder of ['docker/build-push-action', 'docker/setup-qemu-action']) assert(!actions.includes(builder));
  const runs = publish?.steps?.map(({ run = '' }) => run).join('\n') ?? '';
  assert.match(runs, /docker buildx imagetools create .*"\$\{images\[@\]\}"/);
  assert.match(runs, /cosign sign --yes "\$NAME@\$DIGEST"/);
});

test('a change of what goes into the images or onto the site starts their workflow', () => {
  const pathsOf = (path: string, event: string): readonly string[] => workflowOf(path).on[event]?.paths ?? [];
  const images = pathsOf('.github/workflows/images.yml', 'pull_request');
  for (const line of read('.dockerignore').split('\n')) {
    const [, path = ''] = /^!([\w.-]+)$/.exec(line) ?? [];
    // Beside what is only read.
    if (path === '' || /\.md$|^(?:LICENSE|\.gitignore|docs|bench|schema)$/.test(path)) continue;
    const names = [path, `${path}/**`, path.replace(/^(package|tsconfig).*(?=\.json$)/, '$1*')];
    assert(
      names.some((name) => images.includes(name)),
      path,
    );
  }
  const docs = pathsOf('.github/workflows/docs.yml', 'push');
  for (const path of ['docs/**', 'site/**', 'examples/**', '*.md', 'bench/README.md', 'scripts/site.mjs']) {
    assert(docs.includes(path), path);
  }
});

test('for a tag nothing is published before its tests have passed and its version is that of package.json', () => {
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

test('the owners of code are of places that there are, and nobody is named who is not', () => {
  const lines = read('.github/CODEOWNERS').split('\n');
  const rules = lines.filter((line) => line.trim() !== '' && !line.startsWith('#')).map((line) => line.split(/\s+/));
  for (const [path = '', ...owners] of rules) {
    assert(path === '*' || exists(path.replace(/^\//, '')), path);
    for (const owner of owners) assert.match(owner, /^(?:@[\w-]+(?:\/[\w-]+)?|\S+@\S+)$/, path);
    assert(!owners.includes('@owner'), 'the placeholder is no owner');
  }
  // Without a rule the file says what to put in.
  if (rules.length === 0) assert.match(lines.join('\n'), /^# \* +@owner$/m);
});

test('forms name commands that there are, and links of theirs work where they are shown', () => {
  const pages = filesBelow('.github', /\.(?:md|yml)$/).filter((path) => !path.includes('workflows'));
  for (const page of pages) {
    // A description is shown on pages of many addresses: a relative link leads nowhere.
    assert.doesNotMatch(read(page), /\]\((?!https?:)/, page);
    assert.doesNotMatch(read(page), /policysync (?:server|client) run/, page);
  }
});
