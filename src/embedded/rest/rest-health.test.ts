import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { EngineQuestion } from '../vocabulary.js';
import { RestHealth } from './rest-api.js';

function health(isReady: boolean, text?: string): { health: RestHealth; asked: EngineQuestion[] } {
  const asked: EngineQuestion[] = [];
  const decide = async (question: EngineQuestion) => {
    asked.push(question);
    return { text, by: 'go' as const, policy: undefined };
  };
  return { health: new RestHealth({ isReady: () => isReady, source: { decide } }), asked };
}

test('healthy while it runs; with bundles or plugins once it holds a policy', () => {
  const ready = health(true).health;
  const empty = health(false).health;
  for (const query of ['', 'bundles', 'bundle=true', 'plugins', 'x'])
    assert.equal(ready.simple(query).status, 200, query);
  for (const query of ['', 'bundles=false', 'plugins&exclude-plugin=bundle', 'bundles=&bundles='])
    assert.equal(empty.simple(query).status, 200, query);
  for (const query of ['bundles', 'bundle', 'bundles=TRUE', 'plugins'])
    assert.equal(empty.simple(query).status, 500, query);
  assert.equal(empty.simple('bundles').body, '{"error":"one or more bundles are not activated"}\n');
});

test('a health policy is asked with the state of the bundle', async () => {
  const { health: one, asked } = health(true, 'true');
  assert.equal((await one.ofPolicy('/live/now'))?.status, 200);
  assert.deepEqual(asked, [
    { path: 'system/health/live/now', input: '{"plugin_state":{"bundle":"OK"},"plugins_ready":true}' },
  ]);
  assert.equal(
    (await health(true).health.ofPolicy('/live'))?.body,
    '{"error":"health check (data.system.health.live) was undefined"}\n',
  );
  assert.equal(
    (await health(false, '1').health.ofPolicy('/live'))?.body,
    '{"error":"health check (data.system.health.live) returned unexpected value"}\n',
  );
  for (const path of ['/', '/a/', '/a-b', '/1', '/%61']) assert.equal(await one.ofPolicy(path), undefined, path);
});
