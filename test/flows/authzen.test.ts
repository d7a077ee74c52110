import assert from 'node:assert/strict';
import { it } from 'node:test';
import { gitRepo } from '../support/git-repo.js';
import { field, postJson, request } from '../support/http.js';
import { startOpa } from '../support/opa.js';
import { following, publish, startClient } from '../support/start-client.js';
import { startServer } from '../support/start-server.js';

/** What a PEP learns where there is no answer, where the policy fails, and what follows data and policy. */

const POLICY = `package authzen

import rego.v1

default allow := false

allow if input.subject.id in data.members

reasons := {"decision": allow, "context": {"reason": reason, "limit": 1.50}}

reason := "member" if allow else := "no member"

twice := 1 if input.subject.id

twice := 2 if input.subject.id == "both"

broken := {"decision": twice == 1}
`;

const RULES = JSON.stringify([
  { action: 'explain', path: 'authzen/reasons' },
  { action: 'break', path: 'authzen/broken' },
  { action: 'count', path: 'authzen/twice' },
  { action: 'typo', path: 'authzen/alow' },
  { path: 'authzen/allow' },
]);

const asked = (name: string, id = 'ann'): object => ({
  subject: { type: 'user', id },
  action: { name },
  resource: { type: 'todo', id: '1' },
});

it('decisions follow policy and data, with what the policy says about them', async () => {
  await using repo = await gitRepo();
  await repo.commit({ 'authzen.rego': POLICY });
  await using server = await startServer(following(repo));
  await using client = await startClient({ serverUrl: server.url, env: { SYNC_AUTHZEN_DECISION: RULES } });
  await client.healthy();
  const post = (body: object, path = 'evaluation') => postJson(`${client.url}/access/v1/${path}`, body);

  assert.deepEqual((await post(asked('read'))).json, { decision: false });
  await publish(server.url, { dst_path: '/members', data: ['ann'] });
  await client.holds('/members', ['ann']);
  assert.deepEqual((await post(asked('read'))).json, { decision: true });
  const explained = await post(asked('explain'));
  assert.equal(explained.text, '{"decision":true,"context":{"limit":1.50,"reason":"member"}}');
  assert.deepEqual((await post(asked('typo'))).json, { decision: false });

  const failed = await post(asked('break', 'both'));
  assert.equal(failed.status, 500, failed.text);
  assert.equal(failed.headers.get('x-sync-error'), 'decision_failed');
  const number = await post(asked('count'));
  assert.equal(number.status, 500);
  assert.equal(number.headers.get('x-sync-error'), 'decision_result_invalid');
  const batch = await post(
    { evaluations: [asked('read'), asked('break', 'both'), asked('read', 'eve')] },
    'evaluations',
  );
  assert.equal(batch.status, 200, batch.text);
  const list = [0, 1, 2].map((index) => field(batch.json, 'evaluations', index));
  assert.deepEqual([list[0], list[2]], [{ decision: true }, { decision: false }]);
  assert.equal(field(list[1], 'decision'), false);
  assert.equal(field(list[1], 'context', 'error', 'status'), 500);

  await repo.commit({ 'authzen.rego': 'package authzen\n\nallow := input.action.name == "read"\n' });
  await client.answers('/authzen/allow', asked('read', 'eve'), true);
  assert.deepEqual((await post(asked('read', 'eve'))).json, { decision: true });
});

it('where there is no answer it is 503, never a decision', async () => {
  await using repo = await gitRepo();
  await repo.commit({ 'authzen.rego': 'package authzen\n\nallow := true\n' });
  await using server = await startServer(following(repo));
  await using opa = await startOpa();
  const env = { SYNC_AUTHZEN_DECISION: 'authzen/allow', SYNC_AUTHZEN_SEARCH_ACTION: 'authzen/actions' };
  await using early = await startClient({ serverUrl: 'http://127.0.0.1:9', env });
  await using client = await startClient({ serverUrl: server.url, engineUrl: opa.url, env });
  await client.healthy();
  const ask = (url: string) =>
    Promise.all([
      postJson(`${url}/access/v1/evaluation`, asked('read')),
      postJson(`${url}/access/v1/evaluations`, { ...asked('read'), evaluations: [{}, {}] }),
      postJson(`${url}/access/v1/search/action`, asked('read')),
    ]);
  assert.deepEqual(
    (await ask(client.url)).map(({ status }) => status),
    [200, 200, 200],
  );

  await opa.kill();
  for (const url of [early.url, client.url]) {
    for (const answer of await ask(url)) {
      assert.equal(answer.status, 503, answer.text);
      assert.notEqual(answer.headers.get('retry-after'), null);
      assert.equal(typeof field(answer.json, 'detail'), 'string');
      assert.equal(field(answer.json, 'decision'), undefined);
    }
  }
});

it('without a rule that decides nothing is there', async () => {
  await using server = await startServer();
  await using client = await startClient({ serverUrl: server.url });
  assert.equal((await postJson(`${client.url}/access/v1/evaluation`, asked('read'))).status, 404);
  assert.equal((await request(`${client.url}/.well-known/authzen-configuration`)).status, 404);
});
