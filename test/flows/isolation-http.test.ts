import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { linesThatSay, type ServerProgram, serverProgram } from '../support/frozen-process.js';
import { type FrozenReader, frozenReader } from '../support/frozen-reader.js';
import { type GitRepo, gitRepo } from '../support/git-repo.js';
import { field, postJson, request } from '../support/http.js';
import { publish } from '../support/start-client.js';
import { startPeer } from '../support/start-peer.js';
import { together } from '../support/together.js';
import { type TrickleRequest, trickleRequest } from '../support/trickle-request.js';
import { until } from '../support/until.js';

const MIB = 1024 * 1024;
const CUT = 'a caller that read nothing of its response is disconnected';
/** More than the kernel keeps for a connection that nobody reads (tcp_wmem and tcp_rmem: 4 and 6 MiB). */
const LARGE_BYTES = 16 * MIB;

/** What a silent caller has where it is to be cut off. */
const READER_TIMEOUT_MS = 1000;

/** Length that an answer announced, with its headers. */
function announced({ head }: FrozenReader): number {
  const length = /content-length: (\d+)/i.exec(head)?.[1];
  return head.indexOf('\r\n\r\n') + 4 + Number(length);
}

/** Documents of {@link LARGE_BYTES} in all. */
async function publishLarge(serverUrl: string): Promise<void> {
  for (let part = 0; part < 4; part++) {
    await publish(serverUrl, { dst_path: `/part/${part}`, data: 'y'.repeat(LARGE_BYTES / 4) });
  }
}

async function servesPolicy(serverUrl: string): Promise<void> {
  const isThere = async (): Promise<boolean> => (await request(`${serverUrl}/policy`)).status === 200;
  await until(isThere, { withinMs: 15_000, what: 'policy is there' });
}

