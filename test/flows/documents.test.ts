import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { describe, it } from 'node:test';
import type { Logger } from '../../src/lib/observe/log.js';
import type { DataDocument, DocumentsAnswer } from '../../src/wire/fleet-views.js';
import { announced, byWebhook } from '../support/announced.js';
import { bearer, tokenOf, withKeys } from '../support/auth.js';
import { gitRepo } from '../support/git-repo.js';
import { field, postJson, request } from '../support/http.js';
import { runHere } from '../support/run-here.js';
import { WELL } from '../support/session-report.js';
import { startPeer } from '../support/start-peer.js';
import { startServer } from '../support/start-server.js';
import { until } from '../support/until.js';

const SUBJECT = '8f0c4c2e-6e0b-4b3a-9a55-0d2f3b1c7a10';
const SUBJECT_TEXT = SUBJECT.replaceAll('-', '');
const OURS = { 'x-sync-protocol': '2' };

async function documents(url: string, query = '', headers: Record<string, string> = {}): Promise<DocumentsAnswer> {
  const { status, json, text } = await request(`${url}/data/documents${query}`, { headers });
  assert.equal(status, 200, text);
  return json as DocumentsAnswer;
}

function at({ documents: all }: DocumentsAnswer, path: string): DataDocument {
  const found = all.find((one) => one.path === path);
  assert(found !== undefined, `${path} of ${all.map((one) => one.path).join()}`);
  return found;
}

function inline(dst_path: string, data: unknown, more: object = {}): object {
  return { url: '', topics: ['policy_data'], dst_path, data, ...more };
}

async function publish(url: string, entries: object[], more: object = {}, headers = {}): Promise<number> {
  const answer = await postJson(`${url}/data/config`, { entries, ...more }, headers);
  assert.equal(answer.status, 200, answer.text);
  return Number(field(answer.json, 'seq'));
}

