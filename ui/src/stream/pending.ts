import type { FleetChange, FleetDelta, FleetRow, FleetSnapshot } from '../../../src/wire/fleet.js';

/**
 * What has arrived and is not drawn yet: however long that takes, it has each client that there is
 * once, of those that have gone the drawn ones, and no more changes than are kept.
 */
export interface Pending {
  /** Replaces everything before it. */
  readonly snapshot: FleetSnapshot | undefined;
  delta: Omit<FleetDelta, 'clients' | 'gone' | 'changes'>;
  /** With a snapshot all clients, else those that are different. */
  readonly clients: Map<string, FleetRow>;
  readonly gone: Set<string>;
  readonly changes: Map<string, FleetChange>;
}

/** A snapshot makes all that came before it void. */
export function pendingSnapshot(snapshot: FleetSnapshot): Pending {
  const clients = new Map(snapshot.clients.map((row) => [row.id, row]));
  return { snapshot, delta: { at: snapshot.at }, clients, gone: new Set(), changes: new Map() };
}

/** Nothing yet. */
export function nothingPending(): Pending {
  return { snapshot: undefined, delta: { at: 0 }, clients: new Map(), gone: new Set(), changes: new Map() };
}

/**
 * Adds a delta to what is pending: the later of two reports of one client or change counts.
 * `drawn`: the clients that are drawn.
 */
export function addDelta(pending: Pending, added: FleetDelta, drawn: Pick<ReadonlySet<string>, 'has'>): void {
  const { clients = [], gone = [], changes = [], ...rest } = added;
  for (const id of gone) {
    pending.clients.delete(id);
    if (drawn.has(id)) pending.gone.add(id);
  }
  for (const row of clients) {
    pending.gone.delete(row.id);
    pending.clients.set(row.id, row);
  }
  for (const change of changes) pending.changes.set(changeKey(change), change);
  const beyond = [...pending.changes.values()].sort(newerFirst).slice(CHANGES_KEPT);
  for (const change of beyond) pending.changes.delete(changeKey(change));
  pending.delta = { ...pending.delta, ...rest };
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
