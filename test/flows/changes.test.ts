import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { type ChangesAnswer, changesAnswer } from '../../src/wire/fleet.js';
import { fleetPeer } from '../support/fleet-peer.js';
import { gitRepo } from '../support/git-repo.js';
import { field, postJson, request } from '../support/http.js';
import { following } from '../support/start-client.js';
import { startServer } from '../support/start-server.js';
import { tempDir } from '../support/temp-dir.js';
import { until } from '../support/until.js';

const WITHIN = { withinMs: 20_000 };

async function changes(url: string, query = ''): Promise<ChangesAnswer> {
  const { status, json, text } = await request(`${url}/changes${query}`);
  assert.equal(status, 200, text);
  return changesAnswer.parse(json);
}

/** All pages of a query, as ids. */
async function pages(url: string, query: string): Promise<string[][]> {
  const found: string[][] = [];
  for (let before = ''; ; ) {
    const page = await changes(url, `?${query}${before}`);
    found.push(page.changes.map(({ id }) => id));
    if (page.next === null) return found;
    assert(found.length < 20, 'the pages have no end');
    before = `&before=${encodeURIComponent(page.next)}`;
  }
}

async function publish(url: string, path: string, topic = 'policy_data'): Promise<string> {
  const entries = [{ url: '', topics: [topic], dst_path: path, data: 1 }];
  const answer = await postJson(`${url}/data/config`, { reason: `to ${path}`, entries });
  assert.equal(answer.status, 200, answer.text);
  return String(field(answer.json, 'seq'));
}

describe('GET /changes', () => {
  it('commits and updates, newest first, in pages, by kind, topic and path; also after a restart', async () => {
    await using repo = await gitRepo();
    await using dir = await tempDir();
    const heads = [await repo.commit({ 'a.rego': 'package a\n' })];
    const env = following(repo);
    let server = await startServer(env, { stateDir: dir.path });
    try {
      const served = async (hash: string | undefined) =>
        await until(async () => field((await request(`${server.url}/clients`)).json, 'policy_head') === hash, {
          ...WITHIN,
          what: 'the commit',
        });
      await served(heads[0]);
      const seqs = [
        await publish(server.url, '/users/bob'),
        await publish(server.url, '/users'),
        await publish(server.url, '/x', 't'),
      ];
      heads.push(await repo.commit({ 'a.rego': 'package a\n\nb := 1\n', 'c.rego': 'package c\n' }));
      await served(heads[1]);
      seqs.push(await publish(server.url, '/users/bob/role'));
      const all = [seqs[3], heads[1], seqs[2], seqs[1], seqs[0], heads[0]];

      await using peer = await fleetPeer(server.url, 'one');
      peer.holds(heads[1] ?? '', Number(seqs[3]));
      const first = await until(
        async () => {
          const answer = await changes(server.url);
          return answer.changes.find(({ id }) => id === heads[1])?.counts.applied === 1 && answer;
        },
        { ...WITHIN, what: 'the report' },
      );
      assert.deepEqual(
        first.changes.map(({ id }) => id),
        all,
      );
      assert.equal(first.next, null);
      const [update, commit] = first.changes;
      assert.deepEqual(
        [update?.title, update?.paths, update?.total, update?.counts],
        ['to /users/bob/role', ['/users/bob/role'], 1, { applied: 1 }],
      );
      assert.deepEqual([commit?.title, commit?.by, commit?.size, commit?.state], ['test', 'test', 2, 'served']);
      assert.equal(first.changes.at(-1)?.state, 'replaced');

      for (const limit of [1, 2, 3])
        assert.deepEqual((await pages(server.url, `limit=${limit}`)).flat(), all, `${limit}`);
      assert.deepEqual((await pages(server.url, 'kind=policy&limit=1')).flat(), [heads[1], heads[0]]);
      assert.deepEqual((await pages(server.url, 'kind=data&limit=2')).flat(), [seqs[3], seqs[2], seqs[1], seqs[0]]);
      assert.deepEqual(await pages(server.url, 'topic=t'), [[seqs[2]]]);
      assert.deepEqual((await pages(server.url, 'path=/users/bob&limit=1')).flat(), [seqs[3], seqs[1], seqs[0]]);
      assert.deepEqual(await pages(server.url, 'path=/users/ann'), [[seqs[1]]]);
      for (const wrong of ['before=x', 'before=1.2', 'limit=0', 'limit=101', 'kind=none', 'path=../x']) {
        assert.equal((await request(`${server.url}/changes?${wrong}`)).status, 422, wrong);
      }

      await server.stop();
      server = await startServer(env, { stateDir: dir.path });
      await served(heads[1]);
      const later = (await pages(server.url, 'limit=2')).flat();
      assert.deepEqual(later.toSorted(), all.toSorted());
      const again = (await changes(server.url)).changes.find(({ id }) => id === heads[0]);
      assert.deepEqual([again?.title, again?.state], ['test', 'replaced'], 'the log and the repository still know it');
    } finally {
      await server.stop();
    }
  });
});
