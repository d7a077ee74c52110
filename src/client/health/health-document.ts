import { type DocPath, parseDocPath } from '../../wire/doc-path.js';
import type { Status } from '../status/status.js';
import type { TransactionResult } from '../status/transactions.js';

/** Where the engine has the health document (specification "Health document"). */
const SYNC_PATH = parseDocPath('system/sync');
/** Where OPAL has it (opal-protocol P6.4). */
const OPAL_PATH = parseDocPath('system/opal');

/** One transaction as the health document has it: the members of specification "Health document" and no others. */
interface HealthTransaction {
  readonly actions: readonly string[];
  /** Empty when there was none, and in the place of a transaction that never was. */
  readonly error: string;
  readonly id: string;
  readonly success: boolean;
}

/** What the rules of applications read: `data.system.sync`. */
export interface HealthDocument {
  readonly ready: boolean;
  readonly healthy: boolean;
  readonly last_policy_transaction: HealthTransaction;
  readonly last_data_transaction: HealthTransaction;
  // Beyond the specification, by OPAL's names.
  readonly last_failed_policy_transaction: HealthTransaction;
  readonly last_failed_data_transaction: HealthTransaction;
  readonly transaction_policy_statistics: { readonly successful: number; readonly failed: number };
  readonly transaction_data_statistics: { readonly successful: number; readonly failed: number };
}

const NONE: HealthTransaction = { actions: [], error: '', id: '', success: false };

/** The places of the health document by the value of SYNC_ENGINE_HEALTH_CHECK_POLICY_ENABLED; none where it is off. */
export function healthPaths(enabled: boolean | 'opal'): readonly DocPath[] {
  if (enabled === false) return [];
  return enabled === 'opal' ? [SYNC_PATH, OPAL_PATH] : [SYNC_PATH];
}

/**
 * The health document for a status. Every member is there from the first moment on, so that no query is undefined; what
 * changes in a value of one member never changes the document's shape.
 */
export function healthDocument(status: Status): HealthDocument {
  const { policy, data } = status.transactions;
  return {
    ready: status.ready,
    healthy: status.healthy,
    last_policy_transaction: transaction(policy.last),
    last_data_transaction: transaction(data.last),
    last_failed_policy_transaction: transaction(policy.lastFailed),
    last_failed_data_transaction: transaction(data.lastFailed),
    transaction_policy_statistics: { ...policy.counts },
    transaction_data_statistics: { ...data.counts },
  };
}

function transaction(last: TransactionResult | undefined): HealthTransaction {
  if (last === undefined) return NONE;
  const { actions, error, id, success } = last;
  return { actions, error, id, success };
}
