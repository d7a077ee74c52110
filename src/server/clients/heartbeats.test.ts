import assert from 'node:assert/strict';
import { test } from 'node:test';
import { silentLogger } from '../../lib/observe/log.js';
import type { SessionPeer } from '../../pubsub/peer.js';
import { heartbeat } from '../../wire/session.js';
import { Heartbeats } from './heartbeats.js';
import type { CutOff } from './lease.js';

/** What a client of a server with so many clients is told. */
function told(peerCount: number, cutOff?: CutOff): unknown {
  const sent: unknown[] = [];
  const peer = {
    info: { topics: ['a'] },
    tell: (_method: string, beat: unknown) => void sent.push(beat),
  } as unknown as SessionPeer;
  const log = { epoch: 'e', head: 3, status: { up: true } as const, heads: () => ({ a: 3 }) };
  const registry = { peers: [peer], peerCount };
  const about = { policyHead: () => 'c1', otherName: () => undefined, logger: silentLogger() };
  new Heartbeats(1000, { registry, log, ...about, cutOff: () => cutOff }).tellHead(new Set());
  return sent[0];
}

test('a heartbeat of a server with many clients says over how long they should spread their return', () => {
  assert.deepEqual(heartbeat.parse(told(50)), { epoch: 'e', heads: { a: 3 }, policy_head: 'c1' });
  assert.equal(heartbeat.parse(told(1000)).return_ms, 2000);
  assert.equal(heartbeat.parse(told(1_000_000)).return_ms, 30_000);
});

test('a heartbeat of a server that is cut off from its backbone says for how long: clocks may differ', () => {
  assert.equal(heartbeat.parse(told(1, { sinceMs: 5, forMs: 8000 })).cut_off_ms, 8000);
});
