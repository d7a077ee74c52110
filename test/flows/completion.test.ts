import assert from 'node:assert/strict';
import { execFile, spawnSync } from 'node:child_process';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { promisify } from 'node:util';
import { runCommand } from '../support/command.js';
import { runHere } from '../support/run-here.js';
import { type TempDir, tempDir } from '../support/temp-dir.js';

const run = promisify(execFile);
const SHELLS = ['bash', 'zsh', 'fish'] as const;
type Shell = (typeof SHELLS)[number];

let dir: TempDir;

function scriptOf(shell: Shell): string {
  return join(dir.path, `policysync.${shell}`);
}

/** Why a shell is not tested; undefined where it is there. */
function missing(shell: Shell): string | undefined {
  return spawnSync(shell, ['-c', 'true']).error === undefined ? undefined : `${shell} is not on PATH`;
}

/** What bash completes at the end of a line, whose words it has split. */
async function completedByBash(...words: string[]): Promise<string[]> {
  const code = `source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _policysync; printf "%s\\n" "\${COMPREPLY[@]}"`;
  const args = ['--norc', '--noprofile', '-c', code, 'bash', scriptOf('bash'), 'policysync', ...words];
  const { stdout, stderr } = await run('bash', args, { cwd: dir.path });
  assert.equal(stderr, '');
  return stdout.split('\n').filter((word) => word !== '');
}

describe('policysync completion', () => {
  before(async () => {
    dir = await tempDir();
    for (const shell of SHELLS) {
      const { code, stdout, stderr } = await runHere('policysync', ['completion', shell]);
      assert.equal(code, 0, stderr);
      await writeFile(scriptOf(shell), stdout);
    }
    await mkdir(join(dir.path, 'a folder'));
    await writeFile(join(dir.path, 'policysync.yaml'), '');
  });
  after(() => dir[Symbol.asyncDispose]());

  for (const shell of SHELLS) {
    it(`${shell} reads its script`, { skip: missing(shell) ?? false }, async () => {
      await run(shell, ['-n', scriptOf(shell)]);
    });
  }

  it('bash completes commands, options, their values and files', async () => {
    for (const [line, expected] of [
      [['st'], ['status']],
      [['config', ''], ['print']],
      [
        ['config', 'print', ''],
        ['server', 'client'],
      ],
      [['help', 'ref'], ['refresh']],
      [['server', '--policy-repo-u'], ['--policy-repo-url']],
      [['config', 'print', 'client', '--data-t'], ['--data-topics']],
      [['--no-such'], []],
      [
        ['status', ''],
        ['server', 'client'],
      ],
      [
        ['completion', ''],
        ['bash', 'zsh', 'fish'],
      ],
      [
        ['publish', '--save-method', ''],
        ['PUT', 'PATCH', 'DELETE'],
      ],
      [
        ['publish', '--save-method', '=', 'P'],
        ['PUT', 'PATCH'],
      ],
      [
        ['publish', '--save-method', '='],
        ['PUT', 'PATCH', 'DELETE'],
      ],
      [['server', '--log-level', 'd'], ['debug']],
      [
        ['server', '--statistics-enabled', ''],
        ['true', 'false'],
      ],
      [['server', '--statistics-enabled', '--state-d'], ['--state-dir']],
      [['publish', '--reason', 'status', '--ent'], ['--entries-file']],
      [['publish', '--topic', ''], []],
      [['publish', '-t', ''], []],
      [['server', '--config', 'policysync.y'], ['policysync.yaml']],
      [['check', 'a'], ['a folder']],
    ] as const) {
      assert.deepEqual((await completedByBash(...line)).toSorted(), expected.toSorted(), line.join(' '));
    }
    const top = await completedByBash('');
    const { stdout } = await runCommand('policysync', ['--help']);
    const listed = [...stdout.matchAll(/^ {2}([a-z][a-z-]*)/gm)].map(([, name]) => name);
    assert.deepEqual(top.toSorted(), listed.toSorted());
  });

  it('zsh takes the script for its completion of policysync', { skip: missing('zsh') ?? false }, async () => {
    const code = 'autoload -U compinit; compinit -u -D; source "$1"; print -- "$_comps[policysync]"';
    const { stdout, stderr } = await run('zsh', ['-f', '-c', code, 'zsh', scriptOf('zsh')], { cwd: dir.path });
    assert.deepEqual([stdout, stderr], ['_policysync\n', '']);
  });

  it('fish completes commands, options and their values', { skip: missing('fish') ?? false }, async () => {
    const completed = async (line: string): Promise<string[]> => {
      const code = 'source $argv[1]; complete -C $argv[2]';
      const args = ['--no-config', '-c', code, scriptOf('fish'), `policysync ${line}`];
      const { stdout } = await run('fish', args, { cwd: dir.path, env: { ...process.env, HOME: dir.path } });
      return stdout
        .split('\n')
        .filter((word) => word !== '')
        .map((word) => word.split('\t')[0] ?? '');
    };
    for (const [line, expected] of [
      ['st', ['status']],
      ['config print ', ['client', 'server']],
      ['server --policy-repo-u', ['--policy-repo-url']],
      ['publish --save-method ', ['DELETE', 'PATCH', 'PUT']],
      ['status ', ['client', 'server']],
    ] as const)
      assert.deepEqual((await completed(line)).toSorted(), expected, line);
  });

  it('names the shells that it knows', async () => {
    const { code, stderr } = await runHere('policysync', ['completion', 'tcsh']);
    assert.equal(code, 2);
    assert.match(stderr, /bash, zsh, fish/);
  });
});
