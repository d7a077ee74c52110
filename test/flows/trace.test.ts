import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import type { TraceAnswer, TraceClient } from '../../src/wire/trace.js';
import { type StartedCommand, startCommand } from '../support/command.js';
import { freeze } from '../support/frozen-process.js';
import { type GitRepo, gitRepo } from '../support/git-repo.js';
import { field, postJson, request } from '../support/http.js';
import { freePort, startOpa, type TestOpa } from '../support/opa.js';
import { runHere } from '../support/run-here.js';
import { FAST, type StartedClient, startClient } from '../support/start-client.js';
import { type StartedPeer, startPeer } from '../support/start-peer.js';
import { type StartedServer, startServer } from '../support/start-server.js';
import { type TempDir, tempDir } from '../support/temp-dir.js';
import { until } from '../support/until.js';

const WITHIN = { withinMs: 30_000 };
const TOPIC = 'policy_data';
const POLICY = 'package app.rbac\n\nimport rego.v1\n\nallow if input.user == "alice"\n';
/** Of the client that has no policy, and so takes what stands in the way of a rule. */
const NO_POLICY = { SYNC_POLICY_UPDATER_ENABLED: 'false' };

async function trace(url: string, id: string | number, query = ''): Promise<TraceAnswer> {
  const { status, json, text } = await request(`${url}/trace/${id}${query}`);
  assert.equal(status, 200, text);
  return json as TraceAnswer;
}

/** Asks until the states of the clients are these: `name state, name state`. */
async function traced(url: string, id: string | number, states: string): Promise<TraceAnswer> {
  let last: TraceAnswer | undefined;
  try {
    return await until(
      async () => {
        last = await trace(url, id);
        return last.clients.map(({ client_id: name, state }) => `${name} ${state}`).join(', ') === states
          ? last
          : undefined;
      },
      { ...WITHIN, what: states },
    );
  } catch (cause) {
    throw new Error(JSON.stringify(last, null, 1), { cause });
  }
}

function clientOf({ clients }: TraceAnswer, name: string): TraceClient {
  const found = clients.find(({ client_id }) => client_id === name);
  assert(found !== undefined, name);
  return found;
}

/** Stages by name; asserts that their times do not go back. */
function stagesOf({ stages }: TraceAnswer): string[] {
  assert(stages.every(({ at }, index) => index === 0 || at >= (stages[index - 1]?.at ?? 0)));
  return stages.map(({ stage }) => stage);
}

async function publish(url: string, id: string, path: string, data: unknown): Promise<number> {
  const entries = [{ url: '', topics: [TOPIC], dst_path: path, data }];
  const answer = await postJson(`${url}/data/config`, { id, reason: 'a test', entries });
  assert.equal(answer.status, 200, answer.text);
  return Number(field(answer.json, 'seq'));
}

