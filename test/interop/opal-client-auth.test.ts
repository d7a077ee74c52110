import assert from 'node:assert/strict';
import { createHmac, randomUUID } from 'node:crypto';
import { test } from 'node:test';
import { opalHash } from '../../src/client/report/report-hash.js';
import { bundleOf } from '../support/archive.js';
import { bearer, keyPair, tokenOf, withKeys } from '../support/auth.js';
import { bundleHttpServer } from '../support/bundle-http-server.js';
import { field, postJson, request } from '../support/http.js';
import { startOpa } from '../support/opa.js';
import { startServer } from '../support/start-server.js';
import { tempDir } from '../support/temp-dir.js';
import { until } from '../support/until.js';
import { CLIENT_ID, REPORTS, SOURCE_HEADER, startOpalClientStage, WEBHOOK_SECRET } from './opal-client-stage.js';
import { runOpal } from './opal-python.js';
import { type PassedRequest, type RecordingProxy, recordingProxy } from './recording-proxy.js';
import {
  allowing,
  data,
  publish,
  type RunningServer,
  sharedStage,
  startOpalClient,
  startOurServer,
  WITHIN_MS,
} from './stage.js';

/** An OPAL 0.9.9 client and our server with authentication on; see `opal-client-stage.ts`. */

const world = sharedStage(startOpalClientStage);

/** Makes the client lose its server and find another one in its place; ends with the client back where it was. */
function leadAway(proxy: RecordingProxy, { to, back }: { to: RunningServer; back: RunningServer }): AsyncDisposable {
  const lead = (server: RunningServer): void => {
    proxy.cut();
    proxy.leadTo(server.url);
  };
  lead(to);
  return { [Symbol.asyncDispose]: async () => lead(back) };
}

/** Tells a server of a push as GitHub does. */
async function webhook(serverUrl: string, repoUrl: string): Promise<void> {
  const body = JSON.stringify({ ref: 'refs/heads/master', repository: { clone_url: repoUrl } });
  const signature = createHmac('sha256', WEBHOOK_SECRET).update(body).digest('hex');
  const headers = { 'x-github-event': 'push', 'x-hub-signature-256': `sha256=${signature}` };
  const { status, json } = await postJson(`${serverUrl}/webhook`, body, headers);
  assert.deepEqual([status, field(json, 'status')], [200, 'ok']);
}

test('a Python OPAL client with a token from our server gets base data, updates, policy, and commits by webhook', async (context) => {
  const stage = world(context);
  if (stage === undefined) return;
  const { server, proxy, repo, tokens } = stage;
  await stage.reaches('/app/rbac/allow', false, { user: 'alice' });
  await publish(server.url, { dst_path: '/users', data: { alice: { role: 'viewer' } } }, { token: tokens.datasource });
  await stage.reaches('/users', { alice: { role: 'viewer' } });
  const ofTenant = { topics: ['tenants/acme'], dst_path: '/acme', data: { n: 1 } };
  await publish(server.url, ofTenant, { token: tokens.datasource });
  await stage.reaches('/acme', { n: 1 });
  await repo.commit(allowing('viewer'));
  await webhook(server.url, repo.url);
  await stage.reaches('/app/rbac/allow', true, { user: 'alice' });

  for (const path of ['/ws', '/policy', '/data/config']) {
    const sent = proxy.at('GET', path).map(({ authorization }) => authorization);
    assert.deepEqual([...new Set(sent)], [`Bearer ${tokens.client}`], path);
  }
  const toSource = stage.sourceProxy.requests.map(({ authorization }) => authorization);
  assert.deepEqual([...new Set(toSource)], [SOURCE_HEADER], 'a data source gets its own token and no other');
});

test("OPAL's publish-data-update publishes through our server with a datasource token, and with no other", async (context) => {
  const stage = world(context);
  if (stage === undefined) return;
  const { server, source, tokens } = stage;
  source.serve('/cli', { by: 'command' });
  const publishes = (token: string, path: string): Promise<string> => {
    const where = [
      '--server-url',
      server.url,
      '--src-url',
      `${source.url}/cli`,
      '-t',
      'policy_data',
      '--dst-path',
      path,
    ];
    return runOpal(stage.opalBin, 'opal-client', ['publish-data-update', token, ...where], stage.folder);
  };
  const refused = await publishes(tokens.client, '/refused');
  assert.match(refused, /Event publishing failed.*Incorrect 'peer_type' claim/s);
  assert.match(await publishes(tokens.datasource, '/cli'), /Event Published Successfully/);
  await stage.reaches('/cli', { by: 'command' });
  assert.equal(await data(stage.engine, '/refused'), undefined);
});

