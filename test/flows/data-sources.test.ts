import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readFile, writeFile } from 'node:fs/promises';
import { createServer, type IncomingHttpHeaders, type ServerResponse } from 'node:http';
import { type AddressInfo, createServer as createTcpServer } from 'node:net';
import { join } from 'node:path';
import { after, before, describe, it, test } from 'node:test';
import { runCommand } from '../support/command.js';
import { cutCable } from '../support/cut-cable.js';
import { field, postJson, request } from '../support/http.js';
import { listening } from '../support/http-server.js';
import { NO_POSTGRES, ROLE, startPostgres } from '../support/postgres.js';
import { repoRoot } from '../support/repo.js';
import {
  baseEntries,
  failing,
  publish,
  publishText,
  type StartedClient,
  startClient,
} from '../support/start-client.js';
import { type StartedServer, startServer } from '../support/start-server.js';
import { tempDir } from '../support/temp-dir.js';
import { until } from '../support/until.js';

const ENV = { SYNC_POLICY_UPDATER_ENABLED: 'false', SYNC_PERIODIC_UPDATE_INTERVAL_MIN: '0.05' };

/** What a source was asked. */
interface Asked {
  readonly method: string;
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
}

interface Source extends AsyncDisposable {
  readonly url: string;
  readonly asked: readonly Asked[];
}

/** A data source that keeps what it was asked. */
async function source(answer: (asked: Asked, response: ServerResponse) => void): Promise<Source> {
  const all: Asked[] = [];
  const server = createServer((request_, response) => {
    let body = '';
    request_.setEncoding('utf8').on('data', (text: string) => {
      body += text;
    });
    request_.on('end', () => {
      const { method = '', url: path = '', headers } = request_;
      const asked = { method, path, headers, body };
      all.push(asked);
      answer(asked, response);
    });
  });
  return { ...(await listening(server)), asked: all };
}

/** Writes of documents that the engine has taken. */
async function writes(client: StartedClient): Promise<number> {
  const { text } = await request(`${client.engineUrl}/metrics`);
  const lines = text.split('\n').filter((line) => /^http_request_duration_seconds_count\{.*v1\/data.*\}/.test(line));
  return lines
    .filter((line) => /method="(put|patch)"/.test(line))
    .reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(' '))), 0);
}

test('a polled source is asked whether there is something new, and what is not is not written', async () => {
  let version = 1;
  await using api = await source(({ headers }, response) => {
    response.setHeader('etag', `"v${version}"`);
    if (headers['if-none-match'] === `"v${version}"`) response.writeHead(304).end();
    else response.end(JSON.stringify({ version }));
  });
  const entry = { url: `${api.url}/n`, dst_path: '/n', periodic_update_interval: 0.05 };
  await using server = await startServer(baseEntries(entry));
  await using client = await startClient({ serverUrl: server.url, env: ENV });
  await client.holds('/n', { version: 1 });
  await client.healthy();
  const before = await writes(client);
  assert(before > 0);
  const count = api.asked.length;
  await until(() => api.asked.length >= count + 5, { withinMs: 20_000, what: 'it is polled' });
  assert.equal(await writes(client), before);
  assert.equal(api.asked.at(-1)?.headers['if-none-match'], '"v1"');
  version = 2;
  await client.holds('/n', { version: 2 });
});

