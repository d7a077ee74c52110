import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { CheckAnswer, CheckJob } from '../../../checker/messages.js';
import { takeSnapshot } from '../bundle/snapshot.js';
import { besidePackages, createCompileCheck } from './compile-check.js';

const NEVER = new AbortController().signal;
const OPTIONS = { policyExtensions: ['.rego'], manifestPath: '', ignore: [] };

/**
 * The check with a process that is not started; `run` checks a commit of these files, and answers
 * the jobs so far.
 */
function checkOf(sets: readonly (readonly string[])[] = [['.']]) {
  const jobs: CheckJob[] = [];
  const answer: { next: CheckAnswer } = { next: { kind: 'judged', problems: [] } };
  let files: Readonly<Record<string, string>> = {};
  const check = createCompileCheck(
    { rego: 'auto', sets },
    {
      objects: {
        blobs: async (ids) => new Map(ids.map((id) => [id, Buffer.from(id.slice(id.indexOf('\n') + 1))])),
      },
      env: {},
      checker: {
        check: async (job) => {
          jobs.push(job);
          return answer.next;
        },
        prepare: () => undefined,
        close: async () => undefined,
      },
    },
  );
  const run = async (next: Readonly<Record<string, string>>) => {
    files = next;
    const tree = Object.entries(files).map(([path, text]) => ({ path, blob: `blob\n${text}` }));
    return await check.check(takeSnapshot({ hash: 'h', tree, manifestText: (path) => files[path] }, OPTIONS), NEVER);
  };
  return { check, run, jobs, answer };
}

const POLICY = { 'app/a.rego': 'package app\n', 'app/data.json': '{"b":1}', 'users/data.json': '{}' };

test('modules go with the data that may be in their way; all other data is not even read', async () => {
  const { run, jobs } = checkOf();
  await run({ ...POLICY, 'README.md': 'x' });
  assert.deepEqual(jobs, [
    {
      rego: 'auto',
      sets: [['.']],
      modules: [{ path: 'app/a.rego', text: 'package app\n' }],
      data: [{ path: 'app/data.json', text: '{"b":1}' }],
    },
  ]);
});

test('a commit that changes nothing of what compiled last takes no process', async () => {
  const { run, jobs } = checkOf();
  await run(POLICY);
  await run({ ...POLICY, 'README.md': 'y', 'users/data.json': '{"ann":1}' });
  assert.equal(jobs.length, 1);
  await run({ ...POLICY, 'app/data.json': '{"b":2}' });
  await run({ ...POLICY, 'app/a.rego': 'package app\nx := 1\n' });
  await run({ ...POLICY, 'moved/a.rego': 'package app\n', 'app/a.rego': '' });
  assert.equal(jobs.length, 4);
  await run({});
  await run({ 'data.json': '{}' });
  assert.equal(jobs.length, 4);
});

test('a module goes with the version of Rego that the manifest declares for it, and is compiled again with another', async () => {
  const { run, jobs } = checkOf();
  const files = { 'app/a.rego': 'package app\n', '.manifest': '{"rego_version":1}' };
  await run(files);
  await run({ ...files, '.manifest': '{"rego_version":1,"revision":"2"}' });
  await run({ ...files, '.manifest': '{"file_rego_versions":{"/app/*":0}}' });
  await run({ ...files, '.manifest': 'app/a.rego' });
  assert.deepEqual(
    jobs.map(({ modules }) => modules.map(({ declared }) => declared)),
    [[1], [0], [undefined]],
  );
  await assert.rejects(run({ ...files, '.manifest': '{"rego_version":9}' }), {
    code: 'policy_commit_refused',
    message: /^commit h: \.manifest:? has the unknown rego_version 9/,
  });
});

test('what did not compile is compiled again, and the commit before it is not', async () => {
  const { run, jobs, answer } = checkOf();
  await run(POLICY);
  answer.next = { kind: 'judged', problems: [{ message: 'does not compile', file: 'app/a.rego', line: 1 }] };
  const broken = { ...POLICY, 'app/a.rego': 'packag' };
  assert.deepEqual([await run(broken), await run(broken)], [answer.next.problems, answer.next.problems]);
  assert.deepEqual(await run(POLICY), []);
  assert.equal(jobs.length, 3);
});

test('a process that gives no answer fails the gate, which is no verdict', async () => {
  const { run, answer } = checkOf();
  answer.next = { kind: 'failed', reason: 'it takes longer than 60 s' };
  await assert.rejects(run(POLICY), {
    code: 'policy_gate_failed',
    message: 'commit h was not compiled: it takes longer than 60 s',
  });
});

test('of sets of folders only what is in one of them counts', async () => {
  const { run, jobs } = checkOf([['app', './shared/'], ['team']]);
  await run({ ...POLICY, 'other/b.rego': 'package other\n' });
  assert.deepEqual(jobs[0]?.sets, [['app', 'shared'], ['team']]);
  assert.deepEqual(
    jobs[0]?.modules.map(({ path }) => path),
    ['app/a.rego'],
  );
});

test('another mode, other sets, another engine: another judge', () => {
  const identity = (rego: CheckJob['rego'], sets: readonly (readonly string[])[]): string =>
    createCompileCheck({ rego, sets }, { objects: { blobs: async () => new Map() }, env: {} }).identity;
  assert.equal(identity('auto', [['a', 'b']]), identity('auto', [['./b', 'a/']]));
  assert.notEqual(identity('auto', [['.']]), identity('v0', [['.']]));
  assert.notEqual(identity('auto', [['.']]), identity('auto', [['a']]));
  assert.match(identity('auto', [['.']]), /OPA \d/);
});

for (const [what, modules, data, kept] of [
  [
    'the root and what shares a first folder',
    ['package a.b'],
    ['data.json', 'a/data.json', 'a/x/data.json', 'b/data.json'],
    3,
  ],
  ['what is kept for clients', ['package a'], ['system/authz/data.json', 'systems/data.json'], 1],
  ['nothing of the root without a module', [], ['data.json', 'a/data.json'], 0],
  ['all, if a package cannot be read', ['package'], ['b/data.json', 'c/data.json'], 2],
] as const) {
  test(`data beside packages: ${what}`, () => {
    const found = besidePackages(
      data.map((path) => ({ path })),
      modules.map((text, index) => ({ path: `${index}.rego`, text })),
    );
    assert.deepEqual(
      found.map(({ path }) => path),
      data.slice(0, kept),
    );
  });
}
