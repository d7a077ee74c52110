import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { type Cable, cutCable } from '../support/cut-cable.js';
import { type DataSource, startDataSource } from '../support/data-source.js';
import { type GitRepo, gitRepo } from '../support/git-repo.js';
import { field } from '../support/http.js';
import { killProcess } from '../support/kill.js';
import { freePort, startOpa, type TestOpa } from '../support/opa.js';
import { baseEntries, following, publish, type StartedClient, startClient } from '../support/start-client.js';
import { type StartedServer, startServer } from '../support/start-server.js';
import { until } from '../support/until.js';

const MODULES = {
  'app/rbac.rego': 'package app.rbac\n\nimport rego.v1\n\ndefault allow := false\n\nallow if data.base[input.user]\n',
  'app/data.json': '{"static":1}',
  'other/data.json': '{"static":2}',
};
const LARGE = { pad: 'x'.repeat(200_000) };

async function startSource(): Promise<DataSource> {
  const source = await startDataSource();
  source.serve('/base', { ann: true });
  source.serve('/update', { n: 1 });
  source.serve('/large', LARGE);
  return source;
}

function startFilledServer(repo: GitRepo, source: DataSource): Promise<StartedServer> {
  return startServer({ ...following(repo), ...baseEntries({ url: `${source.url}/base`, dst_path: '/base' }) });
}

/** Publishes one of each kind, and waits until the engine has it. */
async function fill(server: StartedServer, source: DataSource, client: StartedClient): Promise<void> {
  await client.healthy();
  await publish(server.url, { url: `${source.url}/update`, dst_path: '/update' });
  await publish(server.url, { url: `${source.url}/large`, dst_path: '/large' });
  await publish(server.url, { dst_path: '/update/patched', data: 2 }, { dst_path: '/app/rbac/dynamic', data: 3 });
  await publish(server.url, {
    dst_path: '/base',
    save_method: 'PATCH',
    data: [{ op: 'add', path: '/eve', value: true }],
  });
  await holdsAll(client);
}

const UPDATE = { n: 1, patched: 2 };
const BASE: Record<string, boolean> = { ann: true, eve: true };

async function holdsAll(client: StartedClient, update: object = UPDATE, base = BASE): Promise<void> {
  await client.holds('/large', LARGE);
  await client.holds('/update', update);
  await client.holds('/base', base);
  await client.holds('/other', { static: 2 });
  await client.holds('/app', { static: 1, rbac: { allow: false, dynamic: 3 } });
  await client.answers('/app/rbac/allow', { user: 'eve' }, true);
}

/** Changes what the sources of documents say without telling anybody, has the engine start anew, and sees what it holds then. */
async function seesSilentChanges(
  { client, server, source }: { client: StartedClient; server: StartedServer; source: DataSource },
  startAnew: () => Promise<void>,
): Promise<void> {
  source.serve('/once', { once: true });
  await publish(server.url, { url: `${source.url}/once`, dst_path: '/once' });
  await client.holds('/once', { once: true });
  const asked = ['/base', '/update', '/large'].map((path) => source.count(path));
  source.serve('/base', { ann: true, bob: true });
  source.serve('/update', { n: 2 });
  // Its address was good for one read.
  source.answer('/once', { status: 403, type: 'text/plain', text: 'no more' });

  await startAnew();
  await client.holds('/update', CHANGED.update);
  await client.holds('/base', CHANGED.base);
  await client.holds('/large', LARGE);
  await until(() => source.count('/once') >= 2, { withinMs: 20_000, what: 'the other update is asked for' });
  await client.holds('/once', { once: true });
  await client.healthy();
  assert.deepEqual(
    ['/base', '/update', '/large'].map((path, at) => source.count(path) - (asked[at] ?? 0)),
    [1, 1, 1],
  );
}

/** What the engine holds after {@link seesSilentChanges}. */
const CHANGED = { update: { n: 2, patched: 2 }, base: { ann: true, bob: true, eve: true } };

