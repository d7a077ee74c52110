import assert from 'node:assert/strict';
import { it } from 'node:test';
import { until } from '../../../test/support/until.js';
import { silentLogger } from '../../lib/observe/log.js';
import { ChangeSteps } from './change-steps.js';
import { StateReporter } from './state-reporter.js';

it('a report that is refused is sent again soon, and one that is taken with the next heartbeat', async () => {
  const stop = new AbortController();
  const sentMs: number[] = [];
  const reporter = new StateReporter(
    { clientId: 'c', debounceMs: 0 },
    {
      state: () => ({
        position: { epoch: 'e', applied_through: 7, applied_beyond: [], unresolved: [] },
        policy_hash: null,
        ready: true,
        healthy: true,
        engine: { kind: 'none', version: null, online: true },
        failing: [],
        blocked: [],
        since: 1,
      }),
      steps: new ChangeSteps(),
      log: silentLogger(),
    },
  );
  // The instance has not read as much of the log as the client has, twice.
  const call = async (): Promise<boolean> => sentMs.push(performance.now()) > 2;
  reporter.follow({ signal: stop.signal, call }, 60_000);
  await until(() => sentMs.length === 3, { withinMs: 20_000, what: 'it is taken' });
  const [first = 0, second = 0] = sentMs;
  assert(second - first >= 900, `${second - first} ms`);
  reporter.changed();
  await until(() => sentMs.length === 4, { withinMs: 5000, what: 'a change is told at once' });
  stop.abort();
});
