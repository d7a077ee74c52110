import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { field, request } from '../support/http.js';
import { killProcess } from '../support/kill.js';
import { freePort, startOpa, type TestOpa } from '../support/opa.js';
import { publish, type StartedClient, startClient } from '../support/start-client.js';
import { type StartedServer, startServer } from '../support/start-server.js';
import { until } from '../support/until.js';

const DATA_ONLY = { SYNC_POLICY_UPDATER_ENABLED: 'false' };

/** Between two looks: long beside what a busy machine adds. */
const INTERVAL_SECONDS = 3;
/** Interval, time-out of a look, and what a busy machine adds; less than until the look after that. */
const NEXT_LOOK_MS = 5000;

interface Probe {
  enabled?: boolean;
  intervalSeconds?: number;
  timeoutSeconds?: number;
}

function clientOf(server: StartedServer, opa: TestOpa | undefined, probe: Probe): Promise<StartedClient> {
  return startClient({
    serverUrl: server.url,
    ...(opa === undefined ? {} : { engineUrl: opa.url }),
    env: {
      ...DATA_ONLY,
      SYNC_ENGINE_HEALTH_CHECK_POLICY_ENABLED: 'true',
      SYNC_POLICY_STORE_TIMEOUT: '1',
      SYNC_POLICY_STORE_LIVENESS_PROBE_ENABLED: String(probe.enabled ?? true),
      SYNC_POLICY_STORE_LIVENESS_PROBE_INTERVAL_SECONDS: String(probe.intervalSeconds ?? 0.2),
      SYNC_POLICY_STORE_LIVENESS_PROBE_TIMEOUT_SECONDS: String(probe.timeoutSeconds ?? 0.2),
    },
  });
}

/** Stops a process without ending it: it holds its port and answers nobody. The disposal lets it go on. */
function freeze(pid: number): Disposable & { thaw(): void } {
  killProcess(pid, 'SIGSTOP');
  let isFrozen = true;
  const thaw = (): void => {
    if (isFrozen) killProcess(pid, 'SIGCONT');
    isFrozen = false;
  };
  return { thaw, [Symbol.dispose]: thaw };
}

async function unhealthy(client: StartedClient): Promise<void> {
  await client.tells('the engine is away', (health) => field(health, 'engine', 'online') === false);
  const answer = await client.health();
  assert.deepEqual([answer.status, field(answer.json, 'status')], [503, 'unavailable']);
}

// Each of them waits for a look, and for nothing else.
describe('within one interval', { concurrency: true }, () => {
  test('an external engine that is killed is told within one interval, and the same client recovers when it is back', async () => {
    await using server = await startServer();
    const port = await freePort();
    const first = await startOpa({ port });
    await using client = await clientOf(server, first, { intervalSeconds: INTERVAL_SECONDS, timeoutSeconds: 0.3 });
    await client.healthy();
    await publish(server.url, { dst_path: '/n', data: 1 });
    await client.holds('/n', 1);

    const killedMs = performance.now();
    await first.kill();
    await unhealthy(client);
    const tookMs = performance.now() - killedMs;
    assert(tookMs < NEXT_LOOK_MS, `told after ${tookMs} ms`);
    for (const path of ['/', '/healthy', '/healthcheck']) {
      assert.equal((await request(`${client.url}${path}`)).status, 503, path);
    }
    assert.equal((await client.ready()).status, 200, 'ready is about what was synced');

    await using second = await startOpa({ port });
    await client.healthy();
    await client.holds('/n', 1);
    await client.holds('/system/sync/healthy', true);
    assert.equal(second.url, client.engineUrl);
  });

  for (const kind of ['external', 'inline'] as const) {
    test(`an ${kind} engine that freezes is told within one interval, and is well again when it goes on`, async () => {
      await using server = await startServer();
      await using opa = kind === 'external' ? await startOpa() : undefined;
      await using client = await clientOf(server, opa, { intervalSeconds: INTERVAL_SECONDS, timeoutSeconds: 0.3 });
      await client.healthy();
      const frozenMs = performance.now();
      using frozen = freeze(opa?.pid ?? client.enginePid());
      await unhealthy(client);
      const tookMs = performance.now() - frozenMs;
      assert(tookMs < NEXT_LOOK_MS, `told after ${tookMs} ms`);
      // What comes meanwhile is not lost.
      await publish(server.url, { dst_path: '/n', data: 1 });
      frozen.thaw();
      await client.healthy();
      await client.holds('/n', 1);
      await client.holds('/system/sync/healthy', true);
    });
  }
});

test('the time-out setting decides how long a look may take', async () => {
  await using server = await startServer();
  await using quickOpa = await startOpa();
  await using patientOpa = await startOpa();
  await using quick = await clientOf(server, quickOpa, { timeoutSeconds: 0.2 });
  await using patient = await clientOf(server, patientOpa, { timeoutSeconds: 60 });
  await quick.healthy();
  await patient.healthy();
  using one = freeze(quickOpa.pid);
  using other = freeze(patientOpa.pid);
  await unhealthy(quick);
  assert.equal((await patient.health()).status, 200);
  one.thaw();
  other.thaw();
  await quick.healthy();
  await patient.healthy();
});

test('without the probe an engine that is away shows with the next write, and recovery needs no probe either', async () => {
  await using server = await startServer();
  await using probedOpa = await startOpa();
  await using trustedOpa = await startOpa();
  await using probed = await clientOf(server, probedOpa, {});
  await using trusting = await clientOf(server, trustedOpa, { enabled: false });
  await probed.healthy();
  await trusting.healthy();
  using one = freeze(probedOpa.pid);
  using other = freeze(trustedOpa.pid);
  await unhealthy(probed);
  assert.equal((await trusting.health()).status, 200);
  await publish(server.url, { dst_path: '/n', data: 1 });
  await unhealthy(trusting);
  one.thaw();
  other.thaw();
  await trusting.healthy();
  await trusting.holds('/n', 1);
  await probed.healthy();
});

test('an inline engine that is killed is back without waiting for a look', async () => {
  await using server = await startServer();
  // So long an interval that only the end of the process can tell.
  await using client = await clientOf(server, undefined, { intervalSeconds: 600 });
  await client.healthy();
  const pid = client.enginePid();
  killProcess(pid);
  await until(() => client.log.some(({ msg }) => msg === 'engine started' && client.enginePid() !== pid), {
    withinMs: 20_000,
    what: 'another engine',
  });
  await client.healthy();
  await client.holds('/system/sync/healthy', true);
});