describe('an inline engine', () => {
  let repo: GitRepo;
  let source: DataSource;
  let server: StartedServer;
  let cable: Cable;
  let client: StartedClient;
  before(async () => {
    repo = await gitRepo();
    await repo.commit(MODULES);
    source = await startSource();
    server = await startFilledServer(repo, source);
    cable = await cutCable(server.url);
    // A source that does not answer is waited for: one that was given up would count as failing.
    client = await startClient({ serverUrl: cable.url, env: { SYNC_HTTP_FETCHER_TIMEOUT: '600' } });
    await fill(server, source, client);
  });
  after(async () => {
    for (const part of [client, cable, server, source, repo]) await part?.[Symbol.asyncDispose]();
  });

  test('after an inline engine has started anew a document whose source changed silently has its new value', async () => {
    await seesSilentChanges({ client, server, source }, async () => killProcess(client.enginePid()));
  });

  test('updates and commits that meet an engine that is being killed are all there in the end', async () => {
    const expected: Record<string, number> = {};
    const starts = (): number => client.log.filter(({ msg }) => msg === 'engine started').length;
    const before = starts();
    for (let n = 1; n <= 30; n++) {
      expected[`n${n}`] = n;
      await publish(server.url, { dst_path: `/many/n${n}`, data: n });
      if (n % 10 === 5) killProcess(client.enginePid());
      if (n % 10 === 6) await repo.commit({ 'x/x.rego': `package x\n\ny := ${n}\n` });
      if (n % 10 === 0) {
        const [pid, due] = [client.enginePid(), before + n / 10];
        await until(() => starts() >= due, { withinMs: 20_000, what: `an engine after ${pid}` });
      }
    }
    await client.holds('/many', expected);
    await client.answers('/x/y', {}, 26);
    await holdsAll(client, CHANGED.update, CHANGED.base);
    await client.healthy();
  });

  test('an inline engine that was killed has everything again before anybody is asked for anything newer', async () => {
    // Nobody answers: what the engine has again is from memory alone.
    const silence = new Promise<void>(() => undefined);
    source.answer('/base', { text: '{"ann":true,"new":true}', after: silence });
    source.answer('/update', { text: '{"n":3}', after: silence });
    source.answer('/large', { text: '{}', after: silence });
    source.answer('/once', { text: '{}', after: silence });

    for (let round = 1; round <= 2; round++) {
      const pid = client.enginePid();
      // Not even the server is needed.
      if (round === 2) cable.cut();
      killProcess(pid);
      await until(() => client.enginePid() !== pid, { withinMs: 20_000, what: 'another engine' });
      await holdsAll(client, CHANGED.update, CHANGED.base);
      await client.healthy();
    }
  });
});

