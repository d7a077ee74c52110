import assert from 'node:assert/strict';
import { it } from 'node:test';
import { clientKey, type KnownClient, newClient } from '../clients/known-client.js';
import { InstanceMemory, type OtherInstances, type ReadText } from './other-instances.js';
import type { InstanceView } from './presence-text.js';

const TTL_MS = 100_000;

function client(clientId: string, more: Partial<KnownClient> = {}): KnownClient {
  const identity = { kind: more.kind ?? 'session', subject: null, clientId } as const;
  const peer = { host: 'h', port: 1, topics: ['t'], connectedAtMs: 5 };
  const about = { instance: more.instance ?? 'two', claimedMs: 0, spans: [{ from: 0, until: null }] };
  return { ...newClient(identity, peer, about), ...more, key: clientKey(identity) };
}

/** A memory that is told what there is to read at a time, by a clock of the test. */
class World {
  readonly memory = new InstanceMemory(TTL_MS);
  readonly said = new Map<string, { view: InstanceView | undefined; atMs: number; ttlMs: number }>();

  says(
    instance: string,
    atMs: number,
    clients: readonly KnownClient[] | undefined,
    more: Partial<InstanceView> = {},
  ): void {
    const view = clients && { instance, atMs: 0, seen: 9, clients, ttlMs: TTL_MS, ...more };
    this.said.set(instance, { view, atMs, ttlMs: view?.ttlMs ?? 10_000 });
  }

  look(nowMs: number, own: readonly KnownClient[] = []): OtherInstances {
    const texts = new Map<string, ReadText>();
    for (const [instance, { view, atMs, ttlMs }] of this.said) {
      const leftMs = atMs + ttlMs - nowMs;
      if (leftMs > 0) texts.set(instance, { text: `${instance} ${atMs}`, leftMs, view });
    }
    return this.memory.take(texts, () => own, nowMs);
  }

  states(nowMs: number, own?: readonly KnownClient[]): string {
    return this.look(nowMs, own)
      .instances.map(({ instance, state }) => `${instance} ${state}`)
      .join();
  }
}

it('clients are the same objects as long as they count alike, so that rows of them are made once', () => {
  const world = new World();
  world.says('two', 0, [client('a'), client('b', { awaySinceMs: 3 }), client('opal', { kind: 'plain' })]);
  const heard = world.look(1000).instances[0]?.clients;
  assert.equal(world.look(6000).instances[0]?.clients, heard);
  const left = world.look(8000).instances[0]?.clients;
  assert.equal(world.look(50_000).instances[0]?.clients, left);
  const shown = (clients: readonly KnownClient[] | undefined) =>
    clients?.map(({ clientId, awaySinceMs, spans }) => [clientId, awaySinceMs !== null, spans[0]?.until]);
  assert.deepEqual(shown(left), [
    ['a', true, 9],
    ['b', true, null],
    ['opal', false, null],
  ]);
  world.says('two', 50_000, [], { hasEnded: true });
  assert.deepEqual([world.states(50_100), world.look(50_100).views], ['two ended', []]);
});

it('ages are those of the store, also of an older version, which keeps what it says for ten seconds', () => {
  const world = new World();
  world.says('old', 0, [client('a')], { ttlMs: undefined });
  assert.deepEqual([world.states(6900), world.states(7100)], ['old live', 'old silent']);
  // Its announcement has expired, and it has not said that it ended.
  assert.equal(world.states(20_000), 'old silent');
  assert.equal(world.states(TTL_MS + 1), '', 'remembered for so long');
});

it('an instance is gone once all that were connected to it are newer elsewhere, and back when it is heard', () => {
  const world = new World();
  world.says('two', 0, [client('a', { openedAtMs: 10 }), client('b', { openedAtMs: 10 })]);
  const here = (id: string, more: Partial<KnownClient>): KnownClient => client(id, { instance: 'own', ...more });
  const older = [here('a', { openedAtMs: 5, awaySinceMs: 1e15 }), here('b', { openedAtMs: 11 })];
  assert.equal(world.states(8000, older), 'two silent', 'a was here before it went there');
  const newer = [here('a', { openedAtMs: 12, awaySinceMs: 1 }), here('b', { openedAtMs: 11 })];
  assert.equal(world.states(8000, newer), 'two gone', 'a came here since, and left again');
  world.says('two', 9000, [client('c')]);
  assert.equal(world.states(9100, newer), 'two live');
});

it('what cannot be read is said as long as it is there', () => {
  const world = new World();
  world.says('new', 0, undefined);
  const { instances, views } = world.look(100);
  assert.match(instances[0]?.why ?? '', /^what server instance new says cannot be read/);
  assert.deepEqual([instances[0]?.clients, views], [[], []]);
  assert.equal(world.states(10_001), '');
});
