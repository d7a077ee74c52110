import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { createPostgresProvider } from '../../src/client/fetch/postgres-provider.js';
import type { FetchRequest } from '../../src/client/fetch/provider.js';
import type { Fetcher } from '../../src/client/fetch/providers.js';
import type { SyncError } from '../../src/lib/errors.js';
import { type OutgoingTls, outgoingTls, TlsFiles } from '../../src/lib/net/tls.js';
import { makeAuthority } from '../support/certificates.js';
import { cutCable } from '../support/cut-cable.js';
import { failureOf as anyFailureOf, startFetcher, type TestFetcher, textOf } from '../support/fetcher.js';
import { NO_POSTGRES, ROLE, startPostgres, type TestPostgres } from '../support/postgres.js';
import { until } from '../support/until.js';

const never = new AbortController().signal;

function setup(
  times: {
    connectMs?: number;
    statementMs?: number;
    totalMs?: number;
    limitBytes?: number;
    tls?: OutgoingTls;
    turns?: { concurrency: number; perHost: number };
  } = {},
): Promise<TestFetcher> {
  const { connectMs = 5000, statementMs = 20_000, totalMs = 20_000, limitBytes = 50_000_000, tls } = times;
  const provider = createPostgresProvider({ connectTimeoutMs: connectMs, statementTimeoutMs: statementMs, tls });
  return startFetcher(provider, { totalTimeoutMs: totalMs, concurrency: 4, limitBytes, ...times.turns });
}

function request(url: string, query: string, more: object = {}): FetchRequest {
  return { url, config: { fetcher: 'PostgresFetchProvider', query, ...more } };
}

/** The error that a read ended with; it never shows the password. */
async function failureOf(read: Promise<unknown>): Promise<SyncError> {
  const error = await anyFailureOf(read);
  assert(!`${error.message} ${error.stack} ${String(error.cause)}`.includes(ROLE.password), error.message);
  return error;
}

/** Connections that the provider has open, those for which the condition holds. */
async function sessions(postgres: TestPostgres, condition = 'true'): Promise<number> {
  const [row] = await postgres.run(
    `select count(*)::int as n from pg_stat_activity where application_name = 'policysync' and ${condition}`,
  );
  return (row as { n: number }).n;
}