describe('an external engine', () => {
  let repo: GitRepo;
  let source: DataSource;
  let server: StartedServer;
  let port: number;
  let client: StartedClient;
  let opa: TestOpa | undefined;
  before(async () => {
    repo = await gitRepo();
    await repo.commit(MODULES);
    source = await startSource();
    server = await startFilledServer(repo, source);
    port = await freePort();
    client = await startClient({ serverUrl: server.url, engineUrl: `http://127.0.0.1:${port}` });
  });
  after(async () => {
    for (const part of [client, opa, server, source, repo]) await part?.[Symbol.asyncDispose]();
  });

  test('an external engine that is down at the start, and later for a while, is told and then filled', async () => {
    const down = await client.tells('no engine', (health) => field(health, 'engine', 'error') !== null);
    assert.deepEqual([down.status, field(down.json, 'engine', 'online')], [503, false]);
    assert.match(String(field(down.json, 'engine', 'error')), new RegExp(`127.0.0.1:${port}`));

    opa = await startOpa({ port });
    await fill(server, source, client);
    await client.healthy();
    await opa.stop();
    const gone = await client.tells('no engine again', (health) => field(health, 'engine', 'online') === false);
    assert.deepEqual([gone.status, (await client.ready()).status], [503, 200]);
    await publish(server.url, { dst_path: '/meanwhile', data: 1 });
    await repo.commit({ 'x/x.rego': 'package x\n\ny := 1\n' });
    await client.tells(
      'the commit is known',
      (health) => field(health, 'policy', 'last_transaction', 'success') === false,
    );

    opa = await startOpa({ port });
    await client.healthy();
    await holdsAll(client);
    await client.holds('/meanwhile', 1);
    await client.answers('/x/y', {}, 1);
    assert.equal(opa.url, client.engineUrl);
    // Filled at the look that found it, also what had come meanwhile: no back-off of the time before is waited out.
    const timeOf = (msg: string): number =>
      Number(
        field(
          client.log.findLast((line) => line.msg === msg),
          'time',
        ),
      );
    const [seenMs, filledMs] = [timeOf('the engine answers'), timeOf('engine holds our state')];
    assert(filledMs - seenMs < 3000, `filled ${filledMs - seenMs} ms after it was seen`);
  });

  test('after an external engine has started anew a document whose source changed silently has its new value', async () => {
    await seesSilentChanges({ client, server, source }, async () => {
      await opa?.kill();
      // Noticed twice, as gone and as empty, it would be filled twice.
      await client.tells('the engine is gone', (health) => field(health, 'engine', 'online') === false);
      opa = await startOpa({ port });
    });
  });

  test('an external engine that restarts between two looks is noticed, and gets everything again', async () => {
    await using repo = await gitRepo();
    await repo.commit(MODULES);
    await using source = await startSource();
    await using server = await startFilledServer(repo, source);
    const port = await freePort();
    const first = await startOpa({ port });
    await using client = await startClient({
      serverUrl: server.url,
      engineUrl: first.url,
      env: { SYNC_POLICY_STORE_LIVENESS_PROBE_INTERVAL_SECONDS: '5' },
    });
    await fill(server, source, client);

    await first.kill();
    await using second = await startOpa({ port });
    assert.equal(await client.data('/base'), undefined);
    await holdsAll(client);
    await client.healthy();
    assert(client.log.some(({ msg }) => msg.startsWith('the engine lost our state')));
    assert(!client.log.some(({ msg }) => msg === 'the engine does not answer'), 'no look has failed');

    // Now an update comes before the next look.
    await second.kill();
    await using third = await startOpa({ port });
    await publish(server.url, { dst_path: '/after', data: 1 });
    await client.holds('/after', 1);
    await holdsAll(client);
    await client.holds('/after', 1);
    assert.equal(third.url, client.engineUrl);
  });

  test('an external engine that freezes is told within the time of a look, and is well again after it', async () => {
    await using server = await startServer();
    await using opa = await startOpa();
    await using cable = await cutCable(opa.url);
    const env = {
      SYNC_POLICY_UPDATER_ENABLED: 'false',
      SYNC_POLICY_STORE_LIVENESS_PROBE_TIMEOUT_SECONDS: '0.2',
      SYNC_POLICY_STORE_TIMEOUT: '1',
    };
    await using client = await startClient({ serverUrl: server.url, engineUrl: cable.url, env });
    await client.healthy();
    cable.freeze();
    const frozen = await client.tells('it does not answer', (health) => field(health, 'engine', 'online') === false);
    assert.equal(frozen.status, 503);
    await publish(server.url, { dst_path: '/n', data: 1 });
    await client.tells('the write fails', (health) => field(health, 'data', 'last_transaction', 'success') === false);
    cable.mend();
    await client.healthy();
    await client.holds('/n', 1);
  });
});

test('a client whose engine, server and data source all hang stops at once', async () => {
  await using source = await startDataSource();
  source.answer('/never', { fault: 'silent' });
  await using server = await startServer();
  await using opa = await startOpa();
  await using opaCable = await cutCable(opa.url);
  await using serverCable = await cutCable(server.url);
  await using client = await startClient({
    serverUrl: serverCable.url,
    engineUrl: opaCable.url,
    env: { SYNC_HTTP_FETCHER_TIMEOUT: '60' },
  });
  await client.tells('it is connected', (health) => field(health, 'server', 'connected') === true);
  await publish(server.url, { url: `${source.url}/never`, dst_path: '/never' });
  await until(() => source.count() === 1, { withinMs: 20_000, what: 'the source is asked' });
  opaCable.freeze();
  // The update before may have come with what the client reads as it connects: this one is known by its place in the log.
  const seq = await publish(server.url, { dst_path: '/n', data: 1 });
  await until(() => client.log.some((line) => line.msg === 'data update received' && line.seq === seq), {
    withinMs: 20_000,
    what: 'the update arrives',
  });
  serverCable.freeze();
  const startedAt = performance.now();
  await client.stop();
  assert(performance.now() - startedAt < 3000, `took ${performance.now() - startedAt} ms`);
});
