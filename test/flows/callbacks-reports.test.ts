import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { test } from 'node:test';
import { pino } from 'pino';
import { bearer, keyPair, tokenOf, withKeys } from '../support/auth.js';
import { type CallbackReceiver, startCallbackReceiver } from '../support/callback-receiver.js';
import { startDataSource } from '../support/data-source.js';
import { gitRepo } from '../support/git-repo.js';
import { field, postJson } from '../support/http.js';
import { baseEntries, following, publishText, startClient } from '../support/start-client.js';
import { startServer } from '../support/start-server.js';
import { until } from '../support/until.js';

const DATA_ONLY = { SYNC_POLICY_UPDATER_ENABLED: 'false' };

const sha256 = (text: string): string => createHash('sha256').update(text).digest('hex');

/** Client settings that report to the paths of a receiver. */
function reportingTo(receiver: CallbackReceiver, ...paths: string[]): Record<string, string> {
  const callbacks = paths.map((path) => receiver.url + path);
  return {
    ...DATA_ONLY,
    SYNC_SHOULD_REPORT_ON_DATA_UPDATES: 'true',
    SYNC_DEFAULT_UPDATE_CALLBACKS: JSON.stringify({ callbacks }),
  };
}

/** Publishes an update with an id of its own. */
function publishAs(serverUrl: string, id: string, entries: readonly object[], more: object = {}): Promise<number> {
  const all = entries.map((entry) => ({ url: '', topics: ['policy_data'], ...entry }));
  return publishText(serverUrl, JSON.stringify({ id, entries: all, ...more }));
}

/** The report on an update, once it is there. */
function reportOn(receiver: CallbackReceiver, path: string, id: string): Promise<unknown> {
  const find = (): unknown => receiver.at(path).find(({ json }) => field(json, 'update_id') === id)?.json;
  return until(find, { withinMs: 20_000, what: `a report on ${id} at ${path}` });
}

test('a successful update is reported with the hash of the fetched bytes, once, when all its entries are in', async () => {
  await using receiver = await startCallbackReceiver();
  await using source = await startDataSource();
  await using server = await startServer();
  await using client = await startClient({ serverUrl: server.url, env: reportingTo(receiver, '/cb') });
  await client.healthy();
  const text = '{"ann" : {"role":"admin"}}\n';
  source.answer('/users?key=qu3ry', { text });
  await publishAs(server.url, 'u1', [
    {
      url: `${source.url}/users?key=qu3ry`,
      dst_path: '/users',
      config: { headers: { 'x-api-key': 'h3ader' }, method: 'get' },
    },
    { dst_path: '/inline', data: { inner: '1nline' } },
    { dst_path: '/gone', save_method: 'DELETE' },
    { dst_path: '/elsewhere', data: 1, topics: ['another'] },
  ]);
  const report = await reportOn(receiver, '/cb', 'u1');
  await client.holds('/users', { ann: { role: 'admin' } });
  assert.deepEqual(report, {
    update_id: 'u1',
    reports: [
      {
        entry: {
          url: `${source.url}/users?***`,
          config: { fetcher: null, method: 'get', headers: { 'x-api-key': '***' } },
          topics: ['policy_data'],
          dst_path: '/users',
          save_method: 'PUT',
          inline_data: false,
          data: null,
        },
        fetched: true,
        saved: true,
        hash: sha256(text),
      },
      {
        entry: {
          url: '',
          config: null,
          topics: ['policy_data'],
          dst_path: '/inline',
          save_method: 'PUT',
          inline_data: true,
          data: null,
        },
        fetched: true,
        saved: true,
        hash: sha256('{"inner":"1nline"}'),
      },
      {
        entry: {
          url: '',
          config: null,
          topics: ['policy_data'],
          dst_path: '/gone',
          save_method: 'DELETE',
          inline_data: false,
          data: null,
        },
        fetched: false,
        saved: true,
        hash: null,
      },
    ],
    policy_hash: null,
    user_data: {},
  });
  const [call] = receiver.at('/cb');
  assert.equal(call?.method, 'POST');
  assert.equal(call?.headers['content-type'], 'application/json');

  await publishAs(server.url, 'not ours', [{ dst_path: '/x', data: 1, topics: ['another'] }]);
  await publishAs(server.url, 'u2', [{ dst_path: '/x', data: 1 }]);
  await reportOn(receiver, '/cb', 'u2');
  assert.deepEqual(receiver.updates('/cb'), ['u1', 'u2']);
  for (const secret of ['qu3ry', 'h3ader', '1nline']) {
    assert(!receiver.calls.some((received) => received.text.includes(secret)), secret);
    assert(!JSON.stringify(client.log).includes(secret), secret);
  }
});

