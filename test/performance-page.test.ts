import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { verdicts } from '../bench/lib/goals.js';
import { PERFORMANCE_PAGE, PERFORMANCE_RUN, PERFORMANCE_TEXT, performancePage } from '../bench/lib/performance-page.js';
import { SCENARIOS } from '../bench/scenarios/index.js';
import { repoRoot } from './support/repo.js';

const RUN = {
  ...{ kind: 'run', at: '2026-01-02T03:04:05.000Z', quick: false, cpus: 2, cpu: 'Some processor', memory_bytes: 8e9 },
  ...{ load_before: 0.1, node: 'v20.19.0', opa: '1.4.2', revision: 'abc1234' },
};
const FIGURE = { kind: 'figure', scenario: 'fan-out', metric: 'last | notified', unit: 'ms', p99: 60.4, n: 50 };
const COST = { server: { cpuMs: 120, peakBytes: 80e6 } };
const GOAL = { kind: 'goal', scenario: 'fan-out', system: 'policysync', goal: 'at most 1.3 x raw', unit: 'x' };
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
    '| [fan-out](#fan-out) | at most 1.3 x raw | 1.25 x | met |',
    '| [fan-out](#fan-out) | at most 1 x opal | 2 x | **missed** |',
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

test('a goal that is a number has the unit of its figure, and three digits', () => {
  const [scenario] = SCENARIOS;
  assert(scenario);
  const goal = { metric: 'CPU', statistic: 'median', of: 'number', atMost: 1000 / 3 } as const;
  const figure = { ...FIGURE, system: 'policysync', metric: 'CPU', unit: 'us', median: 24.958, cost: {} } as const;
  const [verdict] = verdicts({ ...scenario, goals: [goal] }, 'policysync', [figure], { isCheck: false });
  assert.equal(verdict?.goal, 'CPU, median at most 333 µs');
  assert.match(pageOf(RUN, { kind: 'goal', ...verdict }), /\| CPU, median at most 333 µs \| 25 µs \| met \|/);
});

test('no figure of the page has more digits than mean something', () => {
  const page = readFileSync(join(repoRoot(), PERFORMANCE_PAGE), 'utf8');
  assert.deepEqual(page.match(/\d+\.\d{5,}/g) ?? [], []);
  const goals = page.split('\n').filter((line) => /\| (?:met|\*\*missed\*\*) \|$/.test(line));
  assert(goals.length > 0);
  for (const goal of goals)
    assert.match(
      goal,
      /at (?:most|least) [\d.,]+(?: x | µs| ms| MB| KB| %|\/s).* \| [\d.,]+(?: x| µs| ms| MB| KB| %|\/s) \|/,
    );
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

/** Rows of the README's comparison, and the figures of the page that they show. */
const README_ROWS: Readonly<Record<string, readonly string[]>> = {
  'Publish to readable in OPA': ['publish to readable'],
  'Last of 1,000 subscribers notified': ['last of 1,000 notified'],
  'Updates in OPA, 8 publishers': ['updates in OPA'],
  'Push of a commit to new policy in OPA': ['webhook to new policy in OPA'],
  'A document of 50 MB, publish to readable': ['publish to readable, one document of 50 MB'],
  'A client starts with 1,000 tenants': ['1,000 tenants: client start to all in OPA'],
  'Start of the server; of a client': ['server start to first bundle', 'client start to ready'],
  'Memory at rest: server; client': ['memory of the server at rest', 'memory of the client at rest'],
};

test('the figures of the README are the medians of the performance page', () => {
  const page = readFileSync(join(repoRoot(), PERFORMANCE_PAGE), 'utf8');
  const medians = (system: string, metrics: readonly string[]): string =>
    metrics
      .map((metric) => {
        const [, rows = ''] = page.split(`\n| ${metric} |`);
        const row = ` |${rows}`.split('\n').find((line) => line.includes(`| ${system} |`)) ?? '';
        return row.split('|')[3]?.trim();
      })
      .join('; ');
  const readme = readFileSync(join(repoRoot(), 'README.md'), 'utf8').split('\n');
  const [, ...shown] = readme.slice(readme.indexOf('| | PolicySync | OPAL |') + 1);
  const measured = shown.slice(0, Object.keys(README_ROWS).length).map((row) => row.split(' | '));
  assert.deepEqual(
    measured.map((cells) => cells.map((cell) => cell.replace(/^\| | \|$/g, ''))),
    Object.entries(README_ROWS).map(([name, metrics]) => [
      name,
      medians('policysync', metrics),
      medians('opal', metrics),
    ]),
  );
});
