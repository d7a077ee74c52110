import { batch, type ReadonlySignal, type Signal, signal } from '@preact/signals';
import type {
  FleetChange,
  FleetDelta,
  FleetInstance,
  FleetRow,
  FleetSnapshot,
  FleetSummary,
} from '../../../src/wire/fleet.js';
import { addDelta, newestChanges, nothingPending, type Pending, pendingSnapshot } from './pending.js';

/**
 * The fleet as it is drawn. Each client is a signal of its own, so that a change of one draws one
 * row.
 */
export interface FleetStore {
  /** undefined: no snapshot has arrived yet. */
  readonly summary: ReadonlySignal<FleetSummary | undefined>;
  readonly source: ReadonlySignal<FleetSnapshot['source']>;
  /** The last seq of the update log. */
  readonly head: ReadonlySignal<number>;
  /** The epoch of the update log; empty before the first snapshot. */
  readonly epoch: ReadonlySignal<string>;
  /** Newest first, at most 50. */
  readonly changes: ReadonlySignal<readonly FleetChange[]>;
  readonly instances: ReadonlySignal<readonly FleetInstance[]>;
  /** Time of the last event by the clock of the server; 0: none. */
  readonly at: ReadonlySignal<number>;
  /** The clients by id. Read {@link listed} or {@link changed} beside it, to hear of changes. */
  readonly rows: ReadonlyMap<string, ReadonlySignal<FleetRow>>;
  /** Counts up when clients come or go. */
  readonly listed: ReadonlySignal<number>;
  /** Counts up when clients come or go, or any of them changes: at most 4 times a second. */
  readonly changed: ReadonlySignal<number>;
  /** The newest, drawn or not: for the title of a tab that is not seen. */
  readonly heard: ReadonlySignal<Heard>;
}

export interface Heard {
  readonly summary: FleetSummary | undefined;
  readonly source: FleetSnapshot['source'];
}

/** Before the first event. */
export const NOTHING_HEARD: Heard = { summary: undefined, source: null };

/** The store with what fills it. */
export interface FilledStore extends FleetStore {
  /** Takes what the stream tells; it is drawn with {@link draw}. */
  take(event: { snapshot: FleetSnapshot } | { delta: FleetDelta }): void;
  /** Brings all that was taken to the signals. */
  draw(): void;
  /** Forgets everything: another person may look now. */
  clear(): void;
}

export function createStore(): FilledStore {
  const summary = signal<FleetSummary | undefined>(undefined);
  const heard = signal(NOTHING_HEARD);
  const source = signal<FleetSnapshot['source']>(null);
  const head = signal(0);
  const epoch = signal('');
  const changes = signal<readonly FleetChange[]>([]);
  const instances = signal<readonly FleetInstance[]>([]);
  const at = signal(0);
  const rows = new Map<string, Signal<FleetRow>>();
  const listed = signal(0);
  const changed = signal(0);
  let pending: Pending | undefined;

  /** Returns what became different: nothing, a row, or which clients there are. */
  function setRow(row: FleetRow): 'nothing' | 'row' | 'list' {
    const known = rows.get(row.id);
    if (known === undefined) {
      rows.set(row.id, signal(row));
      return 'list';
    }
    if (isSame(known.peek(), row)) return 'nothing';
    known.value = row;
    return 'row';
  }

  function setRows({ snapshot, clients, gone }: Pending): void {
    const differences = new Set<'nothing' | 'row' | 'list'>();
    const left = snapshot === undefined ? gone : [...rows.keys()].filter((id) => !clients.has(id));
    for (const id of left) if (rows.delete(id)) differences.add('list');
    for (const row of clients.values()) differences.add(setRow(row));
    if (differences.has('list')) listed.value++;
    if (differences.has('list') || differences.has('row')) changed.value++;
  }

  function draw(): void {
    if (pending === undefined) return;
    const { snapshot, delta, changes: changedChanges } = pending;
    const drawn = pending;
    pending = undefined;
    batch(() => {
      const whole = snapshot === undefined ? delta : { ...snapshot, ...delta };
      if (snapshot !== undefined) {
        epoch.value = snapshot.epoch;
        changes.value = snapshot.changes;
      }
      at.value = whole.at;
      if (whole.head !== undefined) head.value = whole.head;
      if (whole.summary !== undefined) summary.value = whole.summary;
      if (whole.source !== undefined) source.value = whole.source;
      if (whole.instances !== undefined) instances.value = whole.instances;
      changes.value = newestChanges(changes.value, changedChanges);
      setRows(drawn);
    });
  }

  return {
    ...{ summary, heard, source, head, epoch, changes, instances, at, rows, listed, changed, draw },
    take(event) {
      if ('snapshot' in event) pending = pendingSnapshot(event.snapshot);
      else {
        pending ??= nothingPending();
        addDelta(pending, event.delta, rows);
      }
      const told = 'snapshot' in event ? event.snapshot : event.delta;
      const { summary = heard.peek().summary, source = heard.peek().source } = told;
      heard.value = { summary, source };
    },
    clear() {
      pending = undefined;
      batch(() => {
        rows.clear();
        heard.value = NOTHING_HEARD;
        summary.value = undefined;
        source.value = null;
        head.value = 0;
        epoch.value = '';
        changes.value = [];
        instances.value = [];
        at.value = 0;
        listed.value++;
        changed.value++;
      });
    },
  };
}

/** Rows are plain data with members in the order of the server: equal ones have equal text. */
function isSame(a: FleetRow, b: FleetRow): boolean {
  return JSON.stringify(a) === JSON.stringify(b);
}