test('nothing is reported unless it is asked for', async () => {
  await using receiver = await startCallbackReceiver();
  await using server = await startServer();
  const env = { ...reportingTo(receiver, '/cb'), SYNC_SHOULD_REPORT_ON_DATA_UPDATES: 'false' };
  await using client = await startClient({ serverUrl: server.url, env });
  await client.healthy();
  await publishAs(server.url, 'u', [{ dst_path: '/x', data: 1 }], {
    callback: { callbacks: [`${receiver.url}/once`] },
  });
  await client.holds('/x', 1);
  const { json } = await client.health();
  assert.deepEqual(field(json, 'reports'), {
    enabled: false,
    registered: 1,
    queued: 0,
    delivered: 0,
    failed: 0,
    dropped: 0,
    last_error: null,
  });
  assert.equal(receiver.calls.length, 0);
});

test('the default callback is the sync server, which logs reports on data and policy without secrets', async () => {
  await using repo = await gitRepo();
  const head = await repo.commit({ 'a.rego': 'package a\n\nimport rego.v1\n\nx := 1\n' });
  const lines: string[] = [];
  const log = pino({ level: 'info', base: null }, { write: (line) => void lines.push(line) });
  await using server = await startServer(following(repo), { log });
  const env = { SYNC_SHOULD_REPORT_ON_DATA_UPDATES: 'true' };
  await using client = await startClient({ serverUrl: server.url, env });
  await client.healthy();
  await publishAs(server.url, 'u1', [{ dst_path: '/x', data: { y: 's3cret' } }]);
  const received = (part: string): Promise<string> =>
    until(() => lines.find((line) => line.includes('update report received') && line.includes(part)), {
      withinMs: 20_000,
      what: `the server logs a report with ${part}`,
    });
  const onData = JSON.parse(await received('"u1"'));
  assert.deepEqual(onData.reports, [
    { url: '', path: '/x', method: 'PUT', fetched: true, saved: true, hash: sha256('{"y":"s3cret"}') },
  ]);
  const onPolicy = JSON.parse(await received('"policy_hash":"'));
  assert.equal(onPolicy.policy_hash, head);
  assert(!lines.join('').includes('s3cret'));

  // An OPAL client reports all that it knows.
  const entry = { url: 'http://u:p4ss@a/?q=qu3ry', config: { headers: { a: 'h3ader' } }, data: { b: '1nline' } };
  const body = {
    update_id: 'opal',
    reports: [{ entry, fetched: true, saved: true, hash: 'x' }],
    user_data: { c: 'd4ta' },
  };
  assert.equal((await postJson(`${server.url}/data/callback_report`, body)).status, 200);
  await received('"opal"');
  for (const secret of ['p4ss', 'qu3ry', 'h3ader', '1nline', 'd4ta']) assert(!lines.join('').includes(secret), secret);
});