test('a Python OPAL client is in our statistics while it is connected, and gets after its reconnect what was published meanwhile', async (context) => {
  const stage = world(context);
  if (stage === undefined) return;
  const { server, proxy, repo, source, tokens } = stage;
  const token = tokens.datasource;
  const topicsOf = async (id: string): Promise<unknown[]> => {
    const { status, json } = await request(`${server.url}/statistics`, { headers: bearer(tokens.listener) });
    assert.equal(status, 200);
    const channels = field(json, 'clients', id) ?? [];
    assert.ok(Array.isArray(channels));
    return channels.flatMap((channel) => field(channel, 'topics')).sort();
  };
  const isListed = async (): Promise<boolean> => (await topicsOf(CLIENT_ID)).join() === 'policy:.,policy_data,tenants';
  await until(isListed, { withinMs: WITHIN_MS, what: 'both connections of the client are listed' });
  const brief = await request(`${server.url}/stats`, { headers: bearer(tokens.listener) });
  assert.equal(field(brief.json, 'client_count'), 1);

  const before = proxy.at('GET', '/data/config').length;
  proxy.cut();
  const isGone = async (): Promise<boolean> => (await topicsOf(CLIENT_ID)).length === 0;
  await until(isGone, { withinMs: WITHIN_MS, what: 'the client is no longer listed' });
  source.serve('/missed', { by: 'url' });
  await publish(server.url, { dst_path: '/missed/inline', data: { n: 1 } }, { token });
  await publish(server.url, { dst_path: '/missed/url', url: `${source.url}/missed` }, { token });
  await publish(server.url, { dst_path: '/missed/inline', data: { n: 2 } }, { token });
  await publish(server.url, { dst_path: '/missed/acme', data: { n: 3 }, topics: ['tenants/acme'] }, { token });
  await repo.commit({ 'missed.rego': 'package missed_policy\n\nimport rego.v1\n\nx := 1\n' });
  await webhook(server.url, repo.url);
  proxy.leadTo(server.url);

  await stage.reaches('/missed', { inline: { n: 2 }, url: { by: 'url' }, acme: { n: 3 } });
  await stage.reaches('/missed_policy/x', 1);
  await until(isListed, { withinMs: WITHIN_MS, what: 'the client is listed again' });
  assert.ok(proxy.at('GET', '/data/config').length > before, 'it has read the configuration');
});

test('the report of a Python OPAL client is refused without a token, and taken where the header is configured', async (context) => {
  const stage = world(context);
  if (stage === undefined) return;
  const { server, proxy, tokens, reports } = stage;
  const id = `reported-${randomUUID()}`;
  const document = '{"big":12345678901234567890,"a":[1.0,null,"\u00e9"]}';
  const entry = `{"url":"","topics":["policy_data"],"dst_path":"/reported","data":${document}}`;
  const callback = JSON.stringify({ callbacks: [[`${reports.url}?once=true`, reports.withToken]] });
  const update = `{"id":"${id}","entries":[${entry}],"callback":${callback}}`;
  const published = await postJson(`${server.url}/data/config`, update, bearer(tokens.datasource));
  assert.equal(published.status, 200, published.text);

  const ofUpdate = (body: string): boolean => body !== '' && field(JSON.parse(body), 'update_id') === id;
  const sent = (): PassedRequest[] => proxy.at('POST', REPORTS).filter(({ body }) => ofUpdate(body));
  const answers = (): string[] => {
    const all = sent().map(({ path, authorization, status }) => `${path} ${authorization}: ${status}`);
    // Without an answer that suits it OPAL's client sends a report several times.
    return [...new Set(all)].sort();
  };
  const expected = [
    `${REPORTS} undefined: 401`,
    `${REPORTS} Bearer ${tokens.client}: 200`,
    `${REPORTS}?once=true Bearer ${tokens.client}: 200`,
  ].sort();
  const allSent = (): boolean => expected.every((answer) => answers().includes(answer));
  await until(allSent, { withinMs: WITHIN_MS, what: 'the three reports' }).catch((cause: unknown) => {
    throw new Error(`there were ${answers().join(', ')}`, { cause });
  });
  const [report] = sent();
  assert.equal(field(JSON.parse(report?.body ?? ''), 'reports', 0, 'hash'), opalHash(document));
  await until(() => server.output().includes(`"update_id":"${id}","policy_hash":null,"reported_by"`), {
    withinMs: WITHIN_MS,
    what: 'our server has logged the report',
  });
  assert.doesNotMatch(server.output(), /eyJ/, 'no token in the log');
});

test('a token of our server opens the API of a Python OPAL client to listeners alone', async (context) => {
  const stage = world(context);
  if (stage === undefined) return;
  const url = `${stage.client.apiUrl}/callbacks`;
  const statuses = await Promise.all(
    [bearer(stage.tokens.listener), bearer(stage.tokens.client), {}].map(
      async (headers) => (await request(url, { headers })).status,
    ),
  );
  assert.deepEqual(statuses, [200, 401, 401]);
});

