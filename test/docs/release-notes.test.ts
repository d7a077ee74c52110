import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, beforeEach, describe, test } from 'node:test';
import { repoRoot } from '../support/repo.js';
import { exists, filesBelow, read } from '../support/repo-pages.js';
import { type TempDir, tempDir } from '../support/temp-dir.js';

const CHANGELOG = `# Changelog

## 1.2.0 - 2027-01-02

Upgrade all instances
at once.

### Changed

- A line that is wrapped goes on
  here ([errors](docs/reference/errors.md), [web](https://docs.example)).
- Another.
  - With one below it.

\`\`\`
two lines
of code
\`\`\`

## 1.1.0

No date.

## 1.0.0 - 2026-12-01
`;

describe('release notes', () => {
  let folder: TempDir;

  before(async () => {
    folder = await tempDir();
  });
  beforeEach(async () => {
    await writeFile(join(folder.path, 'CHANGELOG.md'), CHANGELOG);
    await rm(join(folder.path, 'changes'), { recursive: true, force: true });
    await mkdir(join(folder.path, 'changes'));
  });
  after(() => folder[Symbol.asyncDispose]());

  interface Ended {
    readonly code: number;
    readonly stdout: string;
    readonly stderr: string;
  }

  async function run(script: string, args: readonly string[], env: NodeJS.ProcessEnv): Promise<Ended> {
    return await new Promise((resolve) => {
      execFile(process.execPath, [join(repoRoot(), 'scripts', script), ...args], { env }, (error, stdout, stderr) => {
        resolve({ code: error === null ? 0 : Number(error.code), stdout, stderr });
      });
    });
  }

  /** Runs the script in a repository with this version. */
  async function notes(version: string, args: readonly string[], env: NodeJS.ProcessEnv = {}): Promise<Ended> {
    await writeFile(join(folder.path, 'package.json'), JSON.stringify({ version }));
    return await run('release-notes.mjs', ['--root', folder.path, ...args], env);
  }

  async function change(name: string, text: string): Promise<void> {
    await writeFile(join(folder.path, 'changes', name), text);
  }

  /** Joins the changes into the changelog of a repository with this version. */
  async function joined(version: string): Promise<Ended> {
    await writeFile(join(folder.path, 'package.json'), JSON.stringify({ version }));
    return await run('changelog.mjs', ['--root', folder.path, '--date', '2027-03-04'], {});
  }

  test('the notes of a tag are its part of the changelog, a line for each paragraph and item', async () => {
    const env = { GITHUB_SERVER_URL: 'https://git.example', GITHUB_REPOSITORY: 'team/policysync' };
    assert.deepEqual(await notes('1.2.0', ['v1.2.0'], env), {
      code: 0,
      stdout: `Upgrade all instances at once.

### Changed

- A line that is wrapped goes on here ([errors](https://git.example/team/policysync/blob/v1.2.0/docs/reference/errors.md), [web](https://docs.example)).
- Another.
  - With one below it.

\`\`\`
two lines
of code
\`\`\`
`,
      stderr: '',
    });
  });

  test('what is not released can be read before', async () => {
    await change('something.md', 'Added\n\nSomething that is\nnot released yet.\n');
    const { stdout } = await notes('1.2.0', ['--unreleased']);
    assert.equal(stdout, '### Added\n\n- Something that is not released yet.\n');
  });

  test('at a release the changes become a part of the changelog, a list for each kind, and their files go', async () => {
    await change('b.md', 'Fixed\n\nA second correction.\n');
    await change('a.md', 'Fixed\n\nA correction.\n');
    await change('something.md', `Added\n\n${'word '.repeat(30)}\`code that stays together\`.\n`);
    await change('README.md', 'How changes are written.\n');
    const { code, stdout } = await joined('1.3.0');
    assert.deepEqual([code, stdout], [0, 'CHANGELOG.md has 1.3.0 with 3 changes of changes/\n']);
    const changelog = await readFile(join(folder.path, 'CHANGELOG.md'), 'utf8');
    const part = `## 1.3.0 - 2027-03-04

### Added

- ${'word '.repeat(27).trim()}
  word word word \`code that stays together\`.

### Fixed

- A correction.
- A second correction.

`;
    assert.equal(changelog, CHANGELOG.replace('## 1.2.0', `${part}## 1.2.0`));
    assert.deepEqual(await readdir(join(folder.path, 'changes')), ['README.md']);
    assert.equal((await notes('1.3.0', ['v1.3.0'])).code, 0);
    const again = await joined('1.3.0');
    assert.deepEqual([again.code, again.stdout], [1, '']);
    assert.match(again.stderr, /There is no change in changes\//);
  });

  test('a part that waits for its release gets the changes, beside what it has of their kind, and its date', async () => {
    await writeFile(
      join(folder.path, 'CHANGELOG.md'),
      '# Changelog\n\n## 1.0.0 - unreleased\n\nFirst.\n\n### Added\n\n- One.\n',
    );
    await change('two.md', 'Added\n\nTwo.\n');
    await change('three.md', 'Security\n\nThree.\n');
    assert.match((await notes('1.0.0', ['--unreleased'])).stdout, /^First\.\n.*- One\.\n- Two\.\n.*- Three\.\n$/s);
    assert.equal((await joined('1.0.0')).code, 0);
    assert.equal(
      await readFile(join(folder.path, 'CHANGELOG.md'), 'utf8'),
      '# Changelog\n\n## 1.0.0 - 2027-03-04\n\nFirst.\n\n### Added\n\n- One.\n- Two.\n\n### Security\n\n- Three.\n',
    );
  });

  for (const text of ['Mended\n\nSomething.\n', 'Added\nSomething.\n', 'Added\n\n', 'Something was added.\n']) {
    test(`a change that is not written as it should be is named: ${JSON.stringify(text)}`, async () => {
      await change('odd.md', text);
      const { code, stderr } = await joined('1.3.0');
      assert.equal(code, 1);
      assert.match(stderr, /changes\/odd\.md: the first line is one of Added, Changed,/);
    });
  }

  test('the changes of this repository are written as they should be', async () => {
    const { stderr, code } = await run('release-notes.mjs', ['--root', repoRoot(), '--unreleased'], {});
    assert.deepEqual([code, stderr], [0, '']);
    const dead = filesBelow('changes', /\.md$/).flatMap((file) =>
      [...read(file).matchAll(/\]\((?![a-z]+:)([^)#\s]+)/g)]
        .filter(([, path = '']) => !exists(path))
        .map(([link]) => `${file}: ${link}`),
    );
    assert.deepEqual(dead, []);
  });

  for (const [what, version, tag, problem] of [
    [
      'a tag that is not the version of the package',
      '1.2.0',
      'v1.3.0',
      /package.json has version 1\.2\.0, not 1\.3\.0/,
    ],
    ['a version without a part', '1.3.0', 'v1.3.0', /no part "## 1\.3\.0 - <year-month-day>"/],
    ['a version without a date', '1.1.0', 'v1.1.0', /no part "## 1\.1\.0 - <year-month-day>"/],
    ['a part that says nothing', '1.0.0', 'v1.0.0', /part "1\.0\.0" of CHANGELOG\.md is empty/],
  ] as const) {
    test(`${what} makes no release`, async () => {
      const { code, stdout, stderr } = await notes(version, [tag]);
      assert.deepEqual([code, stdout], [1, '']);
      assert.match(stderr, problem);
    });
  }
});
