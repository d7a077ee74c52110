import type { Figure } from './figure.js';
import type { Verdict } from './goals.js';
import type { Scenario } from './scenario.js';

/** A table of what was measured in one scenario: a row for each metric and system, with ratios to the raw limit. */
export function tableOf(scenario: Scenario, figures: readonly Figure[]): string {
  const rows = figures.map((own) => {
    const raw = figures.find(({ system, metric }) => system === 'raw' && metric === own.metric);
    const cost = Object.entries(own.cost).map(
      ([part, { cpuMs, peakBytes }]) => `${part} ${quantity(cpuMs, 'ms')}, ${megabytes(peakBytes)}`,
    );
    return [
      own.metric,
      own.system,
      quantity(own.median, own.unit),
      own.n === 1 ? '' : short(own.p99),
      String(own.n),
      raw === undefined || raw === own ? '' : `${short(own.median / raw.median)} R`,
      cost.join('; '),
    ];
  });
  const sorted = rows.toSorted(([a = ''], [b = '']) => order(rows, a) - order(rows, b));
  const head = ['metric', 'system', 'median', 'p99', 'n', 'ratio', 'CPU and peak memory'];
  return `\n${scenario.name}: ${scenario.about}\nR: ${scenario.rawIs}\n\n${aligned([head, ...sorted])}`;
}

/** The goals, met or not. */
export function goalsText(verdicts: readonly Verdict[]): string {
  return aligned(
    verdicts.map(({ system, goal, ratio, unit, isMet }) => [
      isMet ? '  met   ' : '  MISSED',
      system,
      goal,
      `is ${quantity(ratio, unit)}`,
    ]),
  );
}

/** Metrics in the order in which they were first measured. */
function order(rows: readonly string[][], metric: string): number {
  return rows.findIndex(([other]) => other === metric);
}

function aligned(rows: readonly (readonly string[])[]): string {
  const widths = (rows[0] ?? []).map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0)));
  return rows
    .map((row) =>
      row
        .map((cell, column) => cell.padEnd(widths[column] ?? 0))
        .join('  ')
        .trimEnd(),
    )
    .join('\n');
}

/** Three digits, of small figures two; of large ones all before the point, in groups of three. */
export function short(value: number): string {
  const size = Math.abs(value);
  return size >= 100
    ? Math.round(value).toLocaleString('en-US')
    : String(Number(value.toPrecision(size < 0.01 ? 2 : 3)));
}

/** A figure with its unit: `1.73 ms`, `31,747/s`, `6 µs`, `25 x`. */
export function quantity(value: number, unit: Figure['unit'] | 'x'): string {
  return `${short(value)}${UNIT_TEXTS[unit] ?? ` ${unit}`}`;
}

const UNIT_TEXTS: Partial<Record<Figure['unit'] | 'x', string>> = { '1/s': '/s', us: ' µs' };

export function megabytes(bytes: number): string {
  return `${(bytes / 1e6).toFixed(0)} MB`;
}
