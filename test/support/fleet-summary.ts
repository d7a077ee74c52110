import type { FleetSummary } from '../../src/wire/fleet.js';

/** What a test sets of a summary of the fleet. */
export interface SummarySetting extends Partial<Omit<FleetSummary, 'policy' | 'data'>> {
  policy?: Partial<FleetSummary['policy']>;
  data?: Partial<FleetSummary['data']>;
}

/** A summary of three clients that hold everything, but for what is set; `total` follows from the counts of policy. */
export function fleetSummary({ policy, data, ...rest }: SummarySetting = {}): FleetSummary {
  const whole = { head: '5b1f0c2a9d', counts: { acknowledged: 3 }, ...policy };
  return {
    total: Object.values(whole.counts).reduce((sum, clients) => sum + clients, 0),
    health: { healthy: 3 },
    needing: 0,
    under_way: null,
    incomplete: null,
    limited: false,
    ...rest,
    policy: whole,
    data: { head: 4812, counts: { at_head: 3 }, slowest_behind: 0, at_least: false, ...data },
  };
}