describe('GET /trace and policysync trace', () => {
  let repo: GitRepo;
  let server: StartedServer;
  let dir: TempDir;
  /** Without policy; with it; a process of its own; and OPAL's. */
  let [holds, refuses]: StartedClient[] = [];
  let stops: StartedCommand;
  let opaOfStops: TestOpa;
  let opal: StartedPeer;

  before(async () => {
    repo = await gitRepo();
    dir = await tempDir();
    await repo.commit({ 'rbac.rego': POLICY });
    server = await startServer({ SYNC_POLICY_REPO_URL: repo.url, SYNC_HEARTBEAT_INTERVAL: '1' });
    const serverUrl = server.url;
    opaOfStops = await startOpa();
    holds = await startClient({ serverUrl, env: { SYNC_CLIENT_ID: 'holds', ...NO_POLICY } });
    refuses = await startClient({ serverUrl, env: { SYNC_CLIENT_ID: 'refuses' } });
    stops = startCommand('client', ['run'], {
      ...FAST,
      ...NO_POLICY,
      SYNC_SERVER_URL: server.url,
      SYNC_CLIENT_ID: 'stops',
      SYNC_ENGINE: 'external',
      SYNC_CLIENT_API_SERVER_PORT: '0',
      SYNC_POLICY_STORE_URL: opaOfStops.url,
      XDG_STATE_HOME: dir.path,
    });
    opal = await startPeer(server.url);
    await opal.call('subscribe', { topics: [TOPIC, 'policy:.'] });
    await publish(server.url, 'first', '/first', 1);
    await refuses.healthy();
    await until(
      async () => {
        const { clients } = await trace(server.url, 'first');
        return clients.filter(({ state }) => state === 'applied').length === 3;
      },
      { ...WITHIN, what: 'all hold the first update' },
    );
  });

  after(async () => {
    for (const part of [opal, stops, opaOfStops, refuses, holds, server, repo, dir])
      await part?.[Symbol.asyncDispose]();
  });

  it('an update that one client applies, one refuses, one does not hear of, and one says nothing about', async () => {
    await using frozen = await freeze(stops.process.pid ?? 0);
    const before = Date.now();
    const seq = await publish(server.url, 'in-the-way', '/app/rbac/allow', true);
    const address = clientNameOfOpal(await trace(server.url, seq));
    const states = `${address} unknown, holds applied, refuses refused, stops not_heard`;
    const answer = await traced(server.url, seq, states);

    assert.deepEqual(
      [answer.kind, answer.id, answer.seq, answer.reason, answer.topics, answer.paths, answer.in_memory, answer.notes],
      ['update', 'in-the-way', seq, 'a test', [TOPIC], ['/app/rbac/allow'], true, []],
    );
    assert.deepEqual(stagesOf(answer).toSorted(), ['announced', 'durable', 'received', 'recorded']);
    assert.equal(answer.stages.find(({ stage }) => stage === 'announced')?.subscribers, 4);
    assert.deepEqual(answer.counts, { unknown: 1, applied: 1, refused: 1, not_heard: 1 });

    const applied = clientOf(answer, 'holds');
    const [heard = 0, fetched = 0, held = 0, seen = 0] = [
      applied.heard_at ?? 0,
      applied.fetched_at ?? 0,
      applied.applied_at ?? 0,
      applied.applied_seen_at ?? 0,
    ];
    // One machine, one clock.
    assert(before <= heard && heard <= fetched && fetched <= held && held <= seen, JSON.stringify(applied));
    assert.equal(applied.was_there, true);
    const refused = clientOf(answer, 'refuses');
    assert.deepEqual([refused.file, /is defined by a rule/.test(refused.reason ?? '')], ['/app/rbac/allow', true]);
    assert(before <= (refused.refused_at ?? 0) && (refused.refused_at ?? 0) <= (refused.refused_seen_at ?? 0));
    assert.equal(refused.applied_at, null);
    const silent = clientOf(answer, 'stops');
    assert.equal(silent.connected, true);
    assert((silent.reported_at ?? 0) <= before, 'its last report came before');
    const { convergence } = answer;
    assert.deepEqual(
      [convergence?.clients, convergence?.first, convergence?.half, convergence?.last],
      [3, held, null, null],
    );

    const text = await runHere('policysync', ['trace', String(seq), '--server-url', server.url]);
    assert.equal(text.code, 0, text.stderr);
    assert.match(
      text.stdout,
      new RegExp(`^Data update ${seq} \\(in-the-way\\): "a test", topic policy_data, /app/rbac/allow\n`),
    );
    assert.match(text.stdout, /\n {2}announced +\S+ \S+ UTC +\+\S+ m?s +to 4 connections of the server\n/);
    assert.match(text.stdout, /\nrefuses +refused( +\+\S+ m?s){2} +no, \+\S+ m?s +\+\S+ m?s\n {2}.*\/app\/rbac\/allow/);
    assert.match(
      text.stdout,
      /\nstops +not heard +- +- +- +-\n {2}it has applied up to \d+; its last report came \S+ s ago\n/,
    );
    assert.match(text.stdout, /\n\S+:\d+ +does not say +/);
    assert.match(text.stdout, /\n4 clients: 1 applied, 1 refused, 1 not heard, 1 does not say\.\n/);

    frozen.thaw();
    const later = await traced(server.url, 'in-the-way', states.replace('not_heard', 'applied'));
    assert.equal(later.convergence?.first, held);
    assert((later.convergence?.half ?? 0) >= held && later.convergence?.last === null);
  });

  it('a commit that is applied, one that an engine refuses, and one that the server refuses', async () => {
    const first = await repo.git('rev-parse', 'HEAD');
    const name = clientNameOfOpal(await trace(server.url, first.slice(0, 8)));
    const applied = await traced(server.url, first.slice(0, 8), `${name} unknown, refuses applied`);
    assert.deepEqual([applied.kind, applied.id, applied.state], ['commit', first, 'served']);
    assert.deepEqual(stagesOf(applied).toSorted(), ['agreed', 'announced', 'checked', 'found', 'served']);

    const broken = await commit({ 'rbac.rego': `${POLICY}\nbroken if nowhere(1)\n` });
    const byEngine = await traced(server.url, await seenCommit(broken), `${name} unknown, refuses refused`);
    const why = clientOf(byEngine, 'refuses');
    assert.deepEqual([why.file, why.line], ['rbac.rego', 7]);
    assert.match(why.reason ?? '', /undefined function nowhere/);
    assert((why.heard_at ?? 0) <= (why.fetched_at ?? 0) && (why.fetched_at ?? 0) <= (why.refused_at ?? 0));

    const badFile = 'what is not good/data.json';
    const bad = await commit({ 'rbac.rego': POLICY, [badFile]: '{' });
    await seenCommit(bad);
    const byServer = await until(
      async () => {
        const found = await trace(server.url, bad);
        return found.state === 'refused' ? found : undefined;
      },
      { ...WITHIN, what: 'the server refuses it' },
    );
    assert.deepEqual([byServer.state, byServer.total, byServer.error?.code], ['refused', 0, 'policy_commit_refused']);
    assert.match(byServer.error?.message ?? '', /^is not valid JSON/);
    assert.equal(byServer.error?.file, badFile, 'a folder may have any name');
    assert.deepEqual(stagesOf(byServer).toSorted(), ['found', 'refused']);

    const good = await commit({ [badFile]: '{}' });
    const last = await traced(server.url, await seenCommit(good), `${name} unknown, refuses applied`);
    const { convergence } = last;
    assert.equal(convergence?.last, clientOf(last, 'refuses').applied_at);
    assert.deepEqual(convergence?.curve, [{ at: convergence?.last, applied: 1 }]);
    const replaced = await trace(server.url, broken);
    assert.deepEqual([replaced.state, clientOf(replaced, 'refuses').state], ['replaced', 'refused']);
    assert.equal((await trace(server.url, first)).state, 'replaced');
  });

  it('an update whose source never answered, and that a later one replaced, was applied by nobody', async () => {
    const source = `http://127.0.0.1:${await freePort()}/none`;
    const entry = { topics: [TOPIC], dst_path: '/ext' };
    const config = async (id: string, entries: object[]): Promise<number> =>
      Number(field((await postJson(`${server.url}/data/config`, { id, reason: 'a test', entries })).json, 'seq'));
    const failing = await config('never-fetched', [{ ...entry, url: source }]);
    const name = clientNameOfOpal(await trace(server.url, failing));
    const all = (state: string): string =>
      [`${name} unknown`, ...['holds', 'refuses', 'stops'].map((id) => `${id} ${state}`)].join(', ');
    await traced(server.url, failing, all('failing'));
    const removed = await config('removed', [{ ...entry, url: '', save_method: 'DELETE' }]);
    await traced(server.url, removed, all('applied'));
    const replaced = await traced(server.url, failing, all('replaced'));
    for (const { kind, reason, ...times } of replaced.clients.filter((client) => client.kind === 'session')) {
      assert.equal(reason, 'a later update replaced it before it was written', kind);
      assert.notEqual(times.heard_at, null);
      assert.deepEqual([times.fetched_at, times.applied_at, times.applied_seen_at], [null, null, null]);
    }
    assert.deepEqual([replaced.convergence?.first, replaced.convergence?.last], [null, null]);
    const { json } = await request(`${server.url}/changes?path=/ext`);
    const changes = field(json, 'changes');
    assert(Array.isArray(changes));
    assert.deepEqual(
      changes.map((change) => [field(change, 'id'), field(change, 'counts')]),
      [
        [String(removed), { applied: 3, unknown: 1 }],
        [String(failing), { replaced: 3, unknown: 1 }],
      ],
    );
  });

  it('of an update with many topics the first hundred are named, and how many there are', async () => {
    const topics = Array.from({ length: 150 }, (_, at) => `wide${at}`);
    const entries = [topics.slice(0, 75), topics.slice(75)].map((some) => ({
      ...{ url: '', topics: some, dst_path: '/wide', data: 1 },
    }));
    const { json } = await postJson(`${server.url}/data/config`, { id: 'wide', reason: 'a test', entries });
    const answer = await trace(server.url, Number(field(json, 'seq')));
    assert.deepEqual([answer.topics, answer.topics_total], [topics.slice(0, 100), 150]);
  });

  it('pages of clients have everyone once, and the counts are of all pages', async () => {
    const whole = await trace(server.url, 'first');
    const names: string[] = [];
    for (let query = '?limit=1'; ; ) {
      const page = await trace(server.url, 'first', query);
      assert.deepEqual([page.total, page.counts], [whole.total, whole.counts]);
      names.push(...page.clients.map(({ client_id: name }) => name));
      if (page.next === null) break;
      query = `?limit=1&after=${encodeURIComponent(page.next)}`;
    }
    assert.deepEqual(
      names,
      whole.clients.map(({ client_id: name }) => name),
    );
    const all = await runHere('policysync', ['trace', 'first', '--server-url', server.url, '--json']);
    assert.equal((JSON.parse(all.stdout) as TraceAnswer).clients.length, whole.total);
  });

  it('what is not known is 404 and exit code 1, and what is not in memory any more is derived', async () => {
    for (const id of ['999999', '0', 'nowhere', 'abcdef0', '%00', '9'.repeat(90)]) {
      const { status, headers } = await request(`${server.url}/trace/${id}`);
      assert.deepEqual([status, headers.get('x-sync-error')], [404, 'trace_unknown'], id);
    }
    const { code, stderr } = await runHere('policysync', ['trace', '999999', '--server-url', server.url]);
    assert.equal(code, 1);
    assert.match(
      stderr,
      /no data update or policy commit "999999" is known: the update log goes to \d+\nWhat to do: .*trace_unknown/,
    );

    // Last: it ends the server, and the next one knows of its log alone.
    const { port, stateDir } = server;
    const first = await repo.git('rev-list', '--max-parents=0', 'HEAD');
    const row = await trace(server.url, 1);
    assert.deepEqual([row.kind, row.id], ['commit', first], 'the seq of a commit is traced as the commit');
    await server.stop();
    const env = { SYNC_POLICY_REPO_URL: repo.url, SYNC_SERVER_BIND_PORT: String(port) };
    server = await startServer(env, { stateDir });
    const derived = await until(
      async () => {
        const found = await trace(server.url, 'first');
        return found.counts.applied === 3 ? found : undefined;
      },
      { ...WITHIN, what: 'the clients are back' },
    );
    assert.deepEqual([derived.in_memory, derived.convergence], [false, null]);
    assert.match(derived.notes.join(), /no server instance has its times in memory/);
    assert.deepEqual(stagesOf(derived), ['recorded']);
    assert.equal(clientOf(derived, 'holds').applied_seen_at, null);

    const older = await trace(server.url, first);
    assert.deepEqual([older.state, older.stages, older.convergence], ['replaced', [], null]);
    const notes = older.notes.filter((note) => !note.endsWith('clients are still coming back'));
    assert.deepEqual([clientOf(older, 'refuses').state, notes.length], ['applied', 1]);
    // Its clients have told the new server again what became of the last commits.
    const [, , broken = ''] = (await repo.git('rev-list', 'HEAD')).split('\n');
    const refused = clientOf(await trace(server.url, broken), 'refuses');
    assert.deepEqual([refused.state, refused.refused_at !== null], ['refused', true]);
    const { changes } = (await request(`${server.url}/changes?kind=policy`)).json as { changes: { id: string }[] };
    assert(changes.some(({ id }) => id === first));
    for (const { id } of changes) await trace(server.url, id);
    const head = await until(
      async () => {
        const found = await trace(server.url, await repo.git('rev-parse', 'HEAD'));
        return found.in_memory && found.counts.applied === 1 ? found : undefined;
      },
      { ...WITHIN, what: 'the served commit is announced again' },
    );
    assert.match(head.notes.join(), /the server started with this commit/);
    assert.equal(head.convergence, null);
  });

  /** Commits, and has the server look. */
  async function commit(files: Readonly<Record<string, string>>): Promise<string> {
    const hash = await repo.commit(files);
    assert.equal((await postJson(`${server.url}/policy/refresh`, {})).status, 200);
    return hash;
  }

  function seenCommit(hash: string): Promise<string> {
    return until(async () => ((await request(`${server.url}/trace/${hash}`)).status === 200 ? hash : undefined), {
      ...WITHIN,
      what: `the server has seen ${hash}`,
    });
  }

  function clientNameOfOpal({ clients }: TraceAnswer): string {
    return clients.find(({ kind }) => kind === 'plain')?.client_id ?? '';
  }
});
