import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { until } from '../../../test/support/until.js';
import { OPA_VERSION } from '../../client/engine/get-opa/opa-version.js';
import { type EmbeddedPolicy, type OpaRequest, WorkerFailure } from '../types.js';
import { type EngineProblem, EngineRefusal } from '../vocabulary.js';
import type { GoHost, HostRequest } from './go-host.js';
import { GoProcess } from './go-process.js';

const RBAC = `package app.rbac

allow if input.user == data.users.admin

names contains name if some name in ["<b>", "a"]
`;

function policy(modules: Readonly<Record<string, string>>, version: 0 | 1 = 1): EmbeddedPolicy {
  return { hash: 'h', modules: Object.entries(modules).map(([path, rego]) => ({ path, rego, version })) };
}

async function problemsOf(call: Promise<unknown>): Promise<readonly EngineProblem[]> {
  const error: unknown = await call.then(
    () => assert.fail('the call was not refused'),
    (reason: unknown) => reason,
  );
  assert(error instanceof EngineRefusal, String(error));
  return error.problems;
}

function request(method: string, url: string, body?: string): OpaRequest {
  return { method, url, headers: {}, body: body === undefined ? undefined : Buffer.from(body) };
}

function text(body: Uint8Array): string {
  return Buffer.from(body).toString();
}

