import type { FleetRow } from '../../src/wire/fleet.js';

/** What a test sets of a row of the fleet. */
export interface RowSetting extends Partial<Omit<FleetRow, 'policy' | 'data' | 'health' | 'error'>> {
  policy?: Partial<FleetRow['policy']>;
  data?: Partial<FleetRow['data']>;
  health?: Partial<FleetRow['health']>;
  error?: Partial<NonNullable<FleetRow['error']>> | null;
}

/** A row of a client that holds everything, but for what is set. */
export function fleetRow({ policy, data, health, error, ...rest }: RowSetting = {}): FleetRow {
  return {
    id: 'client-1',
    kind: 'session',
    connected: true,
    labels: {},
    address: '127.0.0.1:50001',
    instance: 'i1',
    topics: ['policy_data'],
    engine: 'opa 1.22.0',
    connected_at: 1000,
    away_since: null,
    reported_at: 5000,
    ...rest,
    policy: { state: 'acknowledged', held: 'bbbbbbb', behind: 0, since: 2000, error: null, ...policy },
    data: { state: 'at_head', at: 12, newest: 12, behind: 0, at_least: false, lag_seconds: null, ...data },
    health: { state: 'healthy', since: 1000, ...health },
    error: error ? { kind: 'source', place: '', text: '', since: null, ...error } : null,
  };
}
