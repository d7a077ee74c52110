import { firstOf } from '../../../lib/run/async.js';
import { errorFinding, type Finding, failedFinding } from '../../kit/findings.js';

/** One check of `doctor`, independent of the others. */
export interface Check {
  /** Names its findings. */
  readonly id: string;
  readonly subject: string;
  /** What to do if there is no result in time. */
  readonly remedy: string;
  /** Rejects with what is wrong; the remedy is then that of the error's code. */
  run(signal: AbortSignal): Promise<readonly Finding[]>;
}

/**
 * Runs checks at the same time, each within the limit. Returns their findings in the order of the
 * checks.
 */
export async function runChecks(checks: readonly Check[], limitMs: number): Promise<Finding[]> {
  return (await Promise.all(checks.map((check) => runCheck(check, limitMs)))).flat();
}

async function runCheck(check: Check, limitMs: number): Promise<readonly Finding[]> {
  const { id, subject, remedy } = check;
  const stop = new AbortController();
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<readonly Finding[]>((resolve) => {
    timer = setTimeout(() => {
      resolve([errorFinding(id, subject, `no result within ${limitMs / 1000} s`, remedy)]);
    }, limitMs);
  });
  try {
    return await firstOf([check.run(stop.signal), late]);
  } catch (error) {
    return [failedFinding(id, subject, error)];
  } finally {
    clearTimeout(timer);
    stop.abort(); // ends what a late check still does
  }
}