test('a new interval counts from the next read of the configuration, and so does the end of an entry', async () => {
  await using api = await source(({ path }, response) => response.end(JSON.stringify({ path })));
  const reads = (path: string): number => api.asked.filter((asked) => asked.path === path).length;
  const stays = { url: `${api.url}/stays`, dst_path: '/stays', periodic_update_interval: 3600 };
  const goes = { url: `${api.url}/goes`, dst_path: '/goes', periodic_update_interval: 0.05 };
  await using first = await startServer(baseEntries(stays, goes));
  await using cable = await cutCable(first.url);
  await using client = await startClient({ serverUrl: cable.url, env: ENV });
  await until(() => reads('/goes') >= 4, { withinMs: 20_000, what: 'the second one is polled' });
  await client.healthy();
  assert.equal(reads('/stays'), 1);

  // Another server with another log: on its word nothing is removed, but nobody reads what it does not list.
  await using second = await startServer(baseEntries({ ...stays, periodic_update_interval: 0.05 }));
  cable.connectTo(second.url);
  cable.cut();
  cable.mend();
  await until(() => reads('/stays') >= 5, { withinMs: 20_000, what: 'the first one is polled' });
  const before = reads('/goes');
  const later = reads('/stays') + 10;
  await until(() => reads('/stays') >= later, { withinMs: 20_000, what: 'the first one is polled on' });
  assert(reads('/goes') <= before + 1, 'the second one is polled no more');
  assert.deepEqual(await client.data('/goes'), { path: '/goes' });
  await client.healthy();
});

test('programs bring their own fetch providers: by createClient, and as modules that a setting names', async () => {
  await using folder = await tempDir();
  const module = join(folder.path, 'rows.mjs');
  await writeFile(
    module,
    `export default {
      names: ['RowsFetchProvider'],
      async fetch({ url, config }, { sink }) {
        const body = await sink.take([Buffer.from(JSON.stringify({ url, rows: config.rows }))]);
        return { outcome: 'body', body };
      },
    };`,
  );
  await using server = await startServer();
  await using client = await startClient({
    serverUrl: server.url,
    env: { ...ENV, SYNC_FETCH_PROVIDER_MODULES: module },
    fetchProviders: [
      {
        names: ['EnvFetchProvider'],
        fetch: async ({ url }, { sink }) => ({ outcome: 'body', body: await sink.take([Buffer.from(`"${url}"`)]) }),
      },
    ],
  });
  await client.healthy();
  await publish(
    server.url,
    { url: 'env:HOME', dst_path: '/env', config: { fetcher: 'EnvFetchProvider' } },
    { url: 'rows:all', dst_path: '/rows', config: { fetcher: 'RowsFetchProvider', rows: [1] } },
  );
  await client.holds('/env', 'env:HOME');
  await client.holds('/rows', { url: 'rows:all', rows: [1] });
});

/** What the provider of the documentation leaves to its reader: asks for a table by name, and takes what comes. */
const READ_TABLE = `
async function readTable(socket, table, signal) {
  socket.write(table);
  const parts = [];
  for await (const part of socket) parts.push(part);
  signal.throwIfAborted();
  return JSON.parse(Buffer.concat(parts).toString()) ?? undefined;
}
`;