test('with authentication on, the client shows its token to its own server and to no other receiver', async () => {
  await using receiver = await startCallbackReceiver();
  const keys = keyPair();
  const lines: string[] = [];
  const log = pino({ level: 'info', base: null }, { write: (line) => void lines.push(line) });
  await using server = await startServer(withKeys(keys), { log });
  const token = await tokenOf(server.url);
  const publisher = await tokenOf(server.url, { type: 'datasource' });
  const callbacks = [`${server.url}/data/callback_report`, `${receiver.url}/cb`];
  const env = {
    ...DATA_ONLY,
    SYNC_CLIENT_TOKEN: token,
    SYNC_SHOULD_REPORT_ON_DATA_UPDATES: 'true',
    SYNC_DEFAULT_UPDATE_CALLBACKS: JSON.stringify({ callbacks }),
  };
  await using client = await startClient({ serverUrl: server.url, env });
  await client.healthy();
  const body = { id: 'u1', entries: [{ url: '', topics: ['policy_data'], dst_path: '/x', data: 1 }] };
  assert.equal((await postJson(`${server.url}/data/config`, body, bearer(publisher))).status, 200);
  await reportOn(receiver, '/cb', 'u1');
  await until(() => lines.find((line) => line.includes('update report received')), {
    withinMs: 20_000,
    what: 'the server takes the report',
  });
  assert.equal(receiver.at('/cb')[0]?.headers.authorization, undefined);
  assert(!JSON.stringify(receiver.calls).includes(token));
  await client.tells('both are delivered', (health) => field(health, 'reports', 'delivered') === 2);
});

test('one-time callbacks hear of their own update, each with its own configuration', async () => {
  await using receiver = await startCallbackReceiver();
  await using server = await startServer();
  const env = {
    ...reportingTo(receiver, '/always'),
    SYNC_DEFAULT_UPDATE_CALLBACK_CONFIG: JSON.stringify({ method: 'put', headers: { 'X-Default': 'd' } }),
  };
  await using client = await startClient({ serverUrl: server.url, env });
  await client.healthy();
  const callbacks = [
    `${receiver.url}/url`,
    [`${receiver.url}/pair`, { headers: { 'X-Own': 'o' } }],
    `${receiver.url}/always`,
  ];
  await publishAs(server.url, 'u1', [{ dst_path: '/x', data: 1 }], { callback: { callbacks } });
  await publishAs(server.url, 'u2', [{ dst_path: '/x', data: 2 }]);
  await reportOn(receiver, '/pair', 'u1');
  await reportOn(receiver, '/url', 'u1');
  await reportOn(receiver, '/always', 'u1');
  await reportOn(receiver, '/always', 'u2');
  await client.tells('nothing is left to deliver', (health) => field(health, 'reports', 'queued') === 0);
  assert.deepEqual(receiver.updates('/url'), ['u1']);
  assert.deepEqual(receiver.updates('/pair'), ['u1']);
  assert.deepEqual(receiver.updates('/always').sort(), ['u1', 'u2'], 'one that is registered, too, hears it once');
  const told = (path: string): unknown[] => {
    const [call] = receiver.at(path);
    return [call?.method, call?.headers['x-default'], call?.headers['x-own']];
  };
  assert.deepEqual(told('/url'), ['PUT', 'd', undefined]);
  assert.deepEqual(told('/pair'), ['POST', undefined, 'o'], 'a pair takes nothing from the default configuration');
});

test('an update that failed is reported only with SYNC_REPORT_FAILED_UPDATES, and again when it is in', async () => {
  await using receiver = await startCallbackReceiver();
  await using source = await startDataSource();
  await using server = await startServer();
  const quietEnv = reportingTo(receiver, '/quiet');
  const loudEnv = { ...reportingTo(receiver, '/loud'), SYNC_REPORT_FAILED_UPDATES: 'true' };
  await using quiet = await startClient({ serverUrl: server.url, env: quietEnv });
  await using loud = await startClient({ serverUrl: server.url, env: loudEnv });
  await quiet.healthy();
  await loud.healthy();
  source.answer('/users', { status: 500, text: 'no' });
  await publishAs(server.url, 'u1', [{ url: `${source.url}/users`, dst_path: '/users' }]);
  const failed = await reportOn(receiver, '/loud', 'u1');
  const outcome = (report: unknown): unknown[] =>
    ['fetched', 'saved', 'hash'].map((name) => field(report, 'reports', 0, name));
  assert.deepEqual(outcome(failed), [false, false, null]);
  await until(() => source.count('/users') >= 4, { withinMs: 20_000, what: 'both have tried again' });
  assert.equal(receiver.at('/loud').length, 1);
  assert.equal(receiver.at('/quiet').length, 0);

  source.answer('/users', { text: '{"a":1}' });
  const success = await reportOn(receiver, '/quiet', 'u1');
  assert.deepEqual(outcome(success), [true, true, sha256('{"a":1}')]);
  await until(() => receiver.at('/loud').length === 2, { withinMs: 20_000, what: 'the success is told, too' });
  assert.deepEqual(receiver.at('/loud')[1]?.json, success);
  assert.equal(receiver.at('/quiet').length, 1);
});

