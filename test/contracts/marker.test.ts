import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Seal } from '../../src/client/engine/engine.js';
import { MARKER_PATH, Marker } from '../../src/client/engine/marker.js';
import { OpaRest } from '../../src/client/engine/opa/opa-rest.js';
import { engineWrites, isOfMarker } from '../support/engine-writes.js';
import { field } from '../support/http.js';
import { startOpa } from '../support/opa.js';

/** The marker against a real OPA. */

const SEAL: Seal = { backup: 'b1', epoch: 'e', seq: 7 };
const never = new AbortController().signal;

/** A life of a client: its marker in the engine, filled. */
async function life(url: string, doubtMs = 0): Promise<{ marker: Marker; rest: OpaRest } & AsyncDisposable> {
  const rest = new OpaRest({ url, timeoutMs: 5000 });
  const marker = new Marker(rest, { doubtMs });
  return { marker, rest, [Symbol.asyncDispose]: () => rest.close() };
}

async function filled(marker: Marker): Promise<void> {
  await marker.begin(never);
  await marker.complete(never);
}

async function sealOf(rest: OpaRest): Promise<unknown> {
  return field(JSON.parse((await rest.getData(MARKER_PATH, never)) ?? 'null'), 'backup');
}

test('a seal is broken before the next write, and not set when something was written since', async () => {
  await using opa = await startOpa();
  await using one = await life(opa.url);
  await filled(one.marker);
  assert(await one.marker.isThere(never));
  const { writes } = one.marker;
  await one.marker.changes(never);
  assert.equal(await one.marker.seal(SEAL, writes, never), false);
  assert.equal(await one.marker.seal(SEAL, one.marker.writes, never), true);
  assert.equal(await sealOf(one.rest), 'b1');
  const sealed = await one.rest.getData(MARKER_PATH, never);
  assert.equal(await one.marker.seal(SEAL, one.marker.writes, never), true);
  assert.equal(await one.rest.getData(MARKER_PATH, never), sealed, 'it is set already');
  assert(await one.marker.isThere(never));
  await one.marker.changes(never);
  assert.equal(await sealOf(one.rest), undefined);
  assert(await one.marker.isThere(never));
});

test('only the very same seal is claimed, once, and it stays', async () => {
  await using opa = await startOpa();
  await using one = await life(opa.url);
  await using two = await life(opa.url);
  await using three = await life(opa.url);
  assert.equal(await two.marker.claim(SEAL, never), false, 'there is nothing');
  await filled(one.marker);
  assert.equal(await two.marker.claim(SEAL, never), false, 'there is no seal');
  await one.marker.seal(SEAL, one.marker.writes, never);
  for (const other of [{ backup: 'b2' }, { epoch: 'f' }, { epoch: null }, { seq: 8 }]) {
    assert.equal(await two.marker.claim({ ...SEAL, ...other }, never), false);
  }
  assert.equal(await two.marker.claim(SEAL, never), true);
  assert.deepEqual([await one.marker.isThere(never), await two.marker.isThere(never)], [false, true]);
  assert.equal(await three.marker.claim(SEAL, never), true, 'a third life goes on from there');
  await assert.rejects(one.marker.changes(never), { code: 'engine_unreachable' }, 'the first is told before it writes');
  await three.marker.changes(never);
  assert.equal(await one.marker.claim(SEAL, never), false, 'it is broken');
});

test('a seal that takes effect after its time was up never stands beside a later write', async () => {
  await using opa = await startOpa();
  await using proxy = await engineWrites(opa.url);
  await using one = await life(proxy.url);
  await filled(one.marker);
  const held = proxy.keep(isOfMarker);
  await assert.rejects(one.marker.seal(SEAL, one.marker.writes, AbortSignal.timeout(200)));
  assert.equal(held.kept.length, 1);
  proxy.keep(() => false);
  await one.marker.changes(never);
  assert.deepEqual(await held.letThrough(), [404], 'it comes too late');
  assert.equal(await sealOf(one.rest), undefined);
  assert(await one.marker.isThere(never));
});

test('a seal that took effect without an answer is broken all the same', async () => {
  await using opa = await startOpa();
  await using proxy = await engineWrites(opa.url);
  await using one = await life(proxy.url);
  await filled(one.marker);
  const held = proxy.keep(isOfMarker);
  await assert.rejects(one.marker.seal(SEAL, one.marker.writes, AbortSignal.timeout(200)));
  assert.deepEqual(await held.letThrough(), [204]);
  assert.equal(await sealOf(one.rest), 'b1');
  await one.marker.changes(never);
  assert.equal(await sealOf(one.rest), undefined);
});

test('an engine is not sealed while a write of unknown outcome may still come in', async () => {
  await using opa = await startOpa();
  await using one = await life(opa.url, 60_000);
  await filled(one.marker);
  assert.equal(await one.marker.seal(SEAL, one.marker.writes, never), true, 'a new engine has nothing on its way');
  one.marker.inDoubt();
  assert.equal(await one.marker.seal(SEAL, one.marker.writes, never), false);
  await using two = await life(opa.url, 60_000);
  await filled(two.marker);
  assert.equal(await two.marker.seal(SEAL, two.marker.writes, never), false, 'somebody else may have been writing');
});

test('a mark that another client has set meanwhile is not replaced', async () => {
  await using opa = await startOpa();
  await using one = await life(opa.url);
  await using two = await life(opa.url);
  await one.marker.begin(never);
  await two.marker.begin(never);
  await assert.rejects(one.marker.complete(never), { code: 'engine_unreachable' });
  await two.marker.complete(never);
  assert(await two.marker.isThere(never));
  assert.equal(await one.marker.seal(SEAL, one.marker.writes, never), false);
});
