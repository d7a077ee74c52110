import type { FleetChange, FleetSummary } from '../../wire/fleet.js';
import { othersHeldUp, underWay } from './change-rules.js';
import type { Gathered } from './gathered.js';
import type { RowEntry } from './rows.js';

/** The summary of the rows that a caller sees. `dataHead`: the last update that it sees. `changes`: the newest first. */
export function summaryOf(
  entries: Iterable<Pick<RowEntry, 'standings' | 'isNeeding' | 'behind' | 'isAtLeast'>>,
  {
    gathered: { atMs, policy, incomplete },
    changes,
    dataHead,
    isLimited,
  }: {
    gathered: Pick<Gathered, 'atMs' | 'policy' | 'incomplete'>;
    changes: readonly FleetChange[];
    dataHead: number;
    isLimited: boolean;
  },
): FleetSummary {
  const counts = { policy: new Counter(), data: new Counter(), health: new Counter() };
  let [total, needing, slowest, isAtLeast] = [0, 0, 0, false];
  for (const { standings, isNeeding, behind, isAtLeast: isRowAtLeast } of entries) {
    total++;
    if (isNeeding) needing++;
    counts.policy.add(standings.policy);
    counts.data.add(standings.data);
    counts.health.add(standings.health);
    if (behind < slowest || behind === 0) continue;
    isAtLeast = isRowAtLeast || (behind === slowest && isAtLeast);
    slowest = behind;
  }
  const named = underWay(changes, atMs);
  return {
    total,
    policy: { head: policy.commit?.hash ?? null, counts: counts.policy.counts },
    data: { head: dataHead, counts: counts.data.counts, slowest_behind: slowest, at_least: isAtLeast },
    health: counts.health.counts,
    needing,
    under_way: named,
    others_held_up: othersHeldUp(changes, named),
    incomplete,
    limited: isLimited,
  };
}

class Counter {
  readonly counts: Record<string, number> = {};

  add(name: string): void {
    this.counts[name] = (this.counts[name] ?? 0) + 1;
  }
}
