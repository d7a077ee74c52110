import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { EmbeddedOpa } from '../../src/embedded/embedded-opa.js';
import type { EmbeddedPolicy } from '../../src/embedded/types.js';
import { SyncError } from '../../src/lib/errors.js';
import { startEmbeddedOpa } from '../support/embedded-opa.js';
import { until } from '../support/until.js';

/** An embedded OPA with its real threads: what one of them does must not be told from what the other does. */

const WITHIN = { withinMs: 60_000 };
/** Takes minutes for a list of thousands. */
const SLOW = 'slow := count([1 | some a in data.list; some b in data.list; some c in data.list; a + b == c])';
const REGO = `package app

import rego.v1

allow if data.users[input.user].admin
names := {name | some name, _ in data.users}
${SLOW}
`;
const POLICY: EmbeddedPolicy = { hash: 'one', modules: [{ path: 'app.rego', rego: REGO, version: 1 }] };
const LIST = JSON.stringify(Array.from({ length: 5000 }, (_, n) => n));
const ODD = '{"z":1.0,"a":[12345678901234567890,1e2,-0.50],"é<&>":"\\u2028\\"<x>","2":{},"10":null}';

async function compiled(opa: EmbeddedOpa, path: string, input?: string): Promise<void> {
  await until(async () => (await opa.decide({ path, input })).by === 'compiled', { ...WITHIN, what: 'it is compiled' });
}

test('a document reads the same from either thread, and a decision is the same by either', async () => {
  await using world = await startEmbeddedOpa();
  const { opa } = world;
  await opa.activate(POLICY, [['app']], []);
  await opa.write([
    { path: ['odd'], text: ODD },
    { path: ['users'], text: '{"eve":{"admin":true},"bob":{},"ann":{}}' },
  ]);
  const before = await opa.read(['odd']);
  const input = '{"user":"eve"}';
  const byGo = await Promise.all(['app/allow', 'app/names'].map((path) => opa.decide({ path, input })));
  assert.deepEqual(
    byGo.map(({ by, text }) => [by, text]),
    [
      ['go', 'true'],
      ['go', '["ann","bob","eve"]'],
    ],
  );
  await compiled(opa, 'app/allow', input);
  await compiled(opa, 'app/names', input);
  for (const [index, path] of ['app/allow', 'app/names'].entries()) {
    assert.deepEqual(await opa.decide({ path, input }), { ...byGo[index], by: 'compiled' });
  }
  assert.equal(await opa.read(['odd']), before);
  assert.deepEqual(opa.readsOf('app/allow'), [['users']]);
  await opa.write([{ path: ['users', 'eve', 'admin'], text: 'false' }]);
  assert.equal((await opa.decide({ path: 'app/allow', input })).text, undefined);
});

for (const by of ['go', 'compiled'] as const) {
  test(`a decision past its time limit ends its thread and gets an error, and others go on (${by})`, async () => {
    // Until the slow one is under way, nothing may be late on a busy machine.
    await using world = await startEmbeddedOpa({
      decisionMs: 3000,
      evaluatorMs: 3000,
      ...(by === 'compiled' ? { entrypoints: ['app/slow', 'app/allow'] } : { maxEntrypoints: 0 }),
    });
    const { opa } = world;
    await opa.activate(POLICY, [['app']], []);
    await opa.write([
      { path: ['list'], text: LIST },
      { path: ['users'], text: '{"eve":{"admin":true}}' },
    ]);
    const slow = opa.decide({ path: 'app/slow', input: undefined });
    const other = opa.decide({ path: 'app/allow', input: '{"user":"eve"}' });
    await assert.rejects(slow, (error: unknown) => error instanceof SyncError && error.code === 'decision_timeout');
    assert.deepEqual(await other, { text: 'true', by, policy: 'one' });
    const { go, evaluator, decisions } = opa.state;
    assert.deepEqual([go.failedEnds, evaluator.failedEnds], by === 'go' ? [1, 0] : [0, 1]);
    assert.equal(decisions.failed, 1);
  });
}

test('the compiler is unloaded when nothing needs it, and what it knows comes back', async () => {
  await using world = await startEmbeddedOpa({ idleMs: 1, entrypoints: ['app/allow'] });
  const { opa } = world;
  await opa.activate(POLICY, [['app']], []);
  await until(() => !opa.state.go.loaded, { ...WITHIN, what: 'it is unloaded' });
  await opa.write([{ path: ['users'], text: '{"eve":{"admin":true}}' }]);
  assert.deepEqual(await opa.decide({ path: 'app/allow', input: '{"user":"eve"}' }), {
    text: 'true',
    by: 'compiled',
    policy: 'one',
  });
  assert.equal((await opa.decide({ path: 'app', input: '{"user":"eve"}' })).by, 'go');
  const { status, body } = await opa.http({ method: 'GET', url: '/v1/data/users', headers: {}, body: undefined });
  assert.deepEqual([status, JSON.parse(Buffer.from(body).toString())], [200, { result: { eve: { admin: true } } }]);
  assert.equal(opa.state.go.failedEnds, 0);
});
