import { type CallerBudgets, createCallerBudgets } from '../http/caller-budgets.js';
import { Budget, type BudgetState, boundsOf } from '../lib/run/budget.js';
import type { ServerOptions } from './options.js';

/** What callers may have at a time, each and all together; `list` shows it to people. */
export interface ServerBudgets extends CallerBudgets {
  readonly sockets: Budget;
  /** Subscriptions to topics, beyond the first ones of each connection. */
  readonly topics: Budget;
  list(): readonly NamedBudget[];
}

/** One budget as it is now. */
export interface NamedBudget extends BudgetState {
  readonly of: string;
}

/** A fleet may share one token and one address; others still find a socket. */
const PARTS_OF_FLEET = { subject: 15 / 16, address: 31 / 32 };

/** The budgets of a server. */
export function createServerBudgets({
  responseBytes,
  requestBytes: bodyBytes,
  scansAtOnce: scans,
  maxConnections,
  maxSubscriptions,
}: ServerOptions): ServerBudgets {
  const callers = createCallerBudgets(
    { responseBytes, bodyBytes, scans },
    { responseBytes: 'SYNC_RESPONSE_BYTES', bodyBytes: 'SYNC_REQUEST_BYTES', scans: 'SYNC_SCANS_AT_ONCE' },
  );
  const sockets = new Budget(boundsOf(maxConnections, PARTS_OF_FLEET), {
    what: 'sockets',
    setting: 'SYNC_MAX_CONNECTIONS',
  });
  const topics = new Budget(boundsOf(maxSubscriptions), {
    what: 'subscriptions to topics',
    setting: 'SYNC_MAX_SUBSCRIPTIONS',
  });
  const all = { ...callers, sockets, topics };
  return { ...all, list: () => Object.entries(all).map(([of, { state }]) => ({ of, ...state })) };
}
