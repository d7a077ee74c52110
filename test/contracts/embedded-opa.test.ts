import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import type { EmbeddedOpa } from '../../src/embedded/embedded-opa.js';
import type { EmbeddedPolicy } from '../../src/embedded/types.js';
import { EngineRefusal } from '../../src/embedded/vocabulary.js';
import { SyncError } from '../../src/lib/errors.js';
import { MAX_JSON_DEPTH } from '../../src/lib/json/json-check.js';
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
admins := {name | some name, _ in data.users}
version := 1
${SLOW}
`;
const POLICY: EmbeddedPolicy = { hash: 'one', modules: [{ path: 'app.rego', rego: REGO, version: 1 }] };
const LIMIT_MS = 3000;
const LIST = JSON.stringify(Array.from({ length: 5000 }, (_, n) => n));
const ODD = '{"z":1.0,"a":[12345678901234567890,1e2,-0.50],"é<&>":"\\u2028\\"<x>","2":{},"10":null}';

async function compiled(opa: EmbeddedOpa, path: string, input?: string): Promise<void> {
  await until(async () => (await opa.decide({ path, input })).by === 'compiled', { ...WITHIN, what: 'it is compiled' });
}

/** One engine with one story: starts of the Go process are what it costs. */
describe('an embedded OPA', () => {
  let world: Awaited<ReturnType<typeof startEmbeddedOpa>>;
  let opa: EmbeddedOpa;
  before(async () => {
    // Until a slow decision is under way, nothing may be late on a busy machine.
    world = await startEmbeddedOpa({ decisionMs: LIMIT_MS, evaluatorMs: LIMIT_MS, idleMs: 1000 });
    opa = world.opa;
    await opa.activate(POLICY, [['app']], []);
  });
  after(() => world?.[Symbol.asyncDispose]());

  it('reads a document the same from either thread, and decides the same by either', async () => {
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

  it('ends the thread of a decision past its time limit, which gets an error, and others go on (go)', async () => {
    await opa.write([{ path: ['list'], text: LIST }]);
    await pastItsLimit({ path: 'app/admins', by: 'go' });
    assert.deepEqual(failedEnds(opa), [1, 0]);
    assert.equal(opa.state.decisions.failed, 1);
  });

  it('ends the thread of a decision past its time limit, which gets an error, and others go on (compiled)', async () => {
    await opa.write([{ path: ['list'], text: '[]' }]);
    await compiled(opa, 'app/slow');
    await opa.write([{ path: ['list'], text: LIST }]);
    await pastItsLimit({ path: 'app/names', by: 'compiled' });
    assert.deepEqual(failedEnds(opa), [1, 1]);
    assert.equal(opa.state.decisions.failed, 2);
  });

  it('unloads the compiler when nothing needs it, and what it knows comes back', async () => {
    await until(() => !opa.state.go.loaded, { ...WITHIN, what: 'it is unloaded' });
    const input = '{"user":"eve"}';
    await opa.write([{ path: ['users'], text: '{"eve":{"admin":true}}' }]);
    assert.deepEqual(await opa.decide({ path: 'app/allow', input }), { text: 'true', by: 'compiled', policy: 'one' });
    assert.equal((await opa.decide({ path: 'app/version', input })).by, 'go');
    const { status, body } = await opa.http({ method: 'GET', url: '/v1/data/users', headers: {}, body: undefined });
    assert.deepEqual([status, JSON.parse(Buffer.from(body).toString())], [200, { result: { eve: { admin: true } } }]);
    assert.deepEqual(failedEnds(opa), [1, 1]);
  });

  it('takes documents that are nested as deep as OPA reads, and comes back with them; deeper ones are refused', async () => {
    const nested = (levels: number): string => '['.repeat(levels) + ']'.repeat(levels);
    const path = ['very', 'deep'];
    const most = MAX_JSON_DEPTH - path.length;
    await opa.write([{ path, text: nested(most) }]);
    await assert.rejects(opa.write([{ path, text: nested(most + 1) }]), EngineRefusal);
    await until(() => !opa.state.go.loaded, { ...WITHIN, what: 'it is unloaded' });
    assert.equal((await opa.decide({ path: 'app/version', input: undefined })).by, 'go');
    assert.equal(await opa.read(path), `{"result":${nested(most)}}`);
    await opa.write([{ path: ['very'], text: undefined }]);
  });

  /** Asks for what never ends, and beside it for what does not take long. */
  async function pastItsLimit({ path, by }: { path: string; by: 'go' | 'compiled' }): Promise<void> {
    const slow = opa.decide({ path: 'app/slow', input: undefined });
    const other = opa.decide({ path, input: undefined });
    await assert.rejects(slow, (error: unknown) => error instanceof SyncError && error.code === 'decision_timeout');
    assert.deepEqual(await other, { text: '["ann","bob","eve"]', by, policy: 'one' });
  }
});

function failedEnds(opa: EmbeddedOpa): number[] {
  const { go, evaluator } = opa.state;
  return [go.failedEnds, evaluator.failedEnds];
}
