import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { type DataSource, startDataSource } from '../support/data-source.js';
import { type GitRepo, gitRepo } from '../support/git-repo.js';
import { field, request } from '../support/http.js';
import { killProcess } from '../support/kill.js';
import { freePort, startOpa } from '../support/opa.js';
import { baseEntries, following, publish, startClient } from '../support/start-client.js';
import { type StartedServer, startServer } from '../support/start-server.js';
import { patience, until } from '../support/until.js';

/** Allows everybody who is on no list: one in a document of its own, one in its package, one committed. */
const RULES = `package app

default allow := false

allow if {
  not data.blocked[input.user]
  not data.app.revoked[input.user]
  not data.gone[input.user]
}
`;
const LONG = { SYNC_FIRST_POLICY_WAIT: '60' };

/** Asks an engine again and again, from before it is there. */
async function watched(url: string, path: string, input: unknown): Promise<AsyncDisposable & { answers: unknown[] }> {
  const stop = new AbortController();
  const answers: unknown[] = [];
  const init = { method: 'POST', body: JSON.stringify({ input }) };
  const done = (async () => {
    while (!stop.signal.aborted) {
      const answer = await request(`${url}/v1/data${path}`, init).catch(() => undefined);
      if (answer?.status === 200) answers.push(field(answer.json, 'result'));
      else await new Promise((resolve) => setTimeout(resolve, 5));
    }
  })();
  return {
    answers,
    [Symbol.asyncDispose]: async () => {
      stop.abort();
      await done;
    },
  };
}

describe('the first policy of a client', () => {
  let repo: GitRepo;
  let source: DataSource;
  let server: StartedServer;
  before(async () => {
    repo = await gitRepo();
    await repo.commit({ 'app/rules.rego': RULES, 'gone/data.json': '{"zoe":true}' });
    source = await startDataSource();
    server = await startServer({
      ...following(repo),
      ...baseEntries(
        { url: `${source.url}/blocked`, dst_path: '/blocked' },
        { url: `${source.url}/revoked`, dst_path: '/app/revoked' },
      ),
    });
    source.serve('/revoked', { bob: true });
  });
  after(async () => {
    for (const part of [server, source, repo]) await part[Symbol.asyncDispose]();
  });

  for (const engine of ['inline', 'embedded', 'external'] as const) {
    it(`decides with the documents of the first load, or not at all (${engine})`, async () => {
      let arrive = (): void => undefined;
      const arrived = new Promise<void>((resolve) => {
        arrive = resolve;
      });
      source.answer('/blocked', { text: '{"eve":true}', after: arrived });
      await using opa = engine === 'external' ? await startOpa() : undefined;
      const enginePort = await freePort();
      const url = opa?.url ?? `http://127.0.0.1:${enginePort}`;
      await using eve = await watched(url, '/app/allow', { user: 'eve' });
      await using bob = await watched(url, '/app/allow', { user: 'bob' });
      await using zoe = await watched(url, '/app/allow', { user: 'zoe' });
      await using client = await startClient({
        serverUrl: server.url,
        ...(opa === undefined ? { engine: engine as 'inline', enginePort } : { engineUrl: opa.url }),
        env: LONG,
      });
      const { json, status } = await client.tells(
        'the policy waits, and says for what',
        (health) => field(health, 'policy', 'awaiting_data', 'total') === 1,
      );
      assert.deepEqual(field(json, 'policy', 'awaiting_data', 'paths'), ['/blocked']);
      assert.deepEqual([status, field(json, 'policy', 'hash'), field(json, 'ready')], [503, null, false]);
      assert.deepEqual(
        [await client.query('/app/allow', { user: 'ann' }), await client.data('/blocked')],
        [undefined, undefined],
      );
      arrive();
      await client.healthy();
      await client.answers('/app/allow', { user: 'ann' }, true);
      for (const { answers } of [eve, bob, zoe]) {
        const decided = answers.length;
        await until(() => answers.length > decided + 1, { withinMs: 20_000, what: 'it is asked again' });
        assert.deepEqual([...new Set(answers)], [undefined, false]);
      }
      assert.equal(field((await client.health()).json, 'policy', 'awaiting_data'), undefined);
    });
  }

  it('decides with the documents as they are now, or not at all, after its engine was killed', async () => {
    source.serve('/blocked', { eve: true });
    await using client = await startClient({ serverUrl: server.url, env: LONG });
    await client.healthy();
    await publish(server.url, { dst_path: '/app/revoked', data: { bob: true, ivy: true } });
    await client.holds('/app/revoked', { bob: true, ivy: true });
    const url = client.engineUrl;
    await using eve = await watched(url, '/app/allow', { user: 'eve' });
    await using ivy = await watched(url, '/app/allow', { user: 'ivy' });
    for (let round = 1; round <= 3; round++) {
      const pid = client.enginePid();
      killProcess(pid);
      await until(() => client.enginePid() !== pid, { withinMs: 20_000, what: 'another engine' });
      for (const { answers } of [eve, ivy]) {
        const asked = answers.length;
        await until(() => answers.lastIndexOf(false) > asked, { withinMs: 20_000, what: 'it decides again' });
        assert(!answers.includes(true));
      }
    }
  });

  it('does not wait for ever for a source that is down: it is active, and the client not ready', async () => {
    source.answer('/blocked', { status: 503 });
    // Long enough for the other document.
    const env = { SYNC_FIRST_POLICY_WAIT: String(1 + patience()) };
    await using client = await startClient({ serverUrl: server.url, env });
    await client.answers('/app/allow', { user: 'eve' }, true);
    assert.equal(await client.query('/app/allow', { user: 'bob' }), false);
    assert.equal((await client.ready()).status, 503);
    const warned = client.log.filter(({ msg }) => msg.startsWith('the first policy becomes active without'));
    assert.deepEqual(
      warned.map(({ missing }) => missing),
      [['/blocked']],
    );
    source.serve('/blocked', { eve: true });
    await client.healthy();
    assert.equal(await client.query('/app/allow', { user: 'eve' }), false);
  });
});
