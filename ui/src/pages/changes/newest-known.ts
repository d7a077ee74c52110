import type { FleetChange } from '../../../../src/wire/fleet.js';
import { changeKey } from '../../stream/pending.js';

/**
 * Takes what the stream has into what is known, and forgets the oldest beyond `most`. Answers all
 * of them, the newest first. How far a change came that the stream has left is not heard of any
 * more: none of them is shown as under way.
 */
export function newestKnown(
  known: Map<string, FleetChange>,
  streamed: readonly FleetChange[],
  most: number,
): readonly FleetChange[] {
  for (const change of streamed) known.set(changeKey(change), change);
  const heard = new Set(streamed);
  const all = [...known.values()].sort((one, other) => other.at - one.at || Number(other.id) - Number(one.id) || 0);
  for (const change of all.splice(most)) known.delete(changeKey(change));
  return all.map((change) =>
    change.state === 'under_way' && !heard.has(change) ? { ...change, state: 'served' } : change,
  );
}
