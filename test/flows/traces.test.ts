import assert from 'node:assert/strict';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { fileURLToPath } from 'node:url';
import { type StartedCommand, startCommand } from '../support/command.js';
import { type DataSource, startDataSource } from '../support/data-source.js';
import { type GitRepo, gitRepo } from '../support/git-repo.js';
import { field, postJson, request } from '../support/http.js';
import { freePort, testOpa } from '../support/opa.js';
import { type CollectedSpan, type SpanCollector, startSpanCollector } from '../support/span-collector.js';
import { FAST } from '../support/start-client.js';
import { NO_GATE } from '../support/start-server.js';
import { tempDir } from '../support/temp-dir.js';
import { until } from '../support/until.js';

const LISTENS = /"url":"(http:[^"]+)".*listening/;
const SDK = fileURLToPath(new URL('../support/send-spans.js', import.meta.url));
const TRACE = '4bf92f3577b34da6a3ce929d0e0e4736';
const OF_PUBLISHER = '00f067aa0ba902b7';
const WITHIN_MS = 20_000;

describe('traces of the real programs, with the SDK of OpenTelemetry loaded by --import', () => {
  const ends: (() => PromiseLike<void>)[] = [];
  const use = <T extends AsyncDisposable>(part: T): T => {
    ends.push(() => part[Symbol.asyncDispose]());
    return part;
  };
  let collector: SpanCollector;
  let repo: GitRepo;
  let source: DataSource;
  let server: StartedCommand;
  let url = '';
  const engines: string[] = [];

  function traced(program: string): Record<string, string> {
    return { NODE_OPTIONS: `--import ${SDK}`, TEST_SPANS_URL: collector.url(program) };
  }

  before(async () => {
    collector = use(await startSpanCollector());
    repo = use(await gitRepo());
    source = use(await startDataSource());
    const dir = use(await tempDir());
    await repo.commit({ 'app.rego': 'package app\n\nversion := 1\n' });
    const state = { SYNC_STATE_DIR: join(dir.path, 'state'), SYNC_SERVER_BIND_PORT: '0' };
    server = use(
      startCommand('server', ['run'], { ...state, ...NO_GATE, SYNC_POLICY_REPO_URL: repo.url, ...traced('server') }),
    );
    [, url = ''] = await server.says(LISTENS);
    for (const id of ['one', 'two']) {
      const engine = `http://127.0.0.1:${await freePort()}`;
      engines.push(engine);
      use(
        startCommand('client', ['run'], {
          ...FAST,
          ...{ SYNC_SERVER_URL: url, SYNC_CLIENT_ID: id, SYNC_CLIENT_API_SERVER_PORT: '0' },
          ...{ SYNC_POLICY_STORE_URL: engine, SYNC_INLINE_ENGINE_EXEC_PATH: await testOpa(), SYNC_ENGINE: 'inline' },
          ...traced(id),
        }),
      );
    }
    for (const engine of engines) await holds(engine, '/app/version', 1);
  });
  after(async () => {
    for (const end of ends.reverse()) await end();
  });

  async function holds(engine: string, path: string, value: unknown): Promise<void> {
    const look = async (): Promise<boolean> =>
      field((await request(`${engine}/v1/data${path}`)).json, 'result') === value;
    await until(look, { withinMs: WITHIN_MS, what: `${engine} has ${path}` });
  }

  /** The spans of a trace, once there are that many. */
  async function spansOf(trace: (span: CollectedSpan) => boolean, count: number): Promise<CollectedSpan[]> {
    const look = (): CollectedSpan[] => collector.spans.filter(trace);
    await until(() => look().length >= count, { withinMs: WITHIN_MS, what: `${count} spans` }).catch(
      (cause: unknown) => {
        throw new Error(JSON.stringify(collector.spans.map(({ program, name }) => `${program} ${name}`)), { cause });
      },
    );
    return look();
  }

  /** Each span with its parent, as `program name < program name`, sorted. */
  function lineage(spans: readonly CollectedSpan[]): string[] {
    const titles = new Map(spans.map(({ id, program, name }) => [id, `${program} ${name}`]));
    return spans.map(({ program, name, parent }) => `${program} ${name} < ${titles.get(parent) ?? parent}`).sort();
  }

  it('a publish is one trace over server and both clients, below the span of the publisher', async () => {
    source.serve('/users', 7);
    const entry = { url: `${source.url}/users`, topics: ['policy_data'], dst_path: '/users' };
    const headers = { traceparent: `00-${TRACE}-${OF_PUBLISHER}-01` };
    const answer = await postJson(`${url}/data/config`, { id: 'u1', entries: [entry], reason: 'r' }, headers);
    assert.equal(answer.status, 200, answer.text);
    for (const engine of engines) await holds(engine, '/users', 7);
    const spans = await spansOf(({ trace }) => trace === TRACE, 9);
    assert.deepEqual(lineage(spans), [
      'one apply < server notify',
      'one fetch < server notify',
      'one report < server notify',
      'server append < server publish',
      'server notify < server publish',
      `server publish < ${OF_PUBLISHER}`,
      'two apply < server notify',
      'two fetch < server notify',
      'two report < server notify',
    ]);
    for (const { name, scope, status, startMs, endMs, attributes } of spans) {
      assert.equal(scope, 'policysync', name);
      assert.equal(status, 0, name);
      assert(endMs >= startMs && endMs - startMs < WITHIN_MS, `${name}: ${startMs} to ${endMs}`);
      if (name !== 'append') assert.equal(attributes['policysync.update_id'], 'u1', name);
    }
    const [one] = spans.filter(({ program, name }) => program === 'one' && name === 'fetch');
    assert.deepEqual([one?.attributes['policysync.client_id'], one?.attributes['policysync.path']], ['one', 'users']);
  });

  it('a publisher without a span begins no less a trace, and a source that fails shows in it', async () => {
    const entry = { url: `${source.url}/nothing`, topics: ['policy_data'], dst_path: '/nothing' };
    await postJson(`${url}/data/config`, { id: 'u2', entries: [entry], reason: 'r' }, { traceparent: 'none' });
    const isFetch = ({ name, attributes }: CollectedSpan): boolean =>
      name === 'fetch' && attributes['policysync.update_id'] === 'u2';
    const [failed] = await spansOf(isFetch, 2);
    assert.equal(failed?.status, 2);
    const [publish] = await spansOf(({ name, trace }) => name === 'publish' && trace === failed?.trace, 1);
    assert.equal(publish?.parent, '');
    source.serve('/nothing', 1); // so that the clients are healthy again
    for (const engine of engines) await holds(engine, '/nothing', 1);
  });

  it('a commit is one trace from the read of the source to both engines', async () => {
    const hash = await repo.commit({ 'app.rego': 'package app\n\nversion := 2\n' });
    assert.equal((await postJson(`${url}/policy/refresh`, {})).status, 200);
    for (const engine of engines) await holds(engine, '/app/version', 2);
    const isOfIt = ({ attributes }: CollectedSpan): boolean => attributes['policysync.commit'] === hash;
    const spans = await spansOf(isOfIt, 8);
    assert.equal(new Set(spans.map(({ trace }) => trace)).size, 1);
    assert.deepEqual(lineage(spans), [
      'one policy apply < server policy notify',
      'one policy bundle fetch < server policy notify',
      'server policy bundle < server policy notify',
      'server policy bundle < server policy notify',
      'server policy fetch < ',
      'server policy notify < server policy fetch',
      'two policy apply < server policy notify',
      'two policy bundle fetch < server policy notify',
    ]);
  });

  it('what is held at the end is sent before the program ends', async () => {
    const body = { entries: [{ url: '', topics: ['t'], dst_path: '/last', data: 1 }], id: 'last', reason: '' };
    await postJson(`${url}/data/config`, body);
    server.process.kill('SIGTERM');
    const { code, stderr } = await server.result;
    assert.equal(code, 0, stderr);
    // The batches go out every 100 ms; this one was shorter ago.
    assert(collector.spans.some(({ attributes }) => attributes['policysync.update_id'] === 'last'));
  });
});
