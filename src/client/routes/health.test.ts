import assert from 'node:assert/strict';
import { test } from 'node:test';
import { DataStory } from '../../../test/support/data-story.js';
import { createHttpApp } from '../../http/app.js';
import { Drain } from '../../http/drain.js';
import { silentLogger } from '../../lib/observe/log.js';
import { Status } from '../status/status.js';
import { clientHealthRoutes, type HealthRoutesDeps } from './health.js';

function appOf(status: Status, drain = new Drain()): ReturnType<typeof createHttpApp> {
  const deps: HealthRoutesDeps = {
    status,
    policy: { isWaiting: false, hash: 'c1' },
    data: { logPosition: undefined, orphans: [], awaitingPolicy: [] },
    drift: { state: { checkedMs: 0, documents: 1, repaired: 0, error: undefined } },
    follower: { server: { connected: true, error: undefined, code: undefined, connections: 1, sinceMs: 0 } },
    engine: {
      kind: 'inline',
      engine: { policyMode: 'bundle' },
      access: 'token',
      version: () => '1.0.0',
      rego: () => undefined,
      getting: () => undefined,
    },
    offline: { view: { disabled: false, offlineMode: false, backup: undefined } },
    reporter: {
      details: { enabled: false, registered: 0, queued: 0, delivered: 0, failed: 0, dropped: 0, last_error: null },
    },
    healthWriter: undefined,
    drain,
  };
  const app = createHttpApp({ bodyLimitBytes: 1024 }, { log: silentLogger() });
  clientHealthRoutes(app, deps);
  return app;
}

test('what fails is listed to a bound, each with its kind and since when; all are counted', async () => {
  const status = new Status({ policyEnabled: true, dataEnabled: true }, () => undefined);
  const story = new DataStory();
  story.events.subscribe(status.onData);
  const entries = Array.from({ length: 300 }, (_, at) => story.entry(`${at}`));
  story.update('u', ...entries);
  for (const entry of entries) story.settle(entry, { kind: 'fetching', error: 'E'.repeat(5000) });
  const answer = await appOf(status).inject({ method: 'GET', url: '/healthy' });
  assert.equal(answer.statusCode, 503);
  const { data } = answer.json<{ data: { failing: Record<string, string>[]; failing_total: number } }>();
  assert.deepEqual([data.failing.length, data.failing_total], [50, 300]);
  const [first] = data.failing;
  assert.deepEqual(Object.keys(first ?? {}).sort(), ['error', 'kind', 'path', 'since']);
  assert.deepEqual([first?.path, first?.kind, first?.error?.length], ['/p/0', 'source', 500]);
  assert(answer.body.length < 60_000, `${answer.body.length} bytes`);
});

test('every name is in snake_case and every time is written alike', async () => {
  const status = new Status({ policyEnabled: true, dataEnabled: true }, () => undefined);
  status.policyResult('c1', '');
  status.policyResult('c2', 'a.rego:3: it does not compile', { file: 'a.rego', row: 3 });
  const story = new DataStory();
  story.events.subscribe(status.onData);
  const entry = story.entry('x');
  story.update('u', entry);
  story.settle(entry, { kind: 'fetching', error: 'no answer' });
  const answer = (await appOf(status).inject({ method: 'GET', url: '/healthy' })).json<{ policy: object }>();
  const names: string[] = [];
  const times: unknown[] = [];
  const walk = (value: unknown): void => {
    if (typeof value !== 'object' || value === null) return;
    for (const [name, inner] of Object.entries(value)) {
      if (!Array.isArray(value)) names.push(name);
      if (/^(at|since|.*_at)$/.test(name) && inner !== null) times.push(inner);
      walk(inner);
    }
  };
  walk(answer);
  assert.deepEqual(
    names.filter((name) => !/^[a-z]+(_[a-z]+)*$/.test(name)),
    [],
  );
  assert(times.length >= 6, `${times.length} times`);
  for (const time of times) assert.match(String(time), /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
  assert.deepEqual(
    { ...answer.policy, since: undefined, last_transaction: undefined },
    {
      hash: 'c1',
      wanted: 'c2',
      error: { message: 'a.rego:3: it does not compile', file: 'a.rego', line: 3 },
      since: undefined,
      last_transaction: undefined,
    },
  );
});

test('a client that drains is not ready, says so, and ends the connections of its callers', async () => {
  const status = new Status({ policyEnabled: false, dataEnabled: false }, () => undefined);
  const drain = new Drain();
  const app = appOf(status, drain);
  await app.listen({ host: '127.0.0.1', port: 0 });
  const address = app.server.address();
  assert(typeof address === 'object' && address !== null);
  const ask = async (): Promise<unknown[]> => {
    const answer = await fetch(`http://127.0.0.1:${address.port}/ready`);
    const { status, draining } = (await answer.json()) as { status: string; draining?: boolean };
    return [answer.status, answer.headers.get('connection'), status, draining];
  };
  try {
    assert.deepEqual(await ask(), [200, 'keep-alive', 'ok', undefined]);
    await drain.begin(app.server, 0, new AbortController().signal);
    assert.deepEqual(await ask(), [503, 'close', 'unavailable', true]);
  } finally {
    await app.close();
  }
});