describe('Postgres as a data source', { skip: NO_POSTGRES }, () => {
  /** For the tests that leave it as it is. */
  let postgres: TestPostgres;
  before(async () => {
    postgres = await startPostgres();
  });
  after(() => postgres[Symbol.asyncDispose]());

  it('has six reads of one database at a time at most, however many turns there are', async () => {
    await using fetcher = await setup({ turns: { concurrency: 30, perHost: 20 } });
    const query = 'select 1 as n from pg_sleep(0.4)';
    const reads = Promise.all(Array.from({ length: 15 }, () => textOf(fetcher, request(postgres.url, query))));
    let [isOver, most] = [false, 0];
    const watch = async (): Promise<void> => {
      // A connection that is being closed is still there for a moment, and reads nothing.
      while (!isOver) most = Math.max(most, await sessions(postgres, "state = 'active'"));
    };
    const end = reads.finally(() => {
      isOver = true;
    });
    await Promise.all([end, watch()]);
    assert.equal(most, 6);
  });

  it('gives rows as a list, the first row, or rows by a column, as OPAL does', async () => {
    await using fetcher = await setup();
    await postgres.run(`create table users (name text, role text); grant select on users to ${ROLE.name};
      insert into users values ('ann', 'admin'), ('bob', null)`);
    const query = 'select name, role from users order by name -- all of them';
    const [ann, bob] = [
      { name: 'ann', role: 'admin' },
      { name: 'bob', role: null },
    ];
    const read = async (more: object, sql = query): Promise<unknown> =>
      JSON.parse(await textOf(fetcher, request(postgres.url, sql, more)));
    assert.deepEqual(await read({}), [ann, bob]);
    assert.deepEqual(await read({ fetch_one: false, fetch_key: null }), [ann, bob]);
    assert.deepEqual(await read({ fetch_one: true }), ann);
    assert.deepEqual(await read({ fetch_key: 'name' }), { ann, bob });
    assert.deepEqual(await read({ fetch_key: 'role' }, "select * from users where name = 'ann';"), { admin: ann });
    assert.deepEqual(await read({ fetch_key: 'n"1' }, 'select 7 as "n""1"'), { 7: { 'n"1': 7 } });
    const none = 'select * from users where false';
    assert.deepEqual(
      [await read({}, none), await read({ fetch_one: true }, none), await read({ fetch_key: 'name' }, none)],
      [[], {}, {}],
    );
    assert.deepEqual(await read({}, 'values (1, null)'), [{ column1: 1, column2: null }]);
    assert.deepEqual(await read({}, 'with a as (select 1 as policysync) select * from a'), [{ policysync: 1 }]);
    assert.equal(await sessions(postgres), 0);
  });

  it('keeps numbers as they are, and JSON columns as documents', async () => {
    await using fetcher = await setup();
    const sql = `select 9223372036854775807::int8 as big, 12345678901234567890.10::numeric as exact, 1.5::float8 as half,
      'NaN'::float8 as nan, '{"a": 1.0, "n": 123456789012345678901}'::json as doc, '{"b": [null]}'::jsonb as docb,
      array[1, 2] as list, null as nothing, 'ü"\\'::text as text, timestamptz '2026-01-02 03:04:05+00' at time zone 'UTC' as at`;
    assert.equal(
      await textOf(fetcher, request(postgres.url, sql, { fetch_one: true })),
      '{"big":9223372036854775807,"exact":12345678901234567890.10,"half":1.5,"nan":"NaN",' +
        '"doc":{"a": 1.0, "n": 123456789012345678901},"docb":{"b": [null]},"list":[1,2],"nothing":null,' +
        '"text":"ü\\"\\\\","at":"2026-01-02T03:04:05"}',
    );
  });

  it('connects by URL or by connection_params, which win, over TCP and over a Unix socket', async () => {
    await using fetcher = await setup();
    const { port } = postgres;
    const [user, password] = [ROLE.name, ROLE.password];
    for (const [url, params] of [
      [postgres.url.replace('postgresql', 'postgres'), undefined],
      [`postgresql://nobody:wrong@127.0.0.1:1/none`, { host: '127.0.0.1', port, user, password, database: 'postgres' }],
      [`postgresql://127.0.0.1/postgres`, { port: String(port), user, password }],
      [`postgresql:///postgres?host=${encodeURIComponent(postgres.socketDir)}&port=${port}`, { user, password }],
      [`${postgres.url}?sslmode=disable`, undefined],
    ] as const) {
      const more = params === undefined ? {} : { connection_params: params };
      assert.equal(
        await textOf(fetcher, request(url, 'select current_user::text as me', more)),
        '[{"me":"reader"}]',
        url,
      );
    }
  });

  it('reads 60,000 rows of one moment into a file, and stops at the size limit', async () => {
    await using fetcher = await setup();
    const sql = "select i as id, repeat('x', 300) as text from generate_series(1, 60000) i";
    const result = await fetcher.fetch(request(postgres.url, sql, { fetch_key: 'id' }), never);
    assert.equal(result.outcome, 'body');
    await using body = result.body;
    const read = JSON.parse(body.text()) as Record<string, { id: number }>;
    assert.equal(Object.keys(read).length, 60_000);
    assert.equal(read[60_000]?.id, 60_000);
    await using small = await setup({ limitBytes: 1_000_000 });
    const failure = await failureOf(small.fetch(request(postgres.url, sql), never));
    assert.deepEqual([failure.code, failure.retryable], ['fetch_too_large', false]);
    assert.match(
      failure.message,
      /^postgresql:\/\/\*\*\*@127\.0\.0\.1:\d+\/postgres: the document is larger than 1000000 bytes$/,
    );
    assert.deepEqual(await small.files(), []);
    await until(async () => (await sessions(postgres)) === 0, { withinMs: 20_000, what: 'its connections are closed' });
  });

  it('changes nothing in the database, and runs one statement only', async () => {
    await using fetcher = await setup();
    await postgres.run(`create table t (n int); grant all on t to ${ROLE.name};
      create function add() returns int language sql as 'insert into t values (1) returning n'`);
    const cases: [string, RegExp][] = [
      ['select add()', /read-only transaction \(SQLSTATE 25006\)/],
      ['with x as (insert into t values (1) returning n) select * from x', /SQLSTATE/],
      ['delete from t', /syntax error.*SQLSTATE 42601/],
      ['select 1) as a; commit; insert into t values (2); select 1 from (select 1', /SQLSTATE 42601/],
    ];
    for (const [sql, says] of cases) {
      const failure = await failureOf(fetcher.fetch(request(postgres.url, sql), never));
      assert.match(failure.message, says, sql);
      assert.deepEqual([failure.code, failure.retryable], ['fetch_failed', false], sql);
    }
    assert.deepEqual(await postgres.run('select count(*)::int as n from t'), [{ n: 0 }]);
  });

  it('names what is wrong, never with the password, and says what may pass by itself', async () => {
    await using fetcher = await setup({ statementMs: 300 });
    const { url, port } = postgres;
    const cases: [string, string, object, RegExp, boolean][] = [
      [url, 'select * from missing', {}, /relation "missing" does not exist \(SQLSTATE 42P01\)$/, false],
      [url, 'select 1 as a', { fetch_key: 'b' }, /b.*does not exist \(SQLSTATE 42703\)$/, false],
      [url, 'select null::text as a', { fetch_key: 'a' }, /a row has no value in a, which is its key$/, false],
      [url, 'select 1/0 as a', {}, /division by zero \(SQLSTATE 22012\)$/, false],
      [url, 'select pg_sleep(20)::text as a', {}, /statement timeout \(SQLSTATE 57014\)$/, true],
      [url.replace(ROLE.password, 'hush-wrong'), 'select 1 as a', {}, /password authentication failed/, false],
      [url.replace(`:${ROLE.password}`, ''), 'select 1 as a', {}, /password/, false],
      [url.replace(/postgres$/, 'absent'), 'select 1 as a', {}, /database "absent" does not exist/, false],
      [`${url}?sslmode=require`, 'select 1 as a', {}, /does not support SSL connections$/, false],
      [url.replace(String(port), '1'), 'select 1 as a', {}, /ECONNREFUSED/, true],
    ];
    for (const [at, sql, more, says, retryable] of cases) {
      const failure = await failureOf(fetcher.fetch(request(at, sql, more), never));
      assert.match(failure.message, says);
      assert.match(failure.message, /^postgresql:\/\/\*\*\*@127\.0\.0\.1:\d+\//);
      assert.deepEqual([failure.code, failure.retryable], ['fetch_failed', retryable], failure.message);
    }
  });

  it('gives up on a server that does not answer, and ends at once when asked to', async () => {
    await using cable = await cutCable(`http://127.0.0.1:${postgres.port}`);
    const url = postgres.url.replace(String(postgres.port), new URL(cable.url).port);
    cable.freeze();
    await using hasty = await setup({ connectMs: 200 });
    const late = await failureOf(hasty.fetch(request(url, 'select 1 as a'), never));
    assert.match(late.message, /: no connection within 0\.2 s$/);
    cable.mend();

    await using fetcher = await setup({ totalMs: 500, statementMs: 60_000 });
    const slow = await failureOf(fetcher.fetch(request(url, 'select pg_sleep(60)::text as a'), never));
    assert.match(slow.message, /was not read within 0\.5 s$/);
    assert.equal(slow.retryable, true);

    await using patient = await setup();
    const stop = new AbortController();
    const reading = patient.fetch(
      request(url, "select i, repeat('x', 9000) as x, pg_sleep(0.05)::text from generate_series(1, 9000) i"),
      stop.signal,
    );
    await until(async () => (await sessions(postgres)) > 0, { withinMs: 20_000, what: 'it is connected' });
    const reason = new Error('stop');
    stop.abort(reason);
    assert.deepEqual(await Promise.allSettled([reading]), [{ status: 'rejected', reason }]);
    assert.deepEqual(await patient.files(), []);
  });

  it('encrypts where the server can, and checks who it is where the URL asks for that', async () => {
    await using authority = await makeAuthority('postgres authority');
    await using stranger = await makeAuthority('stranger');
    await using postgres = await startPostgres(await authority.issue('db'));
    const trusting = async (file: string): Promise<TestFetcher> =>
      setup({ tls: outgoingTls(await TlsFiles.open({ ca: { setting: 'CA', path: file } }), 'only') });
    await using fetcher = await trusting(authority.file);
    await using strange = await trusting(stranger.file);
    const sql = 'select ssl from pg_stat_ssl where pid = pg_backend_pid()';
    const read = (by: Fetcher, mode: string): Promise<string> =>
      textOf(by, request(`${postgres.url}${mode === '' ? '' : `?sslmode=${mode}`}`, sql));
    for (const mode of ['', 'prefer', 'require', 'verify-ca', 'verify-full']) {
      assert.equal(await read(fetcher, mode), '[{"ssl":true}]', mode);
    }
    assert.equal(await read(fetcher, 'disable'), '[{"ssl":false}]');
    for (const mode of ['verify-ca', 'verify-full']) {
      const failure = await failureOf(strange.fetch(request(`${postgres.url}?sslmode=${mode}`, sql), never));
      assert.match(failure.message, /certificate/);
    }
    assert.equal(await read(strange, 'require'), '[{"ssl":true}]');
  });

  it('tells a server that ends within a read, and reads when it is back', async () => {
    await using postgres = await startPostgres();
    await using fetcher = await setup();
    const reading = fetcher.fetch(request(postgres.url, 'select pg_sleep(60)::text as a'), never);
    const failed = failureOf(reading);
    await until(async () => (await sessions(postgres)) > 0, { withinMs: 20_000, what: 'it is connected' });
    await postgres.stop();
    assert.equal((await failed).retryable, true, (await failed).message);
    assert.equal((await failureOf(fetcher.fetch(request(postgres.url, 'select 1 as a'), never))).retryable, true);
    await postgres.resume();
    assert.equal(await textOf(fetcher, request(postgres.url, 'select 1 as a')), '[{"a":1}]');
  });
});

describe('an entry for Postgres', () => {
  it('refuses an entry that is not of its form, before anything is connected', async () => {
    await using fetcher = await setup();
    const url = `postgresql://u:${ROLE.password}@db.invalid/x`;
    const cases: [FetchRequest, RegExp][] = [
      [{ url, config: { fetcher: 'postgres' } }, /config\.query: /],
      [request(url, 'select 1', { fetchkey: 'a' }), /config: .*fetchkey/],
      [request(url, 'select 1', { connection_params: { port: 'x' } }), /config\.connection_params\.port: /],
      [request(url, 'select 1', { fetch_one: true, fetch_key: 'a' }), /fetch_key: does not go with fetch_one/],
      [request(`${url}?sslmode=maybe`, 'select 1'), /the URL\.sslmode: /],
      [request(`${url}?options=-c`, 'select 1'), /the URL: .*options/],
      [request('postgresql://db.invalid/x', 'select 1'), /names no user/],
      [request('https://db.invalid/x', 'select 1'), /form postgresql:/],
    ];
    for (const [wanted, says] of cases) {
      const failure = await failureOf(fetcher.fetch(wanted, never));
      assert.equal(failure.code, 'fetch_config_invalid');
      assert.match(failure.message, says);
    }
  });
});