describe("OPA's Go code in its process", () => {
  let go: GoProcess;

  before(async () => {
    go = await GoProcess.start({});
  });
  after(() => go.kill('the test is over'));

  async function activate(
    modules: Readonly<Record<string, string>>,
    documents = '{}',
    roots: readonly string[][] = [[]],
  ): Promise<void> {
    await go.prepare(policy(modules), { roots, documents });
    await go.commit();
  }

  it('tells its version and memory', () => {
    assert.equal(go.version, OPA_VERSION);
    assert(go.memoryBytes > 2 ** 20);
  });

  it('decides as OPA prints it', async () => {
    await activate({ 'rbac.rego': RBAC }, '{"users":{"admin":"ann"}}');
    assert.equal(await go.decide('app/rbac/allow', '{"user":"ann"}'), 'true');
    assert.equal(await go.decide('app/rbac/allow', '{"user":"bob"}'), undefined);
    assert.equal(await go.decide('app/rbac/allow', undefined), undefined);
    assert.equal(await go.decide('app/rbac/names', undefined), '["\\u003cb\\u003e","a"]');
    assert.equal(await go.decide('nobody/wrote/this', '{}'), undefined);
  });

  it('keeps numbers as they are written', async () => {
    const numbers = '[1.0,-0,1e5,12345678901234567890,0.10]';
    await activate({}, `{"numbers":${numbers}}`);
    assert.equal(await go.decide('numbers', undefined), numbers);
    await go.write([{ path: ['more', 'numbers'], text: numbers }]);
    assert.equal(await go.decide('more/numbers', undefined), numbers);
  });

  it('reads each module as its version of Rego', async () => {
    const v0 = 'package old\nallow { input.x == 1 }\n';
    const v1 = 'package new\nallow if input.x == 1\n';
    const modules = [
      { path: 'old.rego', rego: v0 },
      { path: 'new.rego', rego: v1 },
    ];
    assert.deepEqual(await go.parse(modules, 1), ['old.rego']);
    assert.deepEqual(await go.parse(modules, 0), ['new.rego']);
    const mixed: EmbeddedPolicy = {
      hash: 'h',
      modules: [
        { path: 'old.rego', rego: v0, version: 0 },
        { path: 'new.rego', rego: v1, version: 1 },
      ],
    };
    await go.prepare(mixed, { roots: [[]], documents: '{}' });
    await go.commit();
    assert.equal(await go.decide('old/allow', '{"x":1}'), 'true');
    assert.equal(await go.decide('new/allow', '{"x":1}'), 'true');
  });

  it('names rules and built-in functions of a policy', async () => {
    const facts = await go.check(policy({ 'a.rego': 'package a.b\nx := time.now_ns()\nf(n) := n + 1\n' }), '{}');
    assert.deepEqual(facts.rulePaths, [
      ['a', 'b', 'f'],
      ['a', 'b', 'x'],
    ]);
    assert.deepEqual(facts.builtins, ['plus', 'time.now_ns']);
  });

  it('refuses a policy with file and line, and keeps the active one', async () => {
    await activate({ 'rbac.rego': RBAC }, '{"users":{"admin":"ann"}}');
    const bad = policy({ 'bad.rego': 'package bad\n\nx if nope(1)\n' });
    assert.deepEqual(await problemsOf(go.prepare(bad, { roots: [[]], documents: '{}' })), [
      { code: 'rego_type_error', message: 'undefined function nope', file: 'bad.rego', row: 3 },
    ]);
    await assert.rejects(go.commit(), /no policy is prepared/);
    assert.equal(await go.decide('app/rbac/allow', '{"user":"ann"}'), 'true');
  });

  it('a prepared policy has no effect until commit, and none after abort', async () => {
    await activate({ 'rbac.rego': RBAC }, '{"users":{"admin":"ann"}}');
    await go.prepare(policy({ 'x.rego': 'package x\ny := 1\n' }), { roots: [['users']], documents: '{"users":{}}' });
    assert.equal(await go.decide('x/y', undefined), undefined);
    assert.equal(await go.decide('users/admin', undefined), '"ann"');
    await go.abort();
    await assert.rejects(go.commit(), /no policy is prepared/);
    assert.equal(await go.decide('app/rbac/allow', '{"user":"ann"}'), 'true');
  });

  it('replaces the documents below its roots alone', async () => {
    await activate({}, '{"a":{"b":1,"c":2},"d":3}');
    await activate({}, '{"a":{"b":{"new":true},"c":"not written"}}', [['a', 'b'], ['gone']]);
    assert.equal(await go.decide('', undefined), '{"a":{"b":{"new":true},"c":2},"d":3}');
  });

  it('refuses documents where rules are, and names the document', async () => {
    const rego = policy({ 'rbac.rego': RBAC });
    const documents = '{"app":{"rbac":{"allow":true}}}';
    const conflict = [
      {
        code: 'rego_compile_error',
        message: 'conflicting rule for data path app/rbac/allow found',
        file: 'rbac.rego',
        row: 3,
        conflictPath: ['app', 'rbac', 'allow'],
      },
    ];
    assert.deepEqual(await problemsOf(go.check(rego, documents)), conflict);
    assert.deepEqual(await problemsOf(go.prepare(rego, { roots: [['app']], documents })), conflict);
    await activate({ 'rbac.rego': RBAC });
    assert.deepEqual(await problemsOf(go.write([{ path: ['app', 'rbac', 'allow'], text: '1' }])), conflict);
    assert.equal((await problemsOf(go.write([{ path: ['app'], text: '1' }]))).length, 2);
    await go.write([{ path: ['app', 'rbac', 'beside'], text: '1' }]);
    assert.equal(await go.decide('app/rbac/beside', undefined), '1');
  });

  it('writes many changes as it writes few', async () => {
    await activate({}, '{"a":{"b":1,"list":[1,2]},"gone":1}');
    const many = Array.from({ length: 100 }, (_, n) => ({ path: ['many', `k${n}`], text: `{"n":${n}}` }));
    await go.write([
      ...many,
      { path: ['many', 'k7', 'deep', 'er'], text: 'true' },
      { path: ['many', 'k8'], text: undefined },
      { path: ['gone'], text: undefined },
      { path: ['never', 'there'], text: undefined },
    ]);
    assert.equal(await go.decide('many/k7', undefined), '{"deep":{"er":true},"n":7}');
    assert.equal(await go.decide('many/k8', undefined), undefined);
    assert.equal(await go.decide('gone', undefined), undefined);
    assert.equal(await go.decide('never', undefined), undefined);
    const refused = await problemsOf(go.write([...many, { path: ['a', 'b', 'c'], text: '1' }]));
    assert.deepEqual(refused, [
      { code: 'storage_write_conflict_error', message: 'storage_write_conflict_error: /a/b' },
    ]);
    await go.write([...many, { path: ['a', 'list', '1'], text: undefined }]);
    assert.equal(await go.decide('a/list', undefined), '[1]');
  });

  it('writes all changes or none, and creates parents', async () => {
    await activate({}, '{"a":{"b":1}}');
    await go.write([
      { path: ['x', 'y', 'z'], text: '1' },
      { path: ['a', 'b'], text: undefined },
      { path: ['never', 'there'], text: undefined },
    ]);
    assert.equal(await go.decide('', undefined), '{"a":{},"x":{"y":{"z":1}}}');
    const refused = [
      { path: ['new'], text: '1' },
      { path: ['x', 'y', 'z', 'below a number'], text: '1' },
    ];
    const [problem] = await problemsOf(go.write(refused));
    assert.equal(problem?.code, 'storage_write_conflict_error');
    assert.equal(await go.decide('', undefined), '{"a":{},"x":{"y":{"z":1}}}');
    assert.equal((await problemsOf(go.write([{ path: [], text: '1' }])))[0]?.code, 'storage_invalid_patch_error');
    assert.match((await problemsOf(go.write([{ path: ['q'], text: '{' }])))[0]?.message ?? '', /unexpected EOF/);
  });

  it('refuses what needs the network, by name, file and line', async () => {
    const rego =
      'package net\n\nx := http.send({"method": "get", "url": "http://127.0.0.1:9"})\n\ny := net.lookup_ip_addr("a")\n';
    const problems = await problemsOf(go.check(policy({ 'net.rego': rego }), '{}'));
    assert.deepEqual(
      problems.map(({ file, row, message }) => `${file}:${row}: ${message.split(' ', 1)[0]}`),
      ['net.rego:3: http.send', 'net.rego:5: net.lookup_ip_addr'],
    );
    assert.match(problems[0]?.message ?? '', /SYNC_EMBEDDED_ENGINE_HTTP_SEND=true/);
    // Replaced, it is never called.
    const mocked = 'package net\n\nx if count({}) == 0 with http.send as 1\n';
    await go.check(policy({ 'net.rego': mocked }), '{}');
  });

  it('evaluates queries, with the errors of built-in functions', async () => {
    await activate({}, '{"n":2}');
    assert.equal(await go.query('x := data.n + input; y := [1.0]', '1', true), '[{"x":3,"y":[1.0]}]');
    assert.equal((await problemsOf(go.query('x := 1 / 0', undefined, true)))[0]?.code, 'eval_builtin_error');
    assert.equal(await go.query('x := 1 / 0', undefined, false), '[]');
  });

  it("answers requests with OPA's own server, from the same policy and documents", async () => {
    await activate({ 'rbac.rego': RBAC }, '{"users":{"admin":"ann"}}');
    const asked = request('POST', '/v1/data/app/rbac/allow', '{"input":{"user":"ann"}}');
    const first = await go.http(asked);
    assert.equal(first.status, 200);
    assert.equal(first.headers['Content-Type'], 'application/json');
    assert.equal(text(first.body), '{"result":true}\n');
    await activate({ 'rbac.rego': RBAC.replace('admin', 'root') }, '{"users":{"root":"ann"}}');
    assert.equal(text((await go.http(asked)).body), '{"result":true}\n');
    await go.write([{ path: ['users', 'root'], text: '"bob"' }]);
    assert.equal(text((await go.http(asked)).body), '{}\n');
    assert.equal(
      text((await go.http(request('GET', '/v1/data'))).body),
      '{"result":{"app":{"rbac":{"names":["\\u003cb\\u003e","a"]}},"users":{"root":"bob"}}}\n',
    );
    const listed = JSON.parse(text((await go.http(request('GET', '/v1/policies'))).body)) as {
      result: { id: string }[];
    };
    assert.deepEqual(
      listed.result.map(({ id }) => id),
      ['rbac.rego'],
    );
    assert.equal((await go.http(request('GET', '/health'))).status, 200);
    assert.match(text((await go.http(request('GET', '/metrics'))).body), /http_request_duration_seconds/);
  });

  it('lets no query of a caller send requests', async () => {
    await activate({});
    for (const query of [
      'http.send({"method": "get", "url": "http://127.0.0.1:9"})',
      'count({"method": "get", "url": "http://127.0.0.1:9"}) with count as http.send',
      'net.lookup_ip_addr("localhost")',
    ]) {
      const body = JSON.stringify({ query });
      assert.equal((await go.http(request('POST', '/v1/query', body))).status, 400, query);
      assert.equal((await go.http(request('POST', '/v1/compile', body))).status, 400, query);
      const address = `/v1/query?q=${encodeURIComponent(query)}`;
      assert.equal((await go.http(request('GET', address))).status, 400, query);
      await assert.rejects(go.query(query, undefined, false), EngineRefusal, query);
    }
  });

  it('compiles entrypoints, or says why one stays with Go, and names the documents that each reads', async () => {
    const rego = `package app

allow if data.users[input.user].roles[_] == data.limits.role

deny if not allow

here := opa.runtime()

codes["0"] := 1

all := data.app.rooms
`;
    await activate({ 'app.rego': rego });
    const entrypoints = ['app/allow', 'app/deny', 'app', 'app/here', 'app/codes', 'app/all', 'users', '', 'app/a%20b'];
    const { wasm, entrypoints: found } = await go.compile(entrypoints, 'active');
    assert(wasm !== undefined);
    assert.doesNotThrow(() => new WebAssembly.Module(wasm));
    assert.deepEqual(
      found.map(({ path, compiled }) => [path, compiled]),
      entrypoints.map((path) => [path, ['app/allow', 'app/deny', 'app/all'].includes(path)]),
    );
    const reads = Object.fromEntries(found.map((one) => [one.path, one.reads.map((path) => path.join('/'))]));
    assert.deepEqual(reads['app/deny'], ['limits/role', 'users']);
    assert.deepEqual(reads['app/all'], ['app/rooms']);
    assert.deepEqual(reads.app, ['app', 'limits/role', 'users']);
    assert.match(found.find(({ path }) => path === 'app/codes')?.reason ?? '', /^app\.rego:9: .*"0"/);
    assert.match(found.find(({ path }) => path === 'app/here')?.reason ?? '', /^app\.rego:7: opa\.runtime/);
    assert.match(found.find(({ path }) => path === 'users')?.reason ?? '', /no rule or package/);
  });

  it('an entrypoint that cannot be compiled is left out alone', async () => {
    await activate({ 'rbac.rego': `${RBAC}\nlimit := 1\n` });
    const { wasm, entrypoints } = await go.compile(['app/rbac/allow', 'app/rbac/limit/of', 'app/rbac/allow'], 'active');
    assert(wasm !== undefined);
    assert.deepEqual(
      entrypoints.map(({ compiled }) => compiled),
      [true, false, true],
    );
    assert.match(entrypoints[1]?.reason ?? '', /undefined ref/);
  });

  it('what is too much for its compiler, or what that gets wrong, stays with Go, named with its place', async () => {
    const rules = JSON.stringify(Array.from({ length: 3500 }, (_, index) => ({ port: index })));
    await activate({
      'apps.rego': 'package apps\n\nis_one(x) if x == 1\n',
      'b.rego': 'package apps.b\n\nallow if data.apps.is_one(input.x)\n',
      'main.rego': 'package main\n\nallow if data.apps[input.app].allow\n',
      'list.rego': 'package list\n\nlisted(x) := x in ["a"]\n\nallow if listed(input.user)\n\nother if input.x == 1\n',
      'large.rego': `package large\n\nrules := ${rules}\n\nallow if rules[0].port == input.port\n\nother if input.x == 1\n`,
    });
    const paths = ['main/allow', 'apps/b/allow', 'list/allow', 'list/other', 'large/allow', 'large/other'];
    const { wasm, entrypoints } = await go.compile(paths, 'active');
    assert(wasm !== undefined);
    const left = entrypoints.filter(({ compiled }) => !compiled).map(({ path, reason }) => `${path}: ${reason}`);
    assert.deepEqual(left, [
      'main/allow: main.rego:3: a variable stands for a name that a function has, too',
      'large/allow: large.rego:3: the rule has more than 10000 values: as a document, it would be compiled',
    ]);
  });

  it('leaves to Go what looks into documents by numbers as names', async () => {
    const rego = `package app

by_id := data.users[input.id]

by_number := data.years[2026]

by_name := data.users.ann

by_text := data.list["0"]

first := data.list[0]
`;
    const paths = ['by_id', 'by_number', 'by_name', 'by_text', 'first'].map((name) => `app/${name}`);
    async function compiled(documents: string, of: 'active' | 'prepared'): Promise<string[]> {
      await go.prepare(policy({ 'app.rego': rego }), { roots: [[]], documents });
      if (of === 'active') await go.commit();
      const { entrypoints } = await go.compile(paths, of);
      return entrypoints.filter((one) => one.compiled).map(({ path }) => path);
    }
    const named = '{"users":{"ann":{}},"years":{"last":1},"list":[1]}';
    const numbered = '{"users":{"12":{}},"years":{"2026":1},"list":[1]}';
    for (const of of ['active', 'prepared'] as const) {
      const others = ['app/by_name', 'app/first'];
      assert.deepEqual(await compiled(named, of), ['app/by_id', 'app/by_number', ...others], of);
      assert.deepEqual(await compiled(numbered, of), others, of);
    }
    const { entrypoints } = await go.compile(paths, 'active');
    assert.deepEqual(entrypoints[0]?.open, [['users']]);
  });

  it('compiles a prepared policy', async () => {
    await activate({});
    await assert.rejects(go.compile(['app/rbac/allow'], 'prepared'), /no policy is prepared/);
    await go.prepare(policy({ 'rbac.rego': RBAC }), { roots: [[]], documents: '{}' });
    const { wasm } = await go.compile(['app/rbac/allow'], 'prepared');
    assert(wasm !== undefined);
    await go.abort();
  });

  it('answers other calls while a policy is prepared', async () => {
    await activate({}, '{"n":1}');
    const modules = Object.fromEntries(
      Array.from({ length: 150 }, (_, n) => [
        `m${n}.rego`,
        `package m${n}\n\n${'allow if input.a == data.b[input.c]\n'.repeat(4)}`,
      ]),
    );
    let isReady = false;
    const preparing = go.prepare(policy(modules), { roots: [], documents: '{}' }).then(() => {
      isReady = true;
    });
    assert.equal(await go.decide('n', undefined), '1');
    assert.equal(isReady, false);
    await preparing;
    await go.abort();
  });

  it('ends above its memory limit, and says so', async () => {
    const small = await GoProcess.start({ memoryLimitBytes: 2 ** 20 });
    assert.equal(await small.decide('nothing', undefined), undefined);
    assert.match((await small.ended).message, /^memory: .* raise SYNC_EMBEDDED_ENGINE_MEMORY_LIMIT$/);
    await assert.rejects(small.decide('nothing', undefined), WorkerFailure);
  });

  // The last of these: it ends the process.
  it('keeps the program alive from its kill to its end, and rejects the calls under way, whatever it still answers', async () => {
    const calls = Array.from({ length: 20 }, () => go.parse([{ path: 'rbac.rego', rego: RBAC }], 1));
    const settled = Promise.allSettled(calls);
    await calls[0];
    // Meanwhile the other answers arrive, and are read after the kill.
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 500);
    const rejected = assert.rejects(
      go.decide('nothing', undefined),
      (error) => error instanceof WorkerFailure && error.kind === 'ended' && /enough/.test(error.message),
    );
    let isGone = false;
    const killed = go.kill('enough').then(() => {
      isGone = true;
    });
    let looks = 0;
    while (!isGone) {
      assert(process.getActiveResourcesInfo().includes('ProcessWrap'), `nothing waits for it, at look ${looks}`);
      looks++;
      await setImmediate();
    }
    await killed;
    await settled;
    assert(looks > 0);
    await rejected;
    assert.equal((await go.ended).message, 'enough');
  });
});

