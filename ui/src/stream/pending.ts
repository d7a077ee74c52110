import type { FleetChange, FleetDelta, FleetRow, FleetSnapshot } from '../../../src/wire/fleet.js';

/** What has arrived and is not drawn yet: however much that is, it has each client and change once. */
export interface Pending {
  /** Replaces everything before it. */
  readonly snapshot: FleetSnapshot | undefined;
  readonly delta: Omit<FleetDelta, 'clients' | 'gone' | 'changes'>;
  readonly clients: ReadonlyMap<string, FleetRow>;
  readonly gone: ReadonlySet<string>;
  readonly changes: ReadonlyMap<string, FleetChange>;
}

/** A snapshot makes all that came before it void. */
export function pendingSnapshot(snapshot: FleetSnapshot): Pending {
  return { snapshot, delta: { at: snapshot.at }, clients: new Map(), gone: new Set(), changes: new Map() };
}

/** Adds a delta to what is pending: the later of two reports of one client or change counts. */
export function addDelta(pending: Pending | undefined, added: FleetDelta): Pending {
  const { clients = [], gone = [], changes = [], ...rest } = added;
  const next = {
    clients: new Map(pending?.clients),
    gone: new Set(pending?.gone),
    changes: new Map(pending?.changes),
  };
  for (const id of gone) {
    next.clients.delete(id);
    next.gone.add(id);
  }
  for (const row of clients) {
    next.gone.delete(row.id);
    next.clients.set(row.id, row);
  }
  for (const change of changes) next.changes.set(changeKey(change), change);
  return { snapshot: pending?.snapshot, delta: { ...pending?.delta, ...rest }, ...next };
}

/** Policy commits and data updates have names of their own kinds. */
export function changeKey(change: FleetChange): string {
  return `${change.kind}:${change.id}`;
}

/** How many changes are kept. */
const CHANGES_KEPT = 50;

/** The newest changes, newest first, each once. */
export function newestChanges(
  known: readonly FleetChange[],
  changed: ReadonlyMap<string, FleetChange>,
): readonly FleetChange[] {
  if (changed.size === 0) return known;
  const all = new Map([...known.map((change) => [changeKey(change), change] as const), ...changed]);
  return [...all.values()].sort(newerFirst).slice(0, CHANGES_KEPT);
}

function newerFirst(a: FleetChange, b: FleetChange): number {
  if (a.at !== b.at) return b.at - a.at;
  return a.kind === 'data' && b.kind === 'data' ? Number(b.id) - Number(a.id) : 0;
}
