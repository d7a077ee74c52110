import type { FleetChange, FleetSnapshot } from '../../../src/wire/fleet.js';
import { fleetSummary } from '../../support/fleet-summary.js';

/** A snapshot without clients, but for what is set. */
export function fleetSnapshot(setting: Partial<FleetSnapshot> = {}): FleetSnapshot {
  return {
    ...{ at: 1, epoch: 'first', instance: 'i1', head: 12, summary: fleetSummary(), source: null },
    ...{ clients: [], changes: [], instances: [] },
    ...setting,
  };
}

/** A data update that nobody is concerned by, but for what is set. */
export function fleetChange(setting: Partial<FleetChange> = {}): FleetChange {
  return {
    ...{ kind: 'data', id: '1', update_id: null, title: '', by: null, at: 1, topics: [], size: 1, paths: [] },
    ...{ state: 'served', error: null, counts: {}, total: 0, convergence: null },
    ...setting,
  };
}