test("with SYNC_REPORT_HASH_FORM=opal the hash is the one that OPAL's clients report", async () => {
  await using receiver = await startCallbackReceiver();
  await using source = await startDataSource();
  await using server = await startServer();
  const env = { ...reportingTo(receiver, '/cb'), SYNC_REPORT_HASH_FORM: 'opal' };
  await using client = await startClient({ serverUrl: server.url, env });
  await client.healthy();
  source.answer('/x', { text: '{"b":1,\n"a":[1.0,null,"\u00e9"]}' });
  await publishAs(server.url, 'u1', [{ url: `${source.url}/x`, dst_path: '/x' }]);
  const report = await reportOn(receiver, '/cb', 'u1');
  // The vector of opal-protocol P4.7.
  const hash = 'e8b339df544cbffa32539a5cce8f31c777fa11d29497107f133073e9313ebce3';
  assert.equal(field(report, 'reports', 0, 'hash'), hash);
});

test('what a read of the configuration brought in is reported, and a read that found all in place is not', async () => {
  await using receiver = await startCallbackReceiver();
  await using source = await startDataSource();
  source.serve('/base', { version: 1 });
  const base = { url: `${source.url}/base`, dst_path: '/base' };
  await using server = await startServer(baseEntries(base));
  await using client = await startClient({ serverUrl: server.url, env: reportingTo(receiver, '/cb') });
  await client.holds('/base', { version: 1 });
  const first = await reportOn(receiver, '/cb', 'initial-load');
  assert.equal(field(first, 'reports', 0, 'entry', 'dst_path'), '/base');
  assert.equal(field(first, 'reports', 0, 'hash'), sha256('{"version":1}'));

  const reread = (): Promise<unknown> => postJson(`${client.url}/data-updater/trigger`, {});
  await reread();
  await until(() => source.count('/base') === 2, { withinMs: 20_000, what: 'the source is asked again' });
  await publishAs(server.url, 'u1', [{ dst_path: '/x', data: 1 }]);
  await reportOn(receiver, '/cb', 'u1');
  assert.deepEqual(receiver.updates('/cb'), ['initial-load', 'u1']);

  source.serve('/base', { version: 2 });
  await reread();
  await until(() => receiver.updates('/cb').length === 3, { withinMs: 20_000, what: 'the change is reported' });
  assert.equal(field(receiver.at('/cb')[2]?.json, 'reports', 0, 'hash'), sha256('{"version":2}'));
});

test('the server refuses an update with a callback that cannot be called, or with too many', async () => {
  await using server = await startServer();
  const entries = [{ url: '', topics: ['policy_data'], dst_path: '/x', data: 1 }];
  const refused = async (callbacks: unknown): Promise<unknown> => {
    const answer = await postJson(`${server.url}/data/config`, { entries, callback: { callbacks } });
    assert.equal(answer.status, 422, answer.text);
    return field(answer.json, 'detail', 0, 'loc');
  };
  assert.deepEqual(await refused(['ftp://x/']), ['body', 'callback', 'callbacks', 0]);
  assert.deepEqual(await refused(['http://ok/', ['nowhere', {}]]), ['body', 'callback', 'callbacks', 1, 0]);
  assert.deepEqual(await refused(Array.from({ length: 21 }, (_, at) => `http://ok/${at}`)), [
    'body',
    'callback',
    'callbacks',
  ]);
});
