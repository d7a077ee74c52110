import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { gitRepo } from '../support/git-repo.js';
import { postJson, request } from '../support/http.js';
import { following, type StartedClient, startClient } from '../support/start-client.js';
import { startPeer } from '../support/start-peer.js';
import { type StartedServer, startServer } from '../support/start-server.js';

/** Names that mean something to JavaScript are names like all others: in bodies, paths, documents, patches, queries and calls. */

const NAMES = ['__proto__', 'constructor', 'prototype', 'toString', 'hasOwnProperty', 'valueOf', '__defineGetter__'];

describe('names of prototypes', () => {
  let server: StartedServer;
  let client: StartedClient;
  let repo: Awaited<ReturnType<typeof gitRepo>>;
  let ownNames: readonly string[];

  before(async () => {
    ownNames = Object.getOwnPropertyNames(Object.prototype);
    repo = await gitRepo();
    await repo.commit({
      'app.rego': 'package app\n\nallow := true\n',
      'static/data.json': '{"__proto__":{"polluted":"static"},"constructor":{"prototype":{"polluted":1}}}',
    });
    server = await startServer(following(repo));
    client = await startClient({ serverUrl: server.url });
    await client.answers('/app/allow', {}, true);
  });
  after(async () => {
    await client?.[Symbol.asyncDispose]();
    await server?.[Symbol.asyncDispose]();
    await repo?.[Symbol.asyncDispose]();
  });

  /** Server and client run in this process: what one of them did to all objects shows here. */
  function assertClean(what: string): void {
    assert.equal(({} as Record<string, unknown>).polluted, undefined, what);
    assert.deepEqual(Object.getOwnPropertyNames(Object.prototype), ownNames, what);
    assert.equal(([] as unknown as Record<string, unknown>).polluted, undefined, what);
  }

  const entry = (rest: string): string => `{"entries":[{"url":"","topics":["policy_data"],${rest}}]}`;

  it('are paths of documents like all others', async () => {
    for (const name of NAMES) {
      for (const path of [`/p/${name}`, `/p/${name}/polluted`, `/${name}`, `/p/${name}/prototype/polluted`]) {
        const answer = await postJson(
          `${server.url}/data/config`,
          entry(`"dst_path":${JSON.stringify(path)},"data":{"polluted":"path"}`),
        );
        assert.equal(answer.status, 200, `${path}: ${answer.text}`);
        await client.holds(path, { polluted: 'path' });
        assertClean(path);
      }
      const removed = await postJson(
        `${server.url}/data/config`,
        entry(`"dst_path":"/${name}","save_method":"DELETE"`),
      );
      assert.equal(removed.status, 200, removed.text);
    }
  });

  it('are members of documents like all others, static, inline and patched', async () => {
    const document = '{"__proto__":{"polluted":1},"constructor":{"prototype":{"polluted":2}},"a":{"__proto__":3}}';
    const put = await postJson(`${server.url}/data/config`, entry(`"dst_path":"/doc","data":${document}`));
    assert.equal(put.status, 200, put.text);
    const text = async (path: string): Promise<string> => (await request(`${client.engineUrl}/v1/data${path}`)).text;
    await client.holds('/doc/constructor', { prototype: { polluted: 2 } });
    assert.match(await text('/doc'), /"__proto__":\{"polluted":1\}/);
    assert.match(await text('/static'), /"__proto__":\{"polluted":"static"\}/);
    for (const path of [
      '/__proto__/polluted',
      '/constructor/prototype/polluted',
      '/a/__proto__',
      '/__proto__/new',
      '/toString',
    ]) {
      const patch = `[{"op":"add","path":${JSON.stringify(path)},"value":"patched"}]`;
      const answer = await postJson(
        `${server.url}/data/config`,
        entry(`"dst_path":"/doc","save_method":"PATCH","data":${patch}`),
      );
      assert.equal(answer.status, 200, `${path}: ${answer.text}`);
      await client.holds(`/doc${path}`, 'patched');
      assertClean(path);
    }
    for (const op of ['move', 'copy']) {
      const patch = `[{"op":"${op}","from":"/__proto__","path":"/constructor/prototype/__proto__"}]`;
      await postJson(`${server.url}/data/config`, entry(`"dst_path":"/doc","save_method":"PATCH","data":${patch}`));
      assertClean(op);
    }
    await client.holds('/doc/constructor/prototype/__proto__/new', 'patched');
  });

  it('in place of fields they are no fields', async () => {
    const good = '"url":"","topics":["policy_data"],"dst_path":"/taken","data":{}';
    for (const body of [
      `{"__proto__":{"entries":[{${good}}]}}`,
      `{"constructor":{"prototype":{"entries":[{${good}}]}}}`,
      `{"entries":[{"__proto__":{${good}}}]}`,
      `{"entries":{"__proto__":[{${good}}]}}`,
      `{"entries":{"length":1,"0":{${good}}}}`,
    ]) {
      assert.equal((await postJson(`${server.url}/data/config`, body)).status, 422, body);
      assertClean(body);
    }
    const headers = '"config":{"headers":{"__proto__":"polluted","constructor":"x"},"__proto__":{"polluted":1}}';
    const answer = await postJson(`${server.url}/data/config`, `{"entries":[{${good.replace('"data":{}', headers)}}]}`);
    assert([200, 422].includes(answer.status));
    assertClean('headers');
  });

  it('in queries, headers and calls they are nothing special', async () => {
    for (const name of NAMES) {
      for (const query of [
        `${name}=1`,
        `${name}[polluted]=1`,
        `topics=${name}`,
        `path=${name}`,
        `${name}.polluted=1&topics[__proto__]=1`,
      ]) {
        for (const path of ['/data/config', '/data/updates', '/data/log', '/policy', '/clients']) {
          const { status, text } = await request(`${server.url}${path}?${query}`);
          assert(status < 500, `${path}?${query}: ${status} ${text}`);
        }
      }
      await using peer = await startPeer(server.url, { 'x-sync-protocol': '2', [name]: 'x' });
      assert.equal(await peer.call(name, { [name]: {} }), null);
      assert.equal(await peer.call('subscribe', { topics: [name] }), true);
      const update = { entries: [{ url: '', topics: [name], dst_path: '/topic', data: { polluted: name } }] };
      assert.equal(await peer.call('publish', { topics: [name], data: update }), true);
      assert.equal((await peer.notified(1)).length, 1, 'a topic like all others');
      const session = { topics: [name], client_id: name, position: { epoch: name, applied_through: 0 } };
      assert.notEqual(await peer.call('subscribe', session), null);
      assertClean(name);
    }
    assert.equal((await request(`${server.url}/clients`)).status, 200);
  });
});