const NET = `package net

answer := http.send({"method": "post", "url": "http://127.0.0.1:9/there", "body": {"a": 1}, "headers": {"X-One": "1"}})

body := answer.body

held := http.send({"method": "get", "url": "http://127.0.0.1:9/held"}).status_code

moved := http.send({"method": "get", "url": "http://127.0.0.1:9/moved", "enable_redirect": true}).status_code

refused := http.send({"method": "get", "url": "http://127.0.0.1:9/refused", "raise_error": false}).error.message

slow := http.send({"method": "get", "url": "http://127.0.0.1:9/never", "timeout": "50ms", "raise_error": false}).error.message

private := http.send({"method": "get", "url": "https://127.0.0.1:9/", "tls_insecure_skip_verify": true, "raise_error": false}).error.message
`;

describe('http.send of a policy', () => {
  const asked: HostRequest[] = [];
  let release: () => void = () => undefined;
  const host: GoHost = {
    async fetch(request, signal) {
      asked.push(request);
      if (request.url.endsWith('/refused')) throw new Error('the address is not allowed');
      if (request.url.endsWith('/never')) {
        await new Promise((_resolve, reject) => {
          signal.addEventListener('abort', () => reject(new Error('given up')));
        });
      }
      if (request.url.endsWith('/held')) {
        await new Promise<void>((resolve) => {
          release = resolve;
        });
      }
      if (request.url.endsWith('/moved'))
        return { status: 302, headers: { Location: ['/there'] }, body: Buffer.from('') };
      return { status: 200, headers: { 'Content-Type': ['application/json'] }, body: Buffer.from('{"n":1.0}') };
    },
  };
  let go: GoProcess;

  before(async () => {
    go = await GoProcess.start({ host });
    await go.prepare(policy({ 'net.rego': NET }), { roots: [[]], documents: '{}' });
    await go.commit();
  });
  after(() => go.kill('the test is over'));

  it('asks the host, and lets other calls in meanwhile', async () => {
    asked.length = 0;
    assert.equal(await go.decide('net/body', undefined), '{"n":1.0}');
    const [first] = asked;
    assert.equal(first?.method, 'POST');
    assert.equal(first?.url, 'http://127.0.0.1:9/there');
    assert.deepEqual(first?.headers['X-One'], ['1']);
    assert.equal(Buffer.from(first?.body ?? []).toString(), '{"a":1}');
  });

  it("works in OPA's server, too", async () => {
    const { body } = await go.http(request('GET', '/v1/data/net/body'));
    assert.equal(text(body), '{"result":{"n":1.0}}\n');
  });

  it('asks again for each redirect', async () => {
    asked.length = 0;
    assert.equal(await go.decide('net/moved', undefined), '200');
    assert.deepEqual(
      asked.map(({ url }) => url),
      ['http://127.0.0.1:9/moved', 'http://127.0.0.1:9/there'],
    );
  });

  /** A decision whose request has no response before `release`. */
  async function hold(): Promise<{ readonly ended: Promise<unknown> }> {
    asked.length = 0;
    const ended = go.decide('net/held', undefined);
    await until(() => asked.length > 0, { withinMs: 10_000, what: 'the policy asks the host' });
    return { ended };
  }

  it('a call sees all changes before it, also those that wait for the end of a decision', async () => {
    const held = await hold();
    const changes = [1, 2, 3].map((n) => go.write([{ path: ['n'], text: String(n) }]));
    const [decision, response] = [go.decide('n', undefined), go.http(request('GET', '/v1/data/n'))];
    release();
    await Promise.all([held.ended, ...changes]);
    assert.equal(await decision, '3');
    assert.equal(text((await response).body), '{"result":3}\n');
  });

  it('a call sees a policy that is committed before it, also one that waits for the end of a decision', async () => {
    const other = policy({ 'net.rego': NET, 'other.rego': 'package other\n\nrule := data.n' });
    await go.prepare(other, { roots: [], documents: '{}' });
    const held = await hold();
    const commit = go.commit();
    const [decision, compiled] = [go.decide('other/rule', undefined), go.compile(['other/rule'], 'active')];
    release();
    await Promise.all([held.ended, commit]);
    assert.equal(await decision, '3');
    assert.equal((await compiled).entrypoints[0]?.compiled, true);
  });

  it('an error of the host is the error of the request', async () => {
    assert.match((await go.decide('net/refused', undefined)) ?? '', /the address is not allowed/);
  });

  it('gives up after the time that the policy allows', async () => {
    assert.match((await go.decide('net/slow', undefined)) ?? '', /deadline exceeded/i);
  });

  it('refuses TLS settings of its own', async () => {
    assert.match((await go.decide('net/private', undefined)) ?? '', /TLS settings/);
  });

  it('stays with Go', async () => {
    const { wasm, entrypoints } = await go.compile(['net/answer'], 'active');
    assert.equal(wasm, undefined);
    assert.match(entrypoints[0]?.reason ?? '', /^net\.rego:3: http\.send/);
  });
});
