import { type ReadonlySignal, useComputed, useSignalEffect } from '@preact/signals';
import { useRef } from 'preact/hooks';
import { policyStateOf, sinceOf } from '../../../../src/fleet-rules/rank.js';
import { age, DASH, moment } from '../../../../src/fleet-rules/words.js';
import type { FleetRow } from '../../../../src/wire/fleet.js';
import { HealthState, PolicyState } from '../../parts/state';
import { linkTo } from '../../router';
import { GroupHead } from './group-head';
import type { Item } from './list-model';
import { type Distance, dataText, errorText, errorTitle, heldText, labelsText, noteText, placeText } from './row-text';

/** What all elements for lines share. */
export interface SlotContext {
  readonly items: ReadonlySignal<readonly Item[]>;
  readonly indexOf: (slot: number) => number;
  readonly rowHeight: ReadonlySignal<number>;
  readonly now: ReadonlySignal<number>;
  /** The labels of the column. */
  readonly labels: ReadonlySignal<readonly string[]>;
  readonly instanceName: (instance: string) => string;
  /** The id of the client that the keyboard is at. */
  readonly at: ReadonlySignal<string | undefined>;
  /** The commit that is served; null: none is, or a search shows parts of the groups only. */
  readonly head: ReadonlySignal<string | null>;
  readonly isGrouped: ReadonlySignal<boolean>;
}

/** The name of the element of a slot. */
export function slotId(slot: number): string {
  return `client-line-${slot}`;
}

/**
 * One element of the list. It is made once; as the list moves, it shows another line at another
 * place. Each text is a signal that is bound to its node: what does not change is not touched.
 */
export function Slot({ slot, context }: { readonly slot: number; readonly context: SlotContext }) {
  const { items, indexOf, rowHeight, now, labels, at } = context;
  const element = useRef<HTMLDivElement>(null);
  const index = useComputed(() => indexOf(slot));
  const item = useComputed(() => items.value[index.value]);
  const id = useComputed(() => (item.value?.kind === 'row' ? item.value.id : ''));
  /** The text of the client of this line; empty where it has none. */
  const useText = (textOf: (row: FleetRow) => string): ReadonlySignal<string> =>
    useComputed(() => (item.value?.kind === 'row' ? textOf(item.value.row.value) : ''));

  useSignalEffect(() => {
    if (element.current !== null) element.current.style.top = `${index.value * rowHeight.value}px`;
  });
  const kind = useComputed(() => {
    const shown = item.value;
    if (shown === undefined) return 'fleet-line';
    if (shown.kind === 'group') return 'fleet-line group';
    return shown.id === at.value ? 'fleet-line at' : 'fleet-line';
  });
  const labelled = useText((row) => labelsText(row, labels.value));
  const engine = useText((row) => row.engine ?? DASH);
  const instance = useText((row) => context.instanceName(row.instance));
  const note = useText((row) => noteText(row, labels.value));
  return (
    <div
      ref={element}
      id={slotId(slot)}
      role="row"
      class={kind}
      hidden={useComputed(() => item.value === undefined)}
      aria-rowindex={useComputed(() => index.value + 2)}
      aria-selected={useComputed(() => (id.value !== '' && id.value === at.value ? 'true' : undefined))}
      data-id={id}
    >
      <div role="gridcell" class="c-client">
        <a tabIndex={-1} href={useComputed(() => linkTo('client', { id: id.value }))} title={id}>
          {id}
        </a>
      </div>
      <div role="gridcell" class="c-labels muted" title={labelled}>
        {labelled}
      </div>
      <div role="gridcell" class="c-state">
        <PolicyCell state={useText(policyStateOf)} />
      </div>
      <div role="gridcell" class="c-since muted" title={useText((row) => moment(sinceOf(row), now.value))}>
        {useText((row) => age(sinceOf(row), now.value))}
      </div>
      <DistanceCell name="c-held" distance={useDistance(item, heldText)} isCode />
      <DistanceCell name="c-data" distance={useDistance(item, dataText)} />
      <div role="gridcell" class="c-health">
        <HealthCell state={useText(({ health }) => health.state)} />
      </div>
      <div role="gridcell" class="c-engine muted" title={engine}>
        {engine}
      </div>
      <div role="gridcell" class="c-instance muted" title={instance}>
        {instance}
      </div>
      <div role="gridcell" class="c-error" title={useText(errorTitle)}>
        <code>{useText(placeText)}</code> <span class="muted">{useText(errorText)}</span>
      </div>
      <div role="gridcell" class="c-note muted" title={note}>
        {note}
      </div>
      <GroupCell item={item} context={context} />
    </div>
  );
}

function useDistance(item: ReadonlySignal<Item | undefined>, of: (row: FleetRow) => Distance) {
  const distance = useComputed(() => (item.value?.kind === 'row' ? of(item.value.row.value) : undefined));
  return {
    value: useComputed(() => distance.value?.value ?? ''),
    note: useComputed(() => distance.value?.note ?? ''),
    tone: useComputed(() => distance.value?.tone ?? 'muted'),
  };
}

interface DistanceCellProps {
  readonly name: string;
  readonly distance: ReturnType<typeof useDistance>;
  readonly isCode?: boolean;
}

function DistanceCell({ name, distance: { value, note, tone }, isCode = false }: DistanceCellProps) {
  const colour = useComputed(() => (value.value === DASH || (!isCode && note.value === '') ? 'muted' : ''));
  return (
    <div role="gridcell" class={name}>
      {isCode ? <code class={colour}>{value}</code> : <span class={colour}>{value}</span>}{' '}
      <span class={tone}>{note}</span>
    </div>
  );
}

function PolicyCell({ state }: { readonly state: ReadonlySignal<string> }) {
  return state.value === '' ? null : <PolicyState state={state.value} />;
}

function HealthCell({ state }: { readonly state: ReadonlySignal<string> }) {
  return state.value === '' ? null : <HealthState state={state.value} />;
}

/** What a line shows where a group begins. */
function GroupCell({
  item,
  context,
}: {
  readonly item: ReadonlySignal<Item | undefined>;
  readonly context: SlotContext;
}) {
  const shown = item.value;
  if (!context.isGrouped.value || shown?.kind !== 'group') return null;
  return (
    <div role="gridcell" class="c-group">
      <GroupHead grouping={shown.grouping} group={shown.group} head={context.head} />
    </div>
  );
}
