import assert from 'node:assert/strict';
import { it } from 'node:test';
import { gitRepo } from '../support/git-repo.js';
import { postJson, request } from '../support/http.js';
import { publish, startClient } from '../support/start-client.js';
import { startServer } from '../support/start-server.js';
import { until } from '../support/until.js';

/** The samples of a text for Prometheus, by name with labels. Fails where a line is none. */
function samples(text: string): Map<string, number> {
  const found = new Map<string, number>();
  const typed = new Set<string>();
  for (const line of text.split('\n')) {
    const type = /^# TYPE (\S+) (counter|gauge|histogram|summary)$/.exec(line);
    if (type !== null) typed.add(type[1] ?? '');
    if (line === '' || line.startsWith('#')) continue;
    const sample =
      /^([a-zA-Z_:][\w:]*)(\{(?:[a-zA-Z_]\w*="(?:[^"\\\n]|\\.)*",?)*\})? (-?[\d.e+-]+|NaN|Nan|[+-]?Inf)$/.exec(line);
    assert(sample !== null, `no sample: ${line}`);
    const name = sample[1] ?? '';
    assert(typed.has(name) || typed.has(name.replace(/_(bucket|sum|count)$/, '')), `${name} has no type`);
    found.set(`${name}${sample[2] ?? ''}`, Number(sample[3]));
  }
  return found;
}

async function read(url: string): Promise<Map<string, number>> {
  const { status, headers, text } = await request(`${url}/metrics`);
  assert.equal(status, 200, text);
  assert.match(headers.get('content-type') ?? '', /^text\/plain; version=0\.0\.4/);
  return samples(text);
}

it('the figures of server and client follow what happens', async () => {
  await using repo = await gitRepo();
  await repo.commit({ 'a.rego': 'package a\n\nx := 1\n' });
  await using server = await startServer({ SYNC_POLICY_REPO_URL: repo.url });
  await using client = await startClient({ serverUrl: server.url });
  await client.answers('/a/x', undefined, 1);
  await publish(server.url, { dst_path: '/users', data: 1 });
  await client.holds('/users', 1);
  await client.healthy();
  const refused = await request(`${server.url}/data/config`, { method: 'POST', body: '{}' });
  assert(refused.status >= 400);

  const latency = 'policysync_apply_latency_seconds_count';
  const ofServer = await until(
    async () => {
      const now = await read(server.url);
      return (now.get(latency) ?? 0) >= 1 && now.get('policysync_client_lag_updates') === 0 && now;
    },
    { withinMs: 20_000, what: 'the client reported that it has applied all' },
  );
  for (const [name, least] of Object.entries({
    'policysync_publish_total{outcome="ok"}': 1,
    policysync_publish_duration_seconds_count: 1,
    policysync_delivery_duration_seconds_count: 1,
    policysync_deliveries_total: 1,
    'policysync_source_fetch_duration_seconds_count{outcome="ok"}': 1,
    'policysync_bundle_duration_seconds_count{outcome="ok"}': 1,
    policysync_connections_opened_total: 1,
    policysync_connections: 1,
    'policysync_clients{state="connected"}': 1,
    policysync_log_head: 1,
    policysync_policy_source_up: 1,
    process_resident_memory_bytes: 1_000_000,
  })) {
    assert((ofServer.get(name) ?? -1) >= least, `${name} is ${ofServer.get(name)}`);
  }
  for (const name of ['policysync_send_queue_bytes{of="all"}', 'policysync_client_lag_updates'])
    assert.equal(ofServer.get(name), 0, name);

  const ofClient = await read(client.url);
  for (const [name, least] of Object.entries({
    policysync_ready: 1,
    policysync_healthy: 1,
    policysync_engine_up: 1,
    policysync_connected: 1,
    policysync_connections_total: 1,
    policysync_applied_through: 1,
    'policysync_transactions_total{kind="data",outcome="ok"}': 1,
    'policysync_bundle_fetch_duration_seconds_count{outcome="ok"}': 1,
    'policysync_engine_write_duration_seconds_count{kind="data",outcome="ok"}': 1,
    'policysync_engine_write_duration_seconds_count{kind="policy",outcome="ok"}': 1,
  })) {
    assert((ofClient.get(name) ?? -1) >= least, `${name} is ${ofClient.get(name)}`);
  }
  assert.equal(ofClient.get('policysync_failing_entries'), 0);

  await publish(server.url, { dst_path: '/users', data: 2 });
  await until(async () => ((await read(server.url)).get(latency) ?? 0) > (ofServer.get(latency) ?? 0), {
    withinMs: 20_000,
    what: 'the latency of another update',
  });

  // A commit is announced as an update is: once on our topics, once on OPAL's, which nobody has here.
  const delivered = ['policysync_deliveries_total', 'policysync_delivery_duration_seconds_count'] as const;
  const before = await read(server.url);
  await repo.commit({ 'a.rego': 'package a\n\nx := 2\n' });
  assert.equal((await postJson(`${server.url}/policy/refresh`, {})).status, 200);
  await client.answers('/a/x', undefined, 2);
  const after = await read(server.url);
  assert.deepEqual(
    delivered.map((name) => (after.get(name) ?? 0) - (before.get(name) ?? 0)),
    [1, 2],
  );
});