/** Answers the name of a table with the table, or with null. */
async function tableServer(tables: Readonly<Record<string, object>>): Promise<AsyncDisposable & { url: string }> {
  const server = createTcpServer((socket) => {
    socket.once('data', (name) => socket.end(JSON.stringify(tables[String(name)] ?? null)));
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  return { url: `table://127.0.0.1:${port}`, [Symbol.asyncDispose]: async () => void server.close() };
}

test('the provider of the documentation works from a folder of its own, its errors included', async () => {
  const page = await readFile(join(repoRoot(), 'docs', 'how-to', 'data-sources.md'), 'utf8');
  const [, documented] = /```js\n(\/\/ table-provider\.mjs\n.*?)```/s.exec(page) ?? [];
  assert(documented !== undefined, 'it is on the page');
  await using folder = await tempDir();
  const module = join(folder.path, 'table-provider.mjs');
  await writeFile(module, documented + READ_TABLE);
  await using tables = await tableServer({ users: { version: '1', rows: ['ann'] } });
  const entry = (table: string): object => ({
    url: tables.url,
    dst_path: `/${table}`,
    config: { fetcher: 'tableFetchProvider', table },
  });
  await using server = await startServer();
  await using client = await startClient({
    serverUrl: server.url,
    env: { ...ENV, SYNC_FETCH_PROVIDER_MODULES: module },
  });
  await publish(server.url, entry('users'), entry('roles'));
  await client.holds('/users', { version: '1', rows: ['ann'] });
  const health = await client.tells('it is told', (json) => failing(json).length === 1);
  assert.equal(failing(health.json)[0], '/roles: roles is not there');
});

test('a module that is no fetch provider ends the client at its start, with its name', async () => {
  const { code, stderr } = await runCommand('client', ['run'], { SYNC_FETCH_PROVIDER_MODULES: '/nowhere/mine.mjs' });
  assert.equal(code, 2, stderr);
  assert.match(stderr, /SYNC_FETCH_PROVIDER_MODULES: the module \/nowhere\/mine\.mjs cannot be loaded/);
});

describe('Postgres as a data source', { skip: NO_POSTGRES }, () => {
  it('reaches the engine with its numbers as they are, follows its rows, and shows its password nowhere', async () => {
    await using postgres = await startPostgres();
    await postgres.run(`create table users (name text primary key, credit numeric, id int8);
      grant select on users to ${ROLE.name};
      insert into users values ('ann', 1.50, 9223372036854775807)`);
    const url = `postgresql://127.0.0.1:${postgres.port}/postgres`;
    const config = {
      fetcher: 'PostgresFetchProvider',
      query: 'select * from users order by name',
      connection_params: { user: ROLE.name, password: ROLE.password },
      fetch_key: 'name',
    };
    await using server = await startServer(
      baseEntries({ url, config, dst_path: '/users', periodic_update_interval: 0.1 }),
    );
    await using client = await startClient({ serverUrl: server.url, env: ENV });
    await client.healthy();
    assert.equal(
      await client.text('/users'),
      '{"result":{"ann":{"credit":1.50,"id":9223372036854775807,"name":"ann"}}}\n',
    );
    await postgres.run("insert into users values ('bob', 0, 1)");
    await client.holds('/users/bob', { name: 'bob', credit: 0, id: 1 });

    await postgres.run(`revoke select on users from ${ROLE.name}`);
    const health = await client.tells('it fails', (json) => failing(json).length === 1);
    assert.match(failing(health.json)[0] ?? '', /permission denied for table users \(SQLSTATE 42501\)/);
    assert.deepEqual(await client.data('/users/bob'), { name: 'bob', credit: 0, id: 1 });
    assert(!`${health.text}${JSON.stringify(client.log)}`.includes(ROLE.password));
    await postgres.run(`grant select on users to ${ROLE.name}`);
    await client.healthy();
  });
});

/** Each way to save, at each kind of path: what is there before, what is published, what is there then. */
const PATCHLIKE = [{ op: 'add', path: '/x', extra: 1 }];
const SAVES: readonly { what: string; entry: object; path: string; after: unknown }[] = [
  { what: 'PUT of a document', entry: { dst_path: '/p', data: { a: 1 } }, path: '/p', after: { a: 1 } },
  { what: 'PUT below it', entry: { dst_path: '/p/q/r', data: [1] }, path: '/p', after: { a: 1, q: { r: [1] } } },
  { what: 'PUT above that', entry: { dst_path: 'p/q', data: { s: 2 } }, path: '/p', after: { a: 1, q: { s: 2 } } },
  {
    what: 'PUT of nulls',
    entry: { dst_path: '/p', data: { a: null, b: [null] } },
    path: '/p',
    after: { a: null, b: [null] },
  },
  {
    what: 'PUT of a list that looks like a patch',
    entry: { dst_path: '/p/l', data: PATCHLIKE },
    path: '/p/l',
    after: PATCHLIKE,
  },
  { what: 'PUT of a scalar', entry: { dst_path: '/p/n', data: false }, path: '/p/n', after: false },
  {
    what: 'PATCH of a document',
    entry: {
      dst_path: '/p',
      save_method: 'PATCH',
      data: [
        { op: 'add', path: '/z', value: null },
        { op: 'remove', path: '/l' },
        { op: 'replace', path: '/n', value: { deep: null } },
      ],
    },
    path: '/p',
    after: { a: null, b: [null], n: { deep: null }, z: null },
  },
  {
    what: 'PATCH below a document',
    entry: { dst_path: '/p/n', save_method: 'PATCH', data: [{ op: 'add', path: '/more', value: 1 }] },
    path: '/p/n',
    after: { deep: null, more: 1 },
  },
  {
    what: 'DELETE below a document',
    entry: { dst_path: '/p/n', save_method: 'DELETE' },
    path: '/p',
    after: { a: null, b: [null], z: null },
  },
  { what: 'DELETE of a document', entry: { dst_path: '/p', save_method: 'DELETE' }, path: '/p', after: undefined },
  {
    what: 'DELETE of what is not there',
    entry: { dst_path: '/nothing', save_method: 'DELETE' },
    path: '/nothing',
    after: undefined,
  },
  { what: 'PUT at the root', entry: { dst_path: '/', data: { r: { x: null }, s: 1 } }, path: '/r', after: { x: null } },
  {
    what: 'PUT at the root, by the empty path',
    entry: { dst_path: '', data: { r: { y: 1 } } },
    path: '/s',
    after: undefined,
  },
  {
    what: 'PATCH at the root',
    entry: { dst_path: '', save_method: 'PATCH', data: [{ op: 'add', path: '/t', value: { u: null } }] },
    path: '/t',
    after: { u: null },
  },
  {
    what: 'PATCH at the root leaves the rest',
    entry: { dst_path: '/', save_method: 'PATCH', data: [{ op: 'remove', path: '/t' }] },
    path: '/r',
    after: { y: 1 },
  },
  { what: 'DELETE at the root', entry: { dst_path: '/', save_method: 'DELETE' }, path: '/r', after: undefined },
];

const REFUSED: readonly { what: string; entry: object; at: string }[] = [
  { what: 'another method', entry: { save_method: 'POST', data: 1 }, at: 'save_method' },
  { what: 'a method in lower case', entry: { save_method: 'put', data: 1 }, at: 'save_method' },
  { what: 'no method', entry: { save_method: null, data: 1 }, at: 'save_method' },
  { what: 'a patch that is no list', entry: { save_method: 'PATCH', data: { op: 'add' } }, at: 'data' },
  {
    what: 'a patch of an unknown operation',
    entry: { save_method: 'PATCH', data: [{ op: 'x', path: '/a' }] },
    at: 'data',
  },
  { what: 'a patch without a value', entry: { save_method: 'PATCH', data: [{ op: 'add', path: '/a' }] }, at: 'data' },
  { what: 'a list at the root', entry: { dst_path: '', data: [1] }, at: 'data' },
  { what: 'a scalar at the root', entry: { dst_path: '/', data: 1 }, at: 'data' },
  { what: 'a DELETE with data', entry: { save_method: 'DELETE', data: {} }, at: 'data' },
];

describe('what an entry asks for', () => {
  let server: StartedServer;
  let client: StartedClient;
  before(async () => {
    server = await startServer();
    client = await startClient({ serverUrl: server.url, env: { ...ENV, SYNC_FETCH_METHODS: 'get,post,put' } });
    await client.healthy();
  });
  after(async () => {
    for (const part of [client, server]) await part[Symbol.asyncDispose]();
  });

  it('an entry says by which method, headers and body its source is asked, and may take a text', async () => {
    await using api = await source(({ path, method, body }, response) => {
      if (path === '/text') response.setHeader('content-type', 'text/plain').end('not "JSON"\nat all');
      else response.setHeader('content-type', 'text/html').end(JSON.stringify({ method, body }));
    });
    const form = { 'Content-Type': 'application/x-www-form-urlencoded' };
    await publish(
      server.url,
      { url: `${api.url}/get`, dst_path: '/get', config: { headers: { 'X-Key': 'k' }, process_data: false } },
      { url: `${api.url}/text-body`, dst_path: '/text_body', config: { method: 'POST', data: 'a b' } },
      { url: `${api.url}/json-body`, dst_path: '/json_body', config: { method: 'put', data: { a: [1] } } },
      {
        url: `${api.url}/form-body`,
        dst_path: '/form_body',
        config: { method: 'post', headers: form, data: { a: 1 } },
      },
      { url: `${api.url}/text`, dst_path: '/text', config: { is_json: false } },
    );
    await client.holds('/get', { method: 'GET', body: '' });
    await client.holds('/text_body', { method: 'POST', body: 'a b' });
    await client.holds('/json_body', { method: 'PUT', body: '{"a":[1]}' });
    await client.holds('/form_body', { method: 'POST', body: 'a=1' });
    await client.holds('/text', 'not "JSON"\nat all');
    const sent = (path: string): IncomingHttpHeaders | undefined =>
      api.asked.find((asked) => asked.path === path)?.headers;
    assert.equal(sent('/get')?.['x-key'], 'k');
    assert.equal(sent('/text-body')?.['content-type'], 'text/plain; charset=utf-8');
    assert.equal(sent('/json-body')?.['content-type'], 'application/json');
    assert.equal(sent('/form-body')?.['content-type'], 'application/x-www-form-urlencoded');
  });

  it('an entry of an unknown fetch provider fails with the names of those that are known; others go on', async () => {
    await using api = await source((_asked, response) => response.end('{"ok":true}'));
    await publish(
      server.url,
      { url: 'ldap://host/x', dst_path: '/people', config: { fetcher: 'LdapFetchProvider', method: 'whatever' } },
      { url: `${api.url}/a`, dst_path: '/a', config: { fetcher: 'httpfetchprovider' } },
    );
    await client.holds('/a', { ok: true });
    const health = await client.tells('it is told', (json) => failing(json).length === 1);
    assert.match(failing(health.json)[0] ?? '', /^\/people: .*"LdapFetchProvider" is not known; known are HttpFetch/);
    const tries = client.log.filter(({ msg }) => msg.startsWith('data source cannot be read'));
    assert.equal(tries.length, 1, 'it is not tried again');
    await publish(server.url, { url: `${api.url}/people`, dst_path: '/people' });
    await client.healthy();
  });

  it('save_method: PUT, PATCH and DELETE at every kind of path, inline and from a URL', async () => {
    const documents = new Map<string, string>();
    await using api = await source(({ path }, response) => response.end(documents.get(path) ?? '{}'));
    for (const byUrl of [false, true]) {
      for (const [index, { what, entry, path, after }] of SAVES.entries()) {
        const { data, ...rest } = { data: undefined, ...entry };
        documents.set(`/${index}`, JSON.stringify(data));
        await publish(server.url, byUrl && data !== undefined ? { ...rest, url: `${api.url}/${index}` } : entry);
        await client.holds(path, after).catch((cause: unknown) => {
          throw new Error(`${what}${byUrl ? ', from a URL' : ''}`, { cause });
        });
      }
      await client.healthy();
    }
  });

  it('save_method: anything else is refused with 422 that names the field, and changes nothing', async () => {
    const before = await publish(server.url, { dst_path: '/seq', data: 1 });
    for (const { what, entry, at } of REFUSED) {
      const entries = [{ url: '', topics: ['policy_data'], dst_path: '/a', ...entry }];
      const answer = await postJson(`${server.url}/data/config`, { entries });
      assert.equal(answer.status, 422, what);
      const loc = field(answer.json, 'detail', 0, 'loc');
      assert(Array.isArray(loc) && loc.slice(0, 4).join('.') === `body.entries.0.${at}`, `${what}: ${answer.text}`);
    }
    assert.equal(
      await publishText(server.url, '{"entries":[{"url":"","topics":["t"],"dst_path":"/a","data":1}]}'),
      before + 1,
    );
  });
});
