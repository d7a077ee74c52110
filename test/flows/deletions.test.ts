import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { PROTOCOL_HEADER, PROTOCOL_VERSION } from '../../src/wire/frames.js';
import { gitRepo } from '../support/git-repo.js';
import { field, postJson, request } from '../support/http.js';
import { startServer } from '../support/start-server.js';
import { until } from '../support/until.js';

const OURS = { [PROTOCOL_HEADER]: String(PROTOCOL_VERSION) };

async function publish(url: string, ...entries: object[]): Promise<unknown> {
  const filled = entries.map((entry) => ({ url: '', topics: ['policy_data'], ...entry }));
  const answer = await postJson(`${url}/data/config`, { entries: filled });
  assert.equal(answer.status, 200);
  return answer.json;
}

const put = (dst_path: string): object => ({ dst_path, data: { x: 1 } });
const remove = (dst_path: string): object => ({ dst_path, save_method: 'DELETE' });

/** Entries as `method path`, with what is said of a deletion. */
async function listed(url: string, headers: Record<string, string> = {}): Promise<string[]> {
  const { json } = await request(url, { headers });
  const updates = field(json, 'updates');
  const entries = Array.isArray(updates) ? updates.flatMap((one) => field(one, 'entries')) : field(json, 'entries');
  return (entries as { save_method: string; dst_path: string; only_removes?: boolean; data?: unknown }[]).map(
    ({ save_method: method, dst_path, only_removes: removes, data }) =>
      `${method} ${dst_path}${removes === true ? ' only' : ''}${method === 'PATCH' ? ` ${JSON.stringify(data)}` : ''}`,
  );
}

describe('what is left of a deletion', () => {
  it('is nothing for a newcomer where only updates had the document; OPAL clients hear of it for a time', async () => {
    await using server = await startServer();
    await publish(server.url, put('/a/b'));
    await publish(server.url, remove('/a/b'));
    await publish(server.url, put('/c'), remove('/c/x'));
    const left = ['PUT /c', 'DELETE /c/x only'];
    assert.deepEqual(await listed(`${server.url}/data/config`, OURS), left);
    assert.deepEqual(await listed(`${server.url}/data/updates`), left);
    assert.deepEqual(await listed(`${server.url}/data/updates?ended=true`), ['DELETE /a/b only', ...left]);
    const { epoch, head } = (await request(`${server.url}/data/updates?limit=1`)).json as Record<string, unknown>;
    assert.deepEqual(await listed(`${server.url}/data/updates?epoch=${epoch}&after=1`), ['DELETE /a/b only', ...left]);
    assert.equal(head, 3);
    assert.deepEqual(await listed(`${server.url}/data/config`), [
      'PATCH / [{"op":"remove","path":"/a"}]',
      'PUT /c',
      'PATCH /c [{"op":"remove","path":"/x"}]',
    ]);
    await publish(server.url, put('/a'));
    assert.deepEqual((await listed(`${server.url}/data/config`)).slice(-1), ['PUT /a']);
  });

  it('stays where it hides data of the commit, and where it is not known what there is', async () => {
    await using repo = await gitRepo();
    await repo.commit({ 'users/data.json': '{"a":1}', 'app/app.rego': 'package app' });
    await using server = await startServer({ SYNC_POLICY_REPO_URL: repo.url });
    const update = async (): Promise<unknown> => publish(server.url, remove('/users/a'), remove('/other'));
    await until(async () => (await request(`${server.url}/policy`)).status === 200, {
      withinMs: 30_000,
      what: 'the commit is served',
    });
    assert.deepEqual(field(await update(), 'hides'), ['/users']);
    assert.deepEqual(await listed(`${server.url}/data/config`, OURS), ['DELETE /users/a']);

    await using unknown = await startServer({
      SYNC_DATA_CONFIG_SOURCES: '{"external_source_url":"https://api.example/"}',
    });
    await publish(unknown.url, remove('/other'));
    assert.deepEqual(await listed(`${unknown.url}/data/updates`), ['DELETE /other']);
  });

  it('is told page by page of one fold', async () => {
    await using server = await startServer();
    for (const path of ['/a', '/b', '/c']) await publish(server.url, put(path));
    const first = (await request(`${server.url}/data/updates?limit=2`)).json;
    assert.deepEqual(
      [field(first, 'from'), field(first, 'more'), field(first, 'updates', 1, 'seq')],
      ['fold', true, 2],
    );
    await publish(server.url, remove('/b'));
    const next = `${server.url}/data/updates?epoch=${field(first, 'epoch')}&after=2`;
    assert.deepEqual(await listed(`${next}&from=fold`), ['PUT /c']);
    assert.deepEqual(await listed(next), ['PUT /c', 'DELETE /b only'], 'as a position');
    assert.equal((await request(`${next}&from=tail`)).status, 422);
  });
});
