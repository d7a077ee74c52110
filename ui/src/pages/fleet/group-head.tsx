import type { ReadonlySignal } from '@preact/signals';
import type { Group, Grouping } from '../../../../src/fleet-rules/group.js';
import { HEALTH_WORDS, POLICY_WORDS, stateWord } from '../../../../src/fleet-rules/state-words.js';
import { commit, count, integer, NBSP } from '../../../../src/fleet-rules/words.js';
import { Bar, type BarCounts, barCounts } from '../../parts/bar';

interface GroupHeadProps {
  readonly grouping: Grouping;
  readonly group: Group;
  readonly head: ReadonlySignal<string | null>;
}

/** What the clients below have in common, how far they are, and who of them needs a look. */
export function GroupHead({ grouping, group, head }: GroupHeadProps) {
  const counts = barCounts(group.counts);
  const isByState = grouping.kind === 'state';
  const served = isByState || counts.total === 0 ? null : head.value;
  return (
    <>
      <span class="name clip">
        <span class="muted">{grouping.name}</span> <b>{groupName(grouping, group.value)}</b>
      </span>
      {served !== null && <Bar counts={counts} label={`${heldText(counts)} ${commit(served)}`} thin />}
      <span class="clip muted">
        {served === null ? (
          count(group.rows.length, 'client')
        ) : (
          <>
            {heldText(counts)} <code>{commit(served)}</code>
          </>
        )}
        {!isByState && <Needing refused={counts.refused} needing={group.needing} />}
      </span>
    </>
  );
}

function heldText({ held, total }: BarCounts): string {
  return `${integer(held)} of ${integer(total)} hold`;
}

/** Who refuses, and who else needs a look; nothing where nobody does. */
function Needing({ refused, needing }: { readonly refused: number; readonly needing: number }) {
  const others = needing - refused;
  const word = refused > 0 ? 'more to look at' : 'to look at';
  return (
    <>
      {refused > 0 && (
        <>
          {' · '}
          <span class="red">{`${integer(refused)}${NBSP}refused`}</span>
        </>
      )}
      {others > 0 && (
        <>
          {' · '}
          <span class="amber">{`${integer(others)}${NBSP}${word}`}</span>
        </>
      )}
    </>
  );
}

function groupName({ kind, name }: Grouping, value: string): string {
  if (kind === 'state') return stateWord(POLICY_WORDS, value).word;
  if (kind === 'health') return stateWord(HEALTH_WORDS, value).word;
  return value === '' ? `no ${name}` : value;
}
