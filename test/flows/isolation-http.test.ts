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
/** What a silent caller has: long enough for all to come, and for the others to be served. */
const READER_TIMEOUT_MS = 3000;

/** Length that an answer announced, with its headers. */
function announced({ head }: FrozenReader): number {
  const length = /content-length: (\d+)/i.exec(head)?.[1];
  return head.indexOf('\r\n\r\n') + 4 + Number(length);
}

describe('callers of large answers', { concurrency: true }, () => {
  let repo: GitRepo;
  let server: ServerProgram;
  before(async () => {
    repo = await gitRepo();
    const pad = 'x'.repeat(LARGE_BYTES);
    await repo.commit({ 'a.rego': 'package a\n', 'big/data.json': JSON.stringify({ pad }) });
    server = await serverProgram({
      SYNC_POLICY_REPO_URL: repo.url,
      SYNC_READER_TIMEOUT: String(READER_TIMEOUT_MS / 1000),
    });
    for (let part = 0; part < 4; part++) {
      await publish(server.url, { dst_path: `/part/${part}`, data: 'y'.repeat(LARGE_BYTES / 4) });
    }
    const isThere = async (): Promise<boolean> => (await request(`${server.url}/policy`)).status === 200;
    await until(isThere, { withinMs: 15_000, what: 'policy is there' });
  });
  after(async () => {
    await server?.[Symbol.asyncDispose]();
    await repo?.[Symbol.asyncDispose]();
  });

  it('callers that do not read their answers hold up nobody, cost no copy each, and are cut off', async (t) => {
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
      const small = await Promise.all([request(`${server.url}/healthcheck`), request(`${server.url}/policy?path=big`)]);
      assert.deepEqual(
        small.map(({ status }) => status),
        [200, 200],
      );
      served += (await request(configUrl)).text.length;
      await publish(server.url, { dst_path: `/round/${round}`, data: round });
      if (round === 0) assert.deepEqual(linesThatSay(server.log(), CUT), [], 'the stuck ones are all there');
    }
    await peer.notified(3);
    assert(served > 3 * LARGE_BYTES);
    for (const reader of readers) assert(reader.takenBytes < announced(reader), 'it reads no more');

    await until(() => linesThatSay(server.log(), CUT).length === readers.length, {
      withinMs: 15_000,
      what: `all ${readers.length} are cut off`,
    });
    for (const reader of readers) assert((await reader.rest()) < announced(reader), 'its answer is not whole');
    assert.equal((await request(configUrl)).status, 200);
    t.diagnostic(
      `20 stuck readers of ${LARGE_BYTES / MIB} MiB: the server grew by ${Math.round(grownBytes / MIB)} MiB`,
    );
    assert(grownBytes < 8 * LARGE_BYTES, `the server grew by ${grownBytes} bytes`);
  });

  it('a caller that reads slowly, and goes on reading, gets its whole answer', async () => {
    await using reader = await frozenReader(`${server.url}/data/config`);
    const startedAt = performance.now();
    const bytes = await reader.rest({ everyMs: 250, chunkBytes: MIB });
    assert.equal(bytes, announced(reader));
    assert(performance.now() - startedAt > READER_TIMEOUT_MS, 'it took longer than a silent caller has');
  });
});

describe('callers that take their time', () => {
  let server: ServerProgram;
  before(async () => {
    server = await serverProgram({ SYNC_READER_TIMEOUT: '0.1' });
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
    for (let number = 1; number <= 50; number++) {
      assert.equal(await publish(server.url, { dst_path: `/fast/${number}`, data: number }), number);
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
    for (let round = 0; round < 2; round++) {
      const answer = await postJson(`${server.url}/data/config?wait=applied&timeout=500ms`, update);
      assert.equal(answer.status, 202);
    }
  });
});
