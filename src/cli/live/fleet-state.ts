import * as z from 'zod';
import { MANY_JSON_VALUES, parseJson } from '../../lib/json/json.js';
import { type FleetRow, type FleetSnapshot, fleetDelta, fleetEnd, fleetSnapshot } from '../../wire/fleet.js';
import type { ServerEvent } from './event-reader.js';

/** The fleet as the stream has told it so far. */
export interface FleetState {
  readonly fleet: Omit<FleetSnapshot, 'clients' | 'changes'>;
  readonly rows: ReadonlyMap<string, FleetRow>;
}

/**
 * The fleet after an event. Undefined: nothing is known yet. Throws a ZodError for an event of
 * another shape.
 */
export function nextState(state: FleetState | undefined, { name, data }: ServerEvent): FleetState | undefined {
  if (name === 'snapshot') {
    const { clients, changes: _, ...fleet } = fleetSnapshot.parse(parseJson(data, { values: MANY_JSON_VALUES }));
    return { fleet, rows: new Map(clients.map((row) => [row.id, row])) };
  }
  if (name !== 'delta' || state === undefined) return state;
  const {
    clients = [],
    gone = [],
    changes: _,
    ...news
  } = fleetDelta.parse(parseJson(data, { values: MANY_JSON_VALUES }));
  const rows = new Map(state.rows);
  for (const row of clients) rows.set(row.id, row);
  for (const id of gone) rows.delete(id);
  const { head = state.fleet.head, summary = state.fleet.summary, instances = state.fleet.instances } = news;
  const source = news.source === undefined ? state.fleet.source : news.source;
  return { fleet: { ...state.fleet, at: news.at, head, summary, instances, source }, rows };
}

/** Why the server ends the stream; undefined: it does not. */
export function endOf({ name, data }: ServerEvent): string | undefined {
  return name === 'end'
    ? z.object(fleetEnd.shape).parse(parseJson(data, { values: MANY_JSON_VALUES })).reason
    : undefined;
}
