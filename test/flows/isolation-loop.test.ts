import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { type LoopDelay, type ServerProgram, serverProgram } from '../support/frozen-process.js';
import { postJson, request } from '../support/http.js';
import { type StartedPeer, startPeer } from '../support/start-peer.js';
import { together } from '../support/together.js';

const MIB = 1024 * 1024;
const SUBSCRIBERS = 10;
/** CPU time of one turn of the event loop, which does not depend on what else the machine does. */
const LONGEST_CPU_MS = 500;

/** Bodies of the largest updates that somebody may have in mind, by name. */
const UPDATES: Record<string, () => string> = {
  '10,000 entries by URL': () => updateOf(10_000, (index) => ({ url: `http://127.0.0.1:9/doc/${index}` })),
  '10,000 entries inline': () => updateOf(10_000, (index) => ({ url: '', data: { index, name: `user ${index}` } })),
  'one document of 16 MiB': () => updateOf(1, () => ({ url: '', data: documentOf(16 * MIB) })),
  'one text of 16 MiB': () => updateOf(1, () => ({ url: '', data: 'x'.repeat(16 * MIB) })),
};

function updateOf(count: number, entryOf: (index: number) => object): string {
  const entries = Array.from({ length: count }, (_, index) => ({
    topics: ['policy_data'],
    dst_path: `/users/${index}`,
    ...entryOf(index),
  }));
  return JSON.stringify({ entries, reason: 'large' });
}

/** Many small members, as real data has them. */
function documentOf(bytes: number): object {
  const member = { role: 'viewer', active: true, groups: ['a', 'b'], level: 12 };
  const count = Math.floor(bytes / (JSON.stringify(member).length + 18));
  return Object.fromEntries(Array.from({ length: count }, (_, index) => [`user-${1_000_000 + index}`, member]));
}

function shown({ maxMs, maxCpuMs, usedCpuMs }: LoopDelay): string {
  return `stood still for ${maxMs} ms at most, worked for ${maxCpuMs} ms of it (${usedCpuMs} ms in all)`;
}

describe('a server that takes a large update goes on answering: how long its event loop stands still', () => {
  let server: ServerProgram;
  const peers = together<StartedPeer>();
  before(async () => {
    server = await serverProgram({
      SYNC_BODY_LIMIT_BYTES: String(64 * MIB),
      SYNC_INLINE_DATA_LIMIT_BYTES: String(64 * MIB),
      SYNC_SUBSCRIBER_BUFFER_BYTES: String(64 * MIB),
    });
    for (let index = 0; index < SUBSCRIBERS; index++) {
      const headers = index % 2 === 0 ? { 'x-sync-protocol': '2' } : {};
      const peer = peers.add(await startPeer(server.url, headers));
      await peer.call('subscribe', { topics: ['policy_data'] });
      peer.socket.removeAllListeners('message'); // to parse it all would take this process longer than the server
    }
    await postJson(
      `${server.url}/data/config`,
      updateOf(1, () => ({ url: '', data: 1 })),
    );
    await request(`${server.url}/data/config`);
  });
  after(async () => {
    await peers[Symbol.asyncDispose]();
    await server?.[Symbol.asyncDispose]();
  });

  for (const [name, body] of Object.entries(UPDATES)) {
    it(name, async (t) => {
      const text = body();
      await server.loopDelay(); // what came before is not of interest
      const idle = await server.loopDelay();
      const answer = await postJson(`${server.url}/data/config`, text);
      assert.equal(answer.status, 200, answer.text);
      const published = await server.loopDelay();
      const config = await request(`${server.url}/data/config`);
      assert.equal(config.status, 200);
      const read = await server.loopDelay();
      await request(`${server.url}/data/config`, { headers: { 'x-sync-protocol': '2' } });
      const readExtended = await server.loopDelay();
      t.diagnostic(`${name}: body of ${(text.length / MIB).toFixed(1)} MiB, ${SUBSCRIBERS} subscribers`);
      t.diagnostic(`  before: ${shown(idle)}`);
      t.diagnostic(`  publishing: ${shown(published)}`);
      t.diagnostic(`  first GET /data/config after it: ${shown(read)}`);
      t.diagnostic(`  the same in our form: ${shown(readExtended)}`);
      for (const { maxCpuMs } of [published, read, readExtended]) assert(maxCpuMs < LONGEST_CPU_MS, `${maxCpuMs} ms`);
    });
  }
});
