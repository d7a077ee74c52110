import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { ERROR_CODES, SyncError } from '../../lib/errors.js';
import {
  errorFinding,
  exitCodeOf,
  type Finding,
  failedFinding,
  findingLines,
  okFinding,
  reportFindings,
  warningFinding,
} from './findings.js';
import { ExitError } from './run-program.js';

const OK = okFinding('git_program', 'git', 'version 2.39.5');
const WARNING = warningFinding('token', 'token', 'expires in 3 days', 'Issue a new one.');
const ERROR = errorFinding('rego', 'policy', 'unsafe var x', 'Correct the rule.', { file: 'a/b.rego', line: 3 });

/** What is printed, and the exit code. */
function report(
  findings: readonly Finding[],
  options: Parameters<typeof reportFindings>[1],
  { isTTY = false, env = {} }: { isTTY?: boolean; env?: NodeJS.ProcessEnv } = {},
): { text: string; code: number } {
  let text = '';
  try {
    reportFindings(findings, options, { out: { isTTY, write: (part) => (text += part) }, env, more: { target: 'x' } });
    return { text, code: 0 };
  } catch (error) {
    assert.ok(error instanceof ExitError && error.code === 'checks_failed');
    assert.equal(error.isQuiet, options.json !== true);
    return { text, code: error.exitCode };
  }
}

describe('findings', () => {
  it('an error fails, a warning only with strict', () => {
    assert.deepEqual([exitCodeOf([]), exitCodeOf([OK]), exitCodeOf([OK, WARNING])], [0, 0, 0]);
    assert.deepEqual([exitCodeOf([OK, ERROR]), exitCodeOf([WARNING], { strict: true })], [1, 1]);
  });

  it('lines have a mark, the place, and the remedy below, and none is wider than the terminal', () => {
    const lines = findingLines([OK, WARNING, ERROR], { columns: 40, colour: false });
    assert.deepEqual(lines, [
      '✓ git: version 2.39.5',
      '! token: expires in 3 days',
      '    Issue a new one.',
      '✗ policy: a/b.rego:3: unsafe var x',
      '    Correct the rule.',
      '',
      '1 error, 1 warning, 1 in order',
    ]);
    const long = errorFinding('x', 'y', 'word '.repeat(30).trim(), 'remedy '.repeat(30).trim());
    assert.ok(findingLines([long], { columns: 40, colour: false }).every((line) => line.length <= 40));
  });

  it('names of others do not command the terminal, in a remedy either', () => {
    const lines = findingLines([errorFinding('x', 'a\u001b[1m', 'b\u009b2J', 'c\u001b[31m\u202e')], {
      ...{ columns: 80, colour: false },
    });
    assert.doesNotMatch(lines.join(''), /[\p{Cc}\p{Cf}]/u);
  });

  it('colours need a terminal and no NO_COLOR', () => {
    const coloured = '\u001b[33m!\u001b[39m token';
    assert.ok(report([WARNING], {}, { isTTY: true }).text.includes(coloured));
    for (const where of [{}, { isTTY: true, env: { NO_COLOR: '1' } }, { isTTY: true, env: { TERM: 'dumb' } }]) {
      assert.ok(!report([WARNING], {}, where).text.includes('\u001b'));
    }
  });

  it('--json prints one document, whatever the exit code', () => {
    const { text, code } = report([OK, WARNING, ERROR], { json: true });
    assert.equal(code, 1);
    assert.deepEqual(JSON.parse(text), {
      ...{ ok: false, errors: 1, warnings: 1, target: 'x' },
      findings: [OK, WARNING, ERROR],
    });
    assert.equal(JSON.parse(report([WARNING], { json: true }).text).ok, true);
    assert.equal(JSON.parse(report([WARNING], { json: true, strict: true }).text).ok, false);
  });

  it('a failure becomes a finding with the remedy of its code', () => {
    const finding = failedFinding('git', 'repository', new SyncError('git_timeout', 'too slow'));
    assert.deepEqual(finding, errorFinding('git', 'repository', 'too slow', ERROR_CODES.git_timeout.remedy));
    assert.equal(failedFinding('git', 'x', new Error('bug'), 'do this').remedy, 'do this');
  });
});