describe('GET /data/documents', () => {
  it('tells of each path where it comes from, when it changed, its size and hash, and never its value', async () => {
    const base = [{ url: 'https://ann:pw@api.example/u?key=k', topics: ['policy_data'], dst_path: '/users' }];
    await using server = await startServer({ SYNC_DATA_CONFIG_SOURCES: JSON.stringify({ config: { entries: base } }) });
    const value = { limit: 'of-the-value' };
    const beforeMs = Date.now();
    const seq = await publish(server.url, [inline('/app/limits', value)], { id: 'u1', reason: 'new limits' });
    await publish(server.url, [inline('/short', 1)], { retain: 600 });
    const answer = await documents(server.url);
    assert.doesNotMatch(JSON.stringify(answer), /of-the-value|pw|key=k/);
    assert.deepEqual([answer.total, answer.next, answer.external_source, answer.incomplete], [3, null, null, null]);
    const { changed_at, ...limits } = at(answer, '/app/limits');
    assert((changed_at ?? 0) >= beforeMs && (changed_at ?? 0) <= Date.now());
    const text = JSON.stringify(value);
    const hash = createHash('sha256').update(text).digest('hex');
    const who = { update_id: 'u1', reason: 'new limits', publisher: null };
    const reach = {
      topics: ['policy_data'],
      clients: 0,
      refused_by: 0,
      refusal: null,
      patches: 0,
      versions: 1,
      retained_until: null,
    };
    const about = { path: '/app/limits', origin: 'update', source: 'inline', method: 'PUT', seq };
    assert.deepEqual(limits, { ...about, ...who, ...reach, bytes: text.length, hash });
    const users = at(answer, '/users');
    assert.deepEqual(
      [users.origin, users.source, users.bytes, users.hash, users.changed_at],
      ['base', 'https://***@api.example/u?***', ...[null, null, null]],
    );
    const until_ms = at(answer, '/short').retained_until ?? 0;
    assert(until_ms > beforeMs + 500_000 && until_ms <= Date.now() + 600_000, String(until_ms));
  });

  it('has one row for a path however many patches it has, and says what changed it last, also after compaction', async () => {
    await using server = await startServer(withKeys());
    const ops = bearer(await tokenOf(server.url, { type: 'datasource', id: SUBJECT }));
    await publish(server.url, [inline('/doc', { n: 0 })], {}, ops);
    const patch = (n: number): object =>
      inline('/doc', [{ op: 'add', path: `/k${n}`, value: n }], { save_method: 'PATCH' });
    for (let n = 1; n <= 3; n++) await publish(server.url, [patch(n)], { id: `p${n}`, reason: `patch ${n}` }, ops);
    const { patches, method, seq, update_id, reason, publisher, bytes } = at(
      await documents(server.url, '', ops),
      '/doc',
    );
    assert.deepEqual(
      [patches, method, seq, update_id, reason, publisher],
      [3, 'PUT', 4, 'p3', 'patch 3', SUBJECT_TEXT],
    );
    assert.equal(bytes, JSON.stringify({ n: 0, k1: 1, k2: 2, k3: 3 }).length);
    for (let n = 4; n <= 64; n++) await publish(server.url, [patch(n)], { id: `p${n}` }, ops);
    const compacted = await until(
      async () => {
        const doc = at(await documents(server.url, '', ops), '/doc');
        return doc.patches === 0 && doc;
      },
      { withinMs: 20_000, what: 'the patches are worked in' },
    );
    assert.deepEqual([compacted.publisher, compacted.update_id], [SUBJECT_TEXT, 'p64']);
    const listener = bearer(await tokenOf(server.url, { type: 'listener' }));
    const seen = at(await documents(server.url, '', listener), '/doc');
    assert.deepEqual([seen.publisher, seen.reason, seen.update_id], [null, null, 'p64'], 'as in GET /data/log');
  });

  it('comes in pages, below a path, in the order of the paths', async () => {
    await using server = await startServer();
    const paths = Array.from({ length: 25 }, (_, n) => `/p${String(n).padStart(2, '0')}/é`);
    await publish(
      server.url,
      paths.toReversed().map((path) => inline(path, path)),
    );
    const seen: string[] = [];
    for (let after = ''; ; ) {
      const page = await documents(server.url, `?limit=10${after}`);
      assert.equal(page.total, 25);
      seen.push(...page.documents.map(({ path }) => path));
      if (page.next === null) break;
      after = `&after=${encodeURIComponent(page.next)}`;
    }
    assert.deepEqual(
      seen,
      paths.map((path) => encodeURI(path)),
    );
    const below = await documents(server.url, '?prefix=/p07');
    assert.deepEqual([below.total, below.documents.map(({ path }) => path)], [1, [encodeURI('/p07/é')]]);
    for (const query of ['prefix=/a/../b', 'limit=0', 'limit=1001']) {
      assert.equal((await request(`${server.url}/data/documents?${query}`)).status, 422, query);
    }
  });

  it('ends a page early rather than hash very much, and answers others meanwhile', async () => {
    await using server = await startServer();
    for (let n = 0; n < 6; n++) await publish(server.url, [inline(`/big${n}`, 'x'.repeat(5 * 1024 * 1024))]);
    const [first, health] = await Promise.all([documents(server.url), request(`${server.url}/healthcheck`)]);
    assert.equal(health.status, 200);
    assert.deepEqual([first.documents.length, first.total, first.next], [3, 6, '/big2']);
    const again = await documents(server.url);
    assert.deepEqual(
      again.documents.map(({ hash }) => hash?.length),
      Array(6).fill(64),
      'what is known costs nothing',
    );
  });

  it('counts who gets a document and who cannot write it; a limited token sees its own topics and paths', async () => {
    await using server = await startServer(withKeys());
    const ops = bearer(await tokenOf(server.url, { type: 'datasource' }));
    const client = bearer(await tokenOf(server.url, { type: 'client' }));
    await publish(server.url, [inline('/a/deep', 1, { topics: ['x'] }), inline('/b', 2, { topics: ['y'] })], {}, ops);
    await using one = await startPeer(server.url, { ...OURS, ...client });
    await one.call('subscribe', { topics: ['x'], client_id: 'one' });
    await one.call('report', {
      ...WELL,
      ...{
        client_id: 'one',
        position: null,
        healthy: false,
        failing: [{ path: '/a/deep', error: 'secret text', kind: 'source' }],
      },
    });
    await using two = await startPeer(server.url, { ...OURS, ...client });
    await two.call('subscribe', { topics: ['x', 'y'], client_id: 'two' });
    const all = await documents(server.url, '', ops);
    const counts = (answer: DocumentsAnswer): unknown[] =>
      answer.documents.map(({ path, topics, clients, refused_by }) => [path, topics, clients, refused_by]);
    assert.deepEqual(counts(all), [
      ['/a/deep', ['x'], 2, 1],
      ['/b', ['y'], 1, 0],
    ]);
    const limited = async (more: object): Promise<DocumentsAnswer> =>
      documents(server.url, '', bearer(await tokenOf(server.url, { type: 'listener', ...more })));
    const byTopic = await limited({ claims: { permitted_topics: ['y'] } });
    assert.deepEqual([byTopic.total, counts(byTopic)], [1, [['/b', ['y'], 1, 0]]]);
    const byPath = await limited({ claims: { permitted_paths: ['/a'] } });
    assert.deepEqual([byPath.total, counts(byPath)], [1, [['/a/deep', ['x'], 2, 1]]]);
    const reasons = (answer: DocumentsAnswer): unknown[] => answer.documents.map(({ refusal }) => refusal);
    const text = 'its data source does not give it';
    assert.deepEqual(reasons(all), [{ kind: 'source', clients: 1, text: `${text}: secret text` }, null]);
    assert.deepEqual(reasons(byPath), [{ kind: 'source', clients: 1, text }]);
    assert.equal((await request(`${server.url}/data/documents`, { headers: client })).status, 401);
  });

  it('leaves the value to GET /data/log, which says in the log who read what', async () => {
    const lines: string[] = [];
    const collect = (fields: object | string, message?: string): void => {
      lines.push(JSON.stringify([message, fields]));
    };
    const log: Logger = { debug: collect, info: collect, warn: collect, error: collect, child: () => log };
    await using server = await startServer(withKeys(), { log });
    const ops = bearer(await tokenOf(server.url, { type: 'datasource', id: SUBJECT }));
    await publish(
      server.url,
      [inline('/a', { v: 'hush' }), { url: 'http://127.0.0.1:9/u', topics: ['t'], dst_path: '/u' }],
      {},
      ops,
    );
    const read = async (query: string): Promise<string> =>
      (await request(`${server.url}/data/log?${query}`, { headers: ops })).text;
    assert.doesNotMatch(await read('path=/a'), /hush/);
    assert.equal(lines.filter((line) => line.includes('were read')).length, 0, 'no values, no line');
    assert.match(await read('path=/a&include=secrets'), /hush/);
    const [line = ''] = lines.filter((text) => text.includes('were read'));
    assert.match(line, /"path":"\/a".*"updates":\[1\]/);
    assert(line.includes(`"subject":"${SUBJECT_TEXT}"`), line);
    assert.doesNotMatch(line, /hush/);
    const ofUrl = JSON.parse(await read('path=/u&include=secrets')) as unknown;
    assert.deepEqual(
      field(ofUrl, 'updates', 0, 'entries', 0, 'url'),
      'http://127.0.0.1:9/u',
      'no value: it was never here',
    );
    assert.equal(field(ofUrl, 'updates', 0, 'entries', 0, 'data'), undefined);
    const listener = bearer(await tokenOf(server.url, { type: 'listener' }));
    assert.equal((await request(`${server.url}/data/log?include=secrets`, { headers: listener })).status, 401);
  });
});