test('Python OPAL clients with no token or a wrong one get nothing from our server, cannot hammer it, and hold up nobody', async (context) => {
  const stage = world(context);
  if (stage === undefined) return;
  const { server, tokens } = stage;
  await using folder = await tempDir();
  await using elsewhere = await startServer(withKeys(keyPair()));
  const wrong = await tokenOf(elsewhere.url, { type: 'client' });
  await using engine = await startOpa();
  // What is not set is a word that OPAL's client then sends as its token.
  await using unset = await recordingProxy(server.url);
  await using foreign = await recordingProxy(server.url);
  await using one = await startOpalClient(stage.opalBin, folder.path, { serverUrl: unset.url, engine });
  const env = { OPAL_CLIENT_TOKEN: wrong };
  await using other = await startOpalClient(stage.opalBin, folder.path, { serverUrl: foreign.url, engine, env });
  for (const [proxy, client] of [
    [unset, one],
    [foreign, other],
  ] as const) {
    // Each client has two connections, one for policy and one for data.
    const comesAgain = (): boolean => proxy.at('GET', '/ws').length >= 4;
    await until(comesAgain, { withinMs: WITHIN_MS, what: 'it tries again' }).catch((cause: unknown) => {
      throw new Error(client.output().slice(-4000), { cause });
    });
  }
  await publish(server.url, { dst_path: '/meanwhile', data: { n: 1 } }, { token: tokens.datasource });
  await stage.reaches('/meanwhile', { n: 1 });

  for (const proxy of [unset, foreign]) {
    const attempts = proxy.at('GET', '/ws');
    const refused = attempts.filter(({ status }) => status !== undefined);
    assert.deepEqual([...new Set(refused.map(({ status }) => status))], [401]);
    assert.ok(attempts.length < 10, `${attempts.length} attempts; unhindered there are a hundred a second`);
    for (const { answeredAfterMs } of refused) assert.ok(answeredAfterMs >= 900, `held for ${answeredAfterMs} ms`);
    assert.deepEqual(
      proxy.requests.filter(({ path }) => path !== '/ws'),
      [],
    );
  }
  assert.deepEqual(await data(engine, ''), {});
});

test('a Python OPAL client gets the policy of a bundle server through our server, and a new bundle by a webhook with a token', async (context) => {
  const stage = world(context);
  if (stage === undefined) return;
  const { proxy, tokens } = stage;
  await using folder = await tempDir();
  await using bundles = await bundleHttpServer();
  const bundle = (x: number): Promise<Buffer> =>
    bundleOf({
      'bundled/m.rego': `package bundled\n\nimport rego.v1\n\nx := ${x}\n`,
      'bundled/data/data.json': `{"n":${x}}`,
    });
  await bundles.put(await bundle(1));
  await using server = await startOurServer(folder.path, {
    ...stage.auth,
    SYNC_POLICY_SOURCE_TYPE: 'API',
    SYNC_POLICY_BUNDLE_URL: bundles.url,
  });
  // The client finds another server at the address of the first: same keys, other commits.
  await using _there = leadAway(proxy, { to: server, back: stage.server });
  await stage.reaches('/bundled', { x: 1, data: { n: 1 } });
  await stage.reaches('/app/rbac/allow', undefined, { user: 'alice' });

  await bundles.put(await bundle(2));
  const triggered = (token: string) => request(`${server.url}/webhook`, { method: 'POST', headers: bearer(token) });
  assert.equal((await triggered(tokens.client)).status, 401);
  assert.equal((await triggered(tokens.datasource)).status, 200);
  await stage.reaches('/bundled', { x: 2, data: { n: 2 } });
});

test('a Python OPAL client follows the redirect of our server to an external data source, which gets its token', async (context) => {
  const stage = world(context);
  if (stage === undefined) return;
  const { proxy, source, tokens } = stage;
  await using folder = await tempDir();
  await using server = await startOurServer(folder.path, {
    ...stage.auth,
    SYNC_DATA_CONFIG_SOURCES: JSON.stringify({ external_source_url: `${source.url}/entries?of=all` }),
  });
  source.serve('/external', { from: 'external' });
  const entry = { url: `${source.url}/external`, topics: ['policy_data'], dst_path: '/external' };
  // Any other token finds nothing there.
  source.serve(`/entries?of=all&token=${tokens.client}`, { entries: [entry] });
  await using _there = leadAway(proxy, { to: server, back: stage.server });
  await stage.reaches('/external', { from: 'external' });
  assert.equal(proxy.at('GET', '/data/config').at(-1)?.status, 307);
});
