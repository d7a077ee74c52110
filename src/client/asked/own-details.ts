import { type Logger, logLevelsOf } from '../../lib/log.js';
import { packageVersion } from '../../lib/version.js';
import { answerText, MAX_ORPHANED } from '../../wire/client-ask.js';
import type { ClientDetails } from '../../wire/client-details.js';
import { docPathText } from '../../wire/doc-path.js';
import type { DriftCheck } from '../drift/drift-check.js';
import type { RunningEngine } from '../engine/running-engine.js';
import type { DataUpdater } from '../reconcile/data-updater.js';
import type { RecentTransactions } from '../status/recent-transactions.js';

/** The parts that the details are read from. */
export interface OwnDetailsDeps {
  readonly startedMs: number;
  readonly data: Pick<DataUpdater, 'orphans'>;
  readonly engine: Pick<RunningEngine, 'rego'>;
  /** Undefined where it is off. */
  readonly drift: Pick<DriftCheck, 'state'> | undefined;
  readonly recent: Pick<RecentTransactions, 'list'>;
  readonly log: Logger;
}

/** What this client tells of itself when it is asked, beyond its reports. */
export function ownDetails({ startedMs, data, engine, drift, recent, log }: OwnDetailsDeps): ClientDetails {
  const { orphans } = data;
  const state = drift?.state;
  return {
    now: Date.now(),
    version: packageVersion(),
    log_level: logLevelsOf(log)?.view().level ?? 'of the program that runs it',
    started_at: startedMs,
    orphaned: orphans.slice(0, MAX_ORPHANED).map(({ path, origin }) => ({
      path: answerText(docPathText(path)),
      reason:
        origin === 'base'
          ? 'the data configuration does not list it any more'
          : 'it is of an update log that is not followed any more',
      since: null,
    })),
    orphaned_total: orphans.length,
    transactions: recent.list(),
    rego: engine.rego() ?? null,
    drift:
      state === undefined
        ? null
        : { checked_at: state.checkedMs ?? null, repaired: state.repaired, error: state.error ?? null },
  };
}