describe('what is published over data of the policy repository', () => {
  it('is named by the answer, the command and the list of documents, with what later commits bring there', async () => {
    await using repo = await gitRepo();
    const files = { 'data.json': '{"users":{"root":1}}', 'users/a/data.json': '{"n":1}', 'other/data.json': '{}' };
    const first = await repo.commit(files);
    await using server = await startServer(byWebhook(repo));
    const serves = async (hash: string): Promise<boolean> =>
      field((await request(`${server.url}/healthcheck`)).json, 'policy', 'head') === hash;
    const post = async (entry: object): Promise<unknown> =>
      field((await postJson(`${server.url}/data/config`, { entries: [entry], reason: '' })).json, 'hides');
    await until(async () => serves(first), { withinMs: 20_000, what: 'the commit is served' });
    const removal = ['publish', '--server-url', server.url, '--dst-path', '/users', '--save-method', 'DELETE'];
    const { stdout } = await runHere('policysync', removal);
    assert.match(stdout, /stands over data of the policy repository, in later commits, too: \/, \/users\/a$/m);
    assert.deepEqual(await post(inline('/users/a/n', 2)), undefined, 'what is beside it stays');
    assert.deepEqual(await post(inline('/other', { x: 1 })), ['/other']);
    assert.deepEqual(await post(inline('/elsewhere', 1)), undefined);
    const later = await announced(server, repo, { 'users/b/data.json': '{"n":2}' });
    await until(async () => serves(later), { withinMs: 20_000, what: 'the commit is served' });
    const { deletions } = await documents(server.url);
    assert.deepEqual(
      deletions?.map(({ path, hides }) => [path, hides]),
      [['/users', ['/', '/users/a', '/users/b']]],
    );
    assert.equal((await documents(server.url, '?prefix=/other')).deletions, undefined);
    // What is published there again takes its place.
    assert.deepEqual(await post(inline('/users', { c: 3 })), ['/users/a', '/users/b']);
    assert.equal((await documents(server.url)).deletions, undefined);
  });
});
