import assert from 'node:assert/strict';
import { before, describe, it } from 'node:test';
import { compileRego } from '../../../test/support/compile-rego.js';
import { type CallBuiltin, CompiledPolicy } from './compiled-policy.js';
import { EvaluationError, type EvaluationProblem } from './evaluation-error.js';

const REGO = `package t

default allow := false
allow if {
	some role in data.users[input.user].roles
	some permission in data.roles[role].permissions
	permission == input.action
}

roles := {role | some role in data.users[input.user].roles}
size := count(data.users)
echo := input
keys := {item: index | some index, item in input}
conflict := 1 if input.a
conflict := 2 if input.b
large := count(numbers.range(1, 100000000)) if input
range := count(numbers.range(1, input))
compared := semver.compare(input.a, input.b)
twice := [time.now_ns(), time.now_ns()]
`;
const NAMES = ['allow', 'roles', 'size', 'echo', 'keys', 'conflict', 'large', 'range', 'compared', 'twice'];
const MEMORY = 64 * 1024 * 1024;

describe('a compiled policy', () => {
  let module: WebAssembly.Module;
  before(async () => {
    module = await compileRego(
      REGO,
      NAMES.map((name) => `t/${name}`),
    );
  });

  function policy(documents: unknown = {}, callBuiltin?: CallBuiltin, memoryLimitBytes = MEMORY): CompiledPolicy {
    const text = JSON.stringify(documents);
    const builtins = callBuiltin === undefined ? {} : { callBuiltin };
    const made = new CompiledPolicy(module, { memoryLimitBytes, documentBytes: text.length, ...builtins });
    made.setDocuments(text);
    return made;
  }

  function problemOf(made: CompiledPolicy, name: string, input?: string): EvaluationProblem | 'broken' {
    try {
      made.evaluate(`t/${name}`, input);
    } catch (error) {
      if (error instanceof EvaluationError) return error.isBroken ? 'broken' : error.problem;
      throw error;
    }
    return assert.fail(`t/${name} has a result`);
  }

  const DOCUMENTS = {
    users: { ann: { roles: ['reader', 'owner'] }, bob: { roles: [] } },
    roles: { reader: { permissions: ['read'] }, owner: { permissions: ['write', 'read'] } },
  };

  it('has the entrypoints that were compiled, and knows what it needs', () => {
    const made = policy();
    assert.deepEqual([...made.entrypoints].sort(), NAMES.map((name) => `t/${name}`).sort());
    assert.deepEqual([...made.needs].sort(), ['semver.compare', 'time.now_ns']);
  });

  it('decides by input and documents', () => {
    const made = policy(DOCUMENTS);
    assert.equal(made.evaluate('t/allow', '{"user":"ann","action":"write"}'), 'true');
    assert.equal(made.evaluate('t/allow', '{"user":"bob","action":"write"}'), 'false');
    assert.equal(made.evaluate('t/size', undefined), '2');
    assert.equal(made.evaluate('t/conflict', '{}'), undefined);
    assert.equal(made.evaluate('t/echo', undefined), undefined);
  });

  it("prints results as Go's JSON: sets and members sorted, HTML escaped", () => {
    const made = policy(DOCUMENTS);
    assert.equal(made.evaluate('t/roles', '{"user":"ann"}'), '["owner","reader"]');
    assert.equal(made.evaluate('t/echo', '{"b": [250, "é\\n\\b"], "<": null}'), '{"\\u003c":null,"b":[250,"é\\n\\b"]}');
    assert.equal(
      made.evaluate('t/keys', '["x", 1, [true], {"a":"b"}]'),
      '{"1":1,"[true]":2,"x":0,"{\\"a\\":\\"b\\"}":3}',
    );
  });

  it('changes documents in place', () => {
    const made = policy(DOCUMENTS);
    made.patch([
      { path: ['users', 'bob'], text: '{"roles":["owner"]}' },
      { path: ['users', 'ann'], text: undefined },
      { path: ['new', 'place'], text: '1.5' },
    ]);
    assert.equal(made.evaluate('t/allow', '{"user":"bob","action":"write"}'), 'true');
    assert.equal(made.evaluate('t/roles', '{"user":"ann"}'), '[]');
    assert.equal(made.evaluate('t/size', undefined), '1');
    assert.equal(made.read(['new']), '{"place":1.5}');
    made.patch([{ path: [], text: '{"users":{}}' }]);
    assert.equal(made.read([]), '{"users":{}}');
  });

  it('reads documents at any path, without harm', () => {
    const made = policy({ ...DOCUMENTS, 'é"/~': { '': 1 } });
    assert.equal(made.read(['users', 'ann', 'roles']), '["reader","owner"]');
    assert.equal(made.read(['é"/~', '']), '1');
    for (const path of [
      ['users', 'cid'],
      ['users', 'ann', 'roles', '0'],
      ['users', 'ann', 'x', 'y'],
    ])
      assert.equal(made.read(path), undefined);
    made.patch([{ path: ['users', 'cid'], text: '{"roles":["reader"]}' }]);
    assert.equal(made.evaluate('t/allow', '{"user":"cid","action":"read"}'), 'true');
  });

  it('calls built-in functions that it does not have, fresh once in an evaluation', () => {
    const calls: unknown[] = [];
    const made = policy({}, (...call) => {
      calls.push(call);
      return call[0] === 'semver.compare' ? '-1' : `${calls.length}`;
    });
    assert.equal(made.evaluate('t/compared', '{"a":"1.0.0","b":"1.2.0"}'), '-1');
    assert.deepEqual(calls, [['semver.compare', '["1.0.0","1.2.0"]', true]]);
    made.evaluate('t/twice', undefined);
    assert.deepEqual(calls.slice(1).map((call) => (call as unknown[])[2])[0], true);
    assert(calls.slice(2).every((call) => (call as unknown[])[2] === false));
  });

  it('is undefined where a built-in function is, and fails where it ends the evaluation', () => {
    assert.equal(policy({}, () => undefined).evaluate('t/compared', '{"a":"x","b":"y"}'), undefined);
    const failing = policy({}, () => assert.fail('halt'));
    assert.equal(problemOf(failing, 'compared', '{"a":"x","b":"y"}'), 'policy');
    assert.equal(problemOf(policy(), 'compared', '{"a":"x","b":"y"}'), 'policy');
  });

  it('goes on after errors of a policy, with its documents and their free blocks', () => {
    const made = policy(DOCUMENTS);
    const roles = '{"roles":["reader","writer","owner","none"]}';
    let heapBytes = Number.POSITIVE_INFINITY;
    for (let round = 0; round < 63; round++) {
      if (round === 42) heapBytes = made.heapBytes; // each of the seven has been written and removed twice
      made.patch([{ path: ['users', `u${round % 7}`], text: round % 3 === 0 ? undefined : roles }]);
      assert.equal(problemOf(made, 'conflict', '{"a":true,"b":true}'), 'policy');
      assert.equal(made.evaluate('t/conflict', '{"a":true}'), '1');
    }
    assert.equal(made.evaluate('t/allow', '{"user":"ann","action":"write"}'), 'true');
    assert(made.heapBytes < heapBytes + 128, `${made.heapBytes} bytes after ${heapBytes}`);
  });

  it('refuses what is not compiled, and inputs that may mean something else', () => {
    const made = policy();
    assert.equal(problemOf(made, 'nothing'), 'entrypoint');
    for (const input of ['', '{', '[1 2]', '{1,2}', 'set()', '1e3', '0.5', '-0', '"\\ud800"', '1 2'])
      assert.equal(problemOf(made, 'echo', input), 'input', input);
    assert.equal(made.evaluate('t/echo', '{}'), '{}');
  });

  it('breaks at its memory limit', () => {
    const limit = MEMORY / 8;
    const small = (): CompiledPolicy => policy({}, undefined, limit);
    const made = small();
    assert.equal(problemOf(made, 'large', '{}'), 'broken');
    assert.equal(problemOf(made, 'echo', '{}'), 'broken');
    assert.throws(() => made.read([]), { problem: 'trap' });
    const tooMuch = `{"a":"${'x'.repeat(limit)}"}`;
    assert.throws(() => small().setDocuments(tooMuch), { problem: 'memory', isBroken: true });
    assert.equal(problemOf(small(), 'echo', tooMuch), 'memory');
  });

  it('gives back the memory that a decision needed', () => {
    const made = new CompiledPolicy(module, { memoryLimitBytes: 16 * MEMORY, documentBytes: 0 });
    made.setDocuments(JSON.stringify(DOCUMENTS));
    const before = made.memoryBytes;
    const change = (round: number): void => {
      made.patch([{ path: ['users', 'bob'], text: `{"roles":[${'"owner",'.repeat(50 * (round % 2))}"reader"]}` }]);
    };
    for (let round = 0; round < 3; round++) {
      change(round);
      assert.equal(made.evaluate('t/range', '800000'), '800000');
      assert(made.memoryBytes < before + MEMORY / 16, `${made.memoryBytes} bytes after ${before}`);
      assert.equal(made.evaluate('t/allow', '{"user":"bob","action":"write"}'), String(round % 2 === 1));
    }
    const { heapBytes } = made;
    for (let round = 3; round < 100; round++) change(round);
    assert(made.heapBytes < heapBytes + 1024);
  });

  it('leaves what depends on a number in another spelling, a result of a function, to Go', () => {
    const input = '{"a":"1.0.0","b":"1.2.0"}';
    let result = '';
    const made = policy({}, () => result);
    for (result of ['1.0', '[1e3]', '-0', '{"a":0.0}'])
      assert.equal(problemOf(made, 'compared', input), 'policy', result);
    for (result of ['"1.0"', '1.5', '1700000000000000000']) assert.equal(made.evaluate('t/compared', input), result);
  });

  it('leaves what depends on odd numbers in documents to Go, as long as they are there', () => {
    const reads = new Map([
      ['t/size', [['users']]],
      ['t/echo', []],
    ]);
    const made = new CompiledPolicy(module, { memoryLimitBytes: MEMORY, documentBytes: 0, reads });
    const problem = (name: string): string => {
      try {
        return made.evaluate(`t/${name}`, '{}') ?? 'undefined';
      } catch (error) {
        return error instanceof EvaluationError ? error.problem : String(error);
      }
    };
    made.setDocuments('{"users":{"ann":{"score":1e2}},"roles":{}}');
    assert.deepEqual(['size', 'echo', 'allow'].map(problem), ['documents', '{}', 'documents']);
    assert.equal(made.read(['users', 'ann']), '{"score":1e2}');
    made.patch([{ path: ['users', 'ann', 'score'], text: '100' }]);
    assert.deepEqual(['size', 'echo', 'allow'].map(problem), ['1', '{}', 'false']);
    made.patch([{ path: ['roles', 'x'], text: '[1.0]' }]);
    assert.deepEqual(['size', 'echo', 'allow'].map(problem), ['1', '{}', 'documents']);
  });

  it('loads documents with halves of surrogate pairs as Go reads them', () => {
    const made = policy();
    made.setDocuments('{"a":"\\ud800x\\ud83d\\ude00\\\\ud800"}');
    assert.equal(made.read(['a']), '"\ufffdx😀\\\\ud800"');
  });

  it('grows for documents of another size than expected', () => {
    const made = new CompiledPolicy(module, { memoryLimitBytes: 16 * MEMORY, documentBytes: 0 });
    const users = Object.fromEntries(
      Array.from({ length: 20_000 }, (_, index) => [`u${index}`, { roles: ['a', 'b'] }]),
    );
    made.setDocuments(JSON.stringify({ users }));
    assert.equal(made.evaluate('t/size', undefined), '20000');
    made.patch([{ path: ['more'], text: JSON.stringify(users) }]);
    assert.equal(made.evaluate('t/roles', '{"user":"u9999"}'), '["a","b"]');
  });
});