describe('callers that take their time', () => {
  let repo: GitRepo;
  before(async () => {
    repo = await gitRepo();
    const pad = 'x'.repeat(LARGE_BYTES);
    await repo.commit({ 'a.rego': 'package a\n', 'big/data.json': JSON.stringify({ pad }) });
  });
  after(() => repo?.[Symbol.asyncDispose]());

  it('callers that do not read their answers hold up nobody, and cost no copy each', async (t) => {
    await using server = await serverProgram({ SYNC_POLICY_REPO_URL: repo.url, SYNC_READER_TIMEOUT: '120' });
    await publishLarge(server.url);
    await servesPolicy(server.url);
    const policyUrl = `${server.url}/policy`;
    const configUrl = `${server.url}/data/config`;
    assert((await request(configUrl)).text.length > LARGE_BYTES);
    await using peer = await startPeer(server.url);
    await peer.call('subscribe', { topics: ['policy_data'] });

    const restBytes = server.residentBytes();
    await using stuck = together<FrozenReader>();
    for (const url of [policyUrl, configUrl]) {
      for (let count = 0; count < 10; count++) stuck.add(await frozenReader(url));
    }
    const readers = stuck.all;
    const grownBytes = server.residentBytes() - restBytes;

    let served = 0;
    for (let round = 0; round < 3; round++) {
      const gzip = { headers: { 'accept-encoding': 'gzip' } };
      const small = await Promise.all([
        request(`${server.url}/healthcheck`),
        request(`${server.url}/policy?path=big`, gzip),
      ]);
      assert.deepEqual(
        small.map(({ status }) => status),
        [200, 200],
      );
      served += (await request(configUrl)).text.length;
      await publish(server.url, { dst_path: `/round/${round}`, data: round });
    }
    await peer.notified(3);
    assert(served > 3 * LARGE_BYTES);
    assert.deepEqual(linesThatSay(server.log(), CUT), [], 'the stuck ones are all there');
    for (const reader of readers) assert(!reader.ended && reader.takenBytes < announced(reader), 'it reads no more');
    t.diagnostic(
      `20 stuck readers of ${LARGE_BYTES / MIB} MiB: the server grew by ${Math.round(grownBytes / MIB)} MiB`,
    );
    assert(grownBytes < 8 * LARGE_BYTES, `the server grew by ${grownBytes} bytes`);
  });

  describe('a server with little time for callers', () => {
    let server: ServerProgram;
    before(async () => {
      server = await serverProgram({
        SYNC_POLICY_REPO_URL: repo.url,
        SYNC_READER_TIMEOUT: String(READER_TIMEOUT_MS / 1000),
      });
    });
    after(async () => {
      await server?.[Symbol.asyncDispose]();
    });

    it('publishers that send their bodies a byte at a time hold up no other, and are heard when they are done', async () => {
      await using peer = await startPeer(server.url);
      await peer.call('subscribe', { topics: ['policy_data'] });
      const bodyOf = (number: number): string =>
        JSON.stringify({ entries: [{ url: '', topics: ['policy_data'], dst_path: `/slow/${number}`, data: number }] });
      await using stuck = together<TrickleRequest>();
      for (let number = 0; number < 20; number++) {
        stuck.add(await trickleRequest(`${server.url}/data/config`, bodyOf(number), 50));
      }
      const slow = stuck.all;
      await until(() => slow.every(({ sentBytes }) => sentBytes > 5), { withinMs: 20_000, what: 'all have begun' });
      let last = 0;
      for (let number = 1; number <= 50; number++) {
        const seq = await publish(server.url, { dst_path: `/fast/${number}`, data: number });
        assert(seq > last, `${seq} after ${last}`);
        last = seq;
      }
      await peer.notified(50);
      assert.equal((await request(`${server.url}/healthcheck`)).status, 200);
      assert.deepEqual(
        slow.map(({ isOpen }) => isOpen),
        slow.map(() => true),
        'they are all still sending',
      );
      const answers = await Promise.all(slow.map((one) => one.finish()));
      for (const answer of answers) assert.match(answer, /^HTTP\/1\.1 200 /);
      await peer.notified(70);
    });

    it('a connection that is kept is not cut off while it is idle, or waits for its answer', async () => {
      await using peer = await startPeer(server.url, { 'x-sync-protocol': '2' });
      const opened = await peer.call('subscribe', { topics: ['policy_data'], client_id: 'silent' });
      assert.equal(field(opened, 'accepted'), true);
      const update = { entries: [{ url: '', topics: ['policy_data'], dst_path: '/a', data: 1 }], reason: '' };
      for (const timeout of ['1500ms', '100ms']) {
        const answer = await postJson(`${server.url}/data/config?wait=applied&timeout=${timeout}`, update);
        assert.equal(answer.status, 202);
      }
    });

    it('callers that do not read their answers are cut off, and one that reads slowly gets its whole answer', async () => {
      await publishLarge(server.url);
      await servesPolicy(server.url);
      const configUrl = `${server.url}/data/config`;
      await using slow = await frozenReader(configUrl);
      const startedAt = performance.now();
      const slowBytes = slow.rest({ everyMs: 150, chunkBytes: MIB });
      await using stuck = together<FrozenReader>();
      for (const url of [`${server.url}/policy`, configUrl]) {
        for (let count = 0; count < 2; count++) stuck.add(await frozenReader(url));
      }
      const readers = stuck.all;
      await until(() => linesThatSay(server.log(), CUT).length === readers.length, {
        withinMs: 15_000,
        what: `all ${readers.length} are cut off`,
      });
      for (const reader of readers) assert((await reader.rest()) < announced(reader), 'its answer is not whole');
      assert.equal(await slowBytes, announced(slow));
      assert(performance.now() - startedAt > 2 * READER_TIMEOUT_MS, 'it took longer than a silent caller has');
      assert.equal(linesThatSay(server.log(), CUT).length, readers.length, 'nobody else is cut off');
      assert.equal((await request(configUrl)).status, 200);
    });
  });
});
