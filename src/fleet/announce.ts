import type { FleetSnapshot, FleetSummary } from '../wire/fleet.js';
import { answerOf, answerText } from './answer.js';
import { commit, integer } from './words.js';

/**
 * What those hear who listen to the page instead of looking at it: that a commit is out, that half hold it, that nothing moves any more.
 * undefined: nothing that is worth a sentence has happened between the two.
 */
export function announcement(
  before: FleetSummary | undefined,
  after: FleetSummary,
  { source, now }: { readonly source: FleetSnapshot['source']; readonly now: number },
): string | undefined {
  const { head } = after.policy;
  if (before === undefined || head === null) return undefined;
  const [were, are] = [progress(before), progress(after)];
  const isNew = before.policy.head !== head;
  if (are.moving === 0) {
    const isSettled = isNew || were.moving > 0;
    return isSettled ? answerText(answerOf({ summary: after, source, pastAt: null, now })) : undefined;
  }
  if (isNew) return `Commit ${commit(head)} is served: ${integer(are.holds)} of ${integer(are.all)} hold it`;
  const isHalf = (one: Progress): boolean => one.holds * 2 >= one.all;
  return isHalf(are) && !isHalf(were)
    ? `Half hold ${commit(head)}: ${integer(are.holds)} of ${integer(are.all)}`
    : undefined;
}

interface Progress {
  readonly all: number;
  readonly holds: number;
  readonly moving: number;
}

function progress({ policy: { counts } }: FleetSummary): Progress {
  const all = Object.values(counts).reduce((sum, clients) => sum + clients, 0) - (counts.none ?? 0);
  return { all, holds: counts.acknowledged ?? 0, moving: (counts.told ?? 0) + (counts.not_told ?? 0) };
}
