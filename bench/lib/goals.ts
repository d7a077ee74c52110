import type { Figure } from './figure.js';
import { quantity } from './report.js';
import type { Goal, Scenario } from './scenario.js';

/** Whether our system is where it should be. */
export interface Verdict {
  readonly scenario: string;
  readonly system: string;
  /** In words, with the limit. */
  readonly goal: string;
  /** Our figure divided by the one that it is held against; the figure itself where it is held against a number. */
  readonly ratio: number;
  /** Of `ratio`. */
  readonly unit: Figure['unit'] | 'x';
  readonly isMet: boolean;
}

/**
 * Holds the figures of a system of ours against the goals of a scenario. A goal whose other figure was not measured in this run is
 * left out; so is, in the check, one that has no place there.
 */
export function verdicts(
  scenario: Scenario,
  system: string,
  figures: readonly Figure[],
  { isCheck }: { isCheck: boolean },
): Verdict[] {
  const goals = scenario.goals.filter(
    (goal) => goal.for === undefined || (goal.for === 'embedded') === (system === 'embedded'),
  );
  return goals.flatMap((goal) => {
    const limit = limitOf(goal, isCheck);
    const own = figures.find((found) => found.system === system && found.metric === goal.metric);
    const other = otherFigure(goal, system, figures, own?.unit);
    if (limit === undefined || other === undefined) return [];
    // Nothing was measured: as far from the goal as can be.
    const ratio = own === undefined ? Number.NaN : own[goal.statistic] / other.value;
    return [
      {
        scenario: scenario.name,
        system,
        goal: `${statisticOf(goal)} at ${goal.atMost === undefined ? 'least' : 'most'} ${quantity(limit, other.unit)}${other.name}`,
        ratio,
        unit: other.unit,
        isMet: goal.atMost === undefined ? ratio >= limit : ratio <= limit,
      },
    ];
  });
}

function limitOf(goal: Goal, isCheck: boolean): number | undefined {
  return isCheck ? goal.check : (goal.atMost ?? goal.atLeast);
}

function otherFigure(
  { of, metric, statistic, plus = 0 }: Goal,
  system: string,
  figures: readonly Figure[],
  ownUnit: Figure['unit'] | 'x' = 'x',
): { name: string; value: number; unit: Figure['unit'] | 'x' } | undefined {
  if (of === 'number') return { name: '', value: 1, unit: ownUnit };
  const wanted = { metric, statistic, ...of, system: of.system === 'self' ? system : of.system };
  const found = figures.find((other) => other.system === wanted.system && other.metric === wanted.metric);
  if (found === undefined) return undefined;
  const name = ` ${of.metric === undefined ? wanted.system : `"${of.metric}"`}`;
  return plus === 0
    ? { name, value: found[wanted.statistic], unit: 'x' }
    : { name: `${name} + ${quantity(plus, found.unit)}`, value: found[wanted.statistic] + plus, unit: 'x' };
}

function statisticOf({ metric, statistic }: Goal): string {
  return `${metric}, ${statistic}`;
}
