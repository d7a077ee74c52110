import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { PERFORMANCE_PAGE, PERFORMANCE_RUN, PERFORMANCE_TEXT, performancePage } from '../bench/lib/performance-page.js';
import { repoRoot } from './support/repo.js';

const RUN = {
  ...{ kind: 'run', at: '2026-01-02T03:04:05.000Z', quick: false, cpus: 2, cpu: 'Some processor', memory_bytes: 8e9 },
  ...{ load_before: 0.1, node: 'v20.19.0', opa: '1.4.2', revision: 'abc1234' },
};
const FIGURE = { kind: 'figure', scenario: 'fan-out', metric: 'last | notified', unit: 'ms', p99: 60.4, n: 50 };
const COST = { server: { cpuMs: 120, peakBytes: 80e6 } };
const GOAL = { kind: 'goal', scenario: 'fan-out', system: 'policysync', goal: 'at most 1.3 x raw' };
const TEXT = '# Title\n\nwords\n\n{{goals}}\n\n{{results}}\n\n{{machine}}\n';

function pageOf(...lines: readonly object[]): string {
  return performancePage(TEXT, `${lines.map((line) => JSON.stringify(line)).join('\n')}\n`);
}

test('the performance page has a row for each figure, with its ratio to the raw limit, and one for each goal', () => {
  const page = pageOf(
    RUN,
    { ...FIGURE, system: 'raw', median: 32, cost: {} },
    { ...FIGURE, system: 'policysync', median: 40, cost: COST },
    { ...GOAL, ratio: 1.25, isMet: true },
    { ...GOAL, goal: 'at most 1 x opal', ratio: 2, isMet: false },
    { ...GOAL, goal: 'something else', ratio: null, isMet: false },
  );
  const rows = page.split('\n');
  for (const row of [
    '# Title',
    '1 of 3 goals are met.',
    '| [fan-out](#fan-out) | at most 1.3 x raw | 1.25 | met |',
    '| [fan-out](#fan-out) | at most 1 x opal | 2 | **missed** |',
    '| [fan-out](#fan-out) | something else | not measured | **missed** |',
    '### fan-out',
    '| last \\| notified | raw | 32 ms | 60.4 ms |  |  |',
    '|  | policysync | 40 ms | 60.4 ms | 1.25 R | server 120 ms, 80 MB |',
    '| Processor | 2 x Some processor |',
    '| Measured | 2026-01-02, revision `abc1234` |',
  ]) {
    assert(rows.includes(row), `no row ${row} in\n${page}`);
  }
});

test('the limits of the check are not shown as goals', () => {
  const page = pageOf({ ...RUN, check: true }, { ...GOAL, ratio: 1.25, isMet: true });
  assert.match(page, /^1 of 1 generous limits of `npm run bench:check` are met\.$/m);
});

test('a run without the line of its machine, or a text without a place for a part, makes no performance page', () => {
  assert.throws(() => pageOf({ ...GOAL, ratio: 1, isMet: true }), /no line tells of the run/);
  assert.throws(() => performancePage('# Title\n{{goals}}', JSON.stringify(RUN)), /no \{\{machine\}\}/);
});

test(`${PERFORMANCE_PAGE} is what ${PERFORMANCE_TEXT} and ${PERFORMANCE_RUN} make`, () => {
  const read = (path: string): string => readFileSync(join(repoRoot(), path), 'utf8');
  const page = performancePage(read(PERFORMANCE_TEXT), read(PERFORMANCE_RUN));
  assert.equal(read(PERFORMANCE_PAGE), page, `${PERFORMANCE_PAGE} is stale: run \`node scripts/performance-doc.mjs\``);
});
