import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { repoRoot } from '../support/repo.js';
import { type TempDir, tempDir } from '../support/temp-dir.js';

const CHANGELOG = `# Changelog

## Unreleased

### Added

- Something that is not released yet.

## 1.2.0 - 2027-01-02

Upgrade all instances
at once.

### Changed

- A line that is wrapped goes on
  here ([errors](docs/errors.md), [web](https://docs.example)).
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
    await writeFile(join(folder.path, 'CHANGELOG.md'), CHANGELOG);
  });
  after(() => folder[Symbol.asyncDispose]());

  /** Runs the script in a repository with this version. */
  async function notes(
    version: string,
    args: readonly string[],
    env: NodeJS.ProcessEnv = {},
  ): Promise<{ code: number; stdout: string; stderr: string }> {
    await writeFile(join(folder.path, 'package.json'), JSON.stringify({ version }));
    const script = join(repoRoot(), 'scripts', 'release-notes.mjs');
    return await new Promise((resolve) => {
      execFile(process.execPath, [script, '--root', folder.path, ...args], { env }, (error, stdout, stderr) => {
        resolve({ code: error === null ? 0 : Number(error.code), stdout, stderr });
      });
    });
  }

  test('the notes of a tag are its part of the changelog, a line for each paragraph and item', async () => {
    const env = { GITHUB_SERVER_URL: 'https://git.example', GITHUB_REPOSITORY: 'team/policysync' };
    assert.deepEqual(await notes('1.2.0', ['v1.2.0'], env), {
      code: 0,
      stdout: `Upgrade all instances at once.

### Changed

- A line that is wrapped goes on here ([errors](https://git.example/team/policysync/blob/v1.2.0/docs/errors.md), [web](https://docs.example)).
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
    const { stdout } = await notes('1.2.0', ['--unreleased']);
    assert.equal(stdout, '### Added\n\n- Something that is not released yet.\n');
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
