import { type DocPath, parseDocPath } from '../../wire/doc-path.js';
import type { Status } from '../status/status.js';
import type { TransactionResult } from '../status/transactions.js';

/** Where the engine has the health document (specification "Health document"). */
const SYNC_PATH = parseDocPath('system/sync');
/** Where OPAL has it (opal-protocol P6.4). */
const OPAL_PATH = parseDocPath('system/opal');

/**
 * The places of the health document by the value of SYNC_ENGINE_HEALTH_CHECK_POLICY_ENABLED; none
 * where it is off.
 */
export function healthPaths(enabled: boolean | 'opal'): readonly DocPath[] {
  if (enabled === false) return [];
  return enabled === 'opal' ? [SYNC_PATH, OPAL_PATH] : [SYNC_PATH];
}

/**
 * The health document for a status: what rules of applications read as `data.system.sync`. It
 * always has the same shape, so that no query is undefined.
 */
export function healthDocument(status: Status) {
  const { policy, data } = status.transactions;
  return {
    ready: status.ready,
    healthy: status.healthy,
    last_policy_transaction: transaction(policy.last),
    last_data_transaction: transaction(data.last),
    // Beyond the specification, by OPAL's names.
    last_failed_policy_transaction: transaction(policy.lastFailed),
    last_failed_data_transaction: transaction(data.lastFailed),
    transaction_policy_statistics: { ...policy.counts },
    transaction_data_statistics: { ...data.counts },
  };
}

/** Of a transaction that never was, everything is empty. */
function transaction({ actions, error, id, success }: TransactionResult = NONE) {
  return { actions, error, id, success };
}

const NONE: TransactionResult = { actions: [], error: '', id: '', success: false, atMs: 0 };
