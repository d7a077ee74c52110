import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { after, test } from 'node:test';
import { promisify } from 'node:util';
import { Checker } from '../../src/checker/checker-process.js';
import type { CheckAnswer, CheckJob } from '../../src/checker/messages.js';
import { until } from '../support/until.js';

/** OPA's own compiler in a process that ends with its answer: what clients would say of a policy, before they get it. */

const LIMITS = { timeoutMs: 60_000, memoryBytes: 1024 * 1024 * 1024 };
const NEVER = new AbortController().signal;

type Files = Readonly<Record<string, string>>;

function jobOf(modules: Files, data: Files = {}, more: Partial<CheckJob> = {}): CheckJob {
  const texts = (files: Files) => Object.entries(files).map(([path, text]) => ({ path, text }));
  return { rego: 'auto', sets: [['.']], modules: texts(modules), data: texts(data), ...more };
}

/** In a process for this job alone. */
async function check(job: CheckJob, limits = LIMITS, signal = NEVER): Promise<CheckAnswer> {
  return await new Checker({ env: {}, keepMs: 0 }).check(job, limits, signal);
}

/** Judges all jobs that need no process of their own: its start takes longer than all of them. */
const shared = new Checker({ env: {}, keepMs: 600_000 });
after(() => shared.close());

/** The problems, as `file:line message`. */
async function problemsOf(job: CheckJob): Promise<string[]> {
  const answer = await shared.check(job, LIMITS, NEVER);
  assert(answer.kind === 'judged', JSON.stringify(answer));
  return answer.problems.map(({ file, line, message }) => `${file ?? ''}:${line ?? ''} ${message}`);
}

const V1 = 'package a\n\nallow if input.user == "ann"\n';

test('200 modules of both versions that call each other and http.send compile, in less than the time a commit may take more', async (t) => {
  const modules: Record<string, string> = { 'a.rego': V1, 'old.rego': 'package old\n\nallow { data.a.allow }\n' };
  for (let index = 0; index < 200; index++) {
    const rules = Array.from({ length: 4 }, (_, rule) => `r${rule} if {\n  input.x == ${rule}\n  data.a.allow\n}`).join(
      '\n',
    );
    modules[`m/${index}.rego`] = `package m.p${index}\n\nimport rego.v1\n\n${rules}\n`;
  }
  modules['send.rego'] = 'package send\n\nx := http.send({"method": "get", "url": "http://a.example"}).body\n';
  const startedMs = performance.now();
  assert.deepEqual(
    await problemsOf(jobOf(modules, { 'm/data.json': '{"names": ["x"]}', 'data.json': '{"a": {}}' })),
    [],
  );
  t.diagnostic(`${Math.round(performance.now() - startedMs)} ms`);
});

test('what does not compile is named with file and line, as clients would', async () => {
  const problems = await problemsOf(
    jobOf(
      {
        'app/a.rego': 'package app\n\nallow if nowhere(1)\n',
        'app/b.rego': 'package app\n\ndeny if {\n  nothing.there(1)\n}\n',
        'lib/c.rego': V1,
      },
      {},
    ),
  );
  assert.deepEqual(problems.toSorted(), [
    'app/a.rego:3 does not compile: undefined function nowhere',
    'app/b.rego:4 does not compile: undefined function nothing.there',
  ]);
  const [parse = ''] = await problemsOf(jobOf({ 'app/a.rego': 'package app\n\nallow if {\n' }));
  assert.match(parse, /^app\/a\.rego:\d does not compile: /);
});

test('what the manifest of a bundle declares as another version of Rego, and means something else so, is named', async () => {
  const modules = [
    { path: 'app/same.rego', text: 'package same\n\n# if in v0\nx := 1\n', declared: 0 },
    { path: 'app/old.rego', text: 'package old\n\nallow { input.x }\n', declared: 0 },
    { path: 'app/other.rego', text: 'package other\n\nallow := true if { input.admin }\n', declared: 0 },
    { path: 'app/new.rego', text: 'package new\n\nx := $"{1 + 1}"\n', declared: 0 },
    { path: 'app/late.rego', text: 'package late\n\nallow { input.x }\n', declared: 1 },
  ];
  const problems = await problemsOf({ ...jobOf({}), modules });
  assert.deepEqual(
    problems.map((text) => text.replace(/ declares it as Rego (v\d).*/, ' $1')),
    ['other', 'late', 'new'].map((name) => `app/${name}.rego: does not compile: .manifest v${name === 'late' ? 1 : 0}`),
  );
});

test('what v1 refuses is not read as v0 where that opens what it closes', async () => {
  // Each is valid in v0, and there `allow` is true for everybody.
  const opens = {
    'dropped.rego': 'package dropped\n\nallow := true if { any([input.admin]) }\n',
    'half.rego': 'package half\n\nallow := true if { input.admin }\n\ndeny[msg] { msg := "x" }\n',
  };
  for (const [file, text] of Object.entries(opens)) {
    const [problem = ''] = await problemsOf(jobOf({ [file]: text }));
    assert.match(
      problem,
      new RegExp(`^${file}:\\d does not compile: .*not read as Rego v0, where \`if\` means something else`),
    );
  }
  const apart = 'package apart\n\nallow := true\n\nif {\n\tinput.admin\n}\n';
  assert.deepEqual(await problemsOf(jobOf({ 'apart.rego': apart })), []);
});

test('data where a rule is, or where a package has no room, keeps the commit from every engine', async () => {
  const [conflict = ''] = await problemsOf(jobOf({ 'app/a.rego': V1 }, { 'a/data.json': '{"allow": true}' }));
  assert.match(
    conflict,
    /^app\/a\.rego:3 does not compile: conflicting rule for data path a\/allow .*\(its value is in a\/data\.json\)$/,
  );
  const [room = ''] = await problemsOf(jobOf({ 'x.rego': 'package a.b\n\nx := 1\n' }, { 'data.json': '{"a": 7}' }));
  assert.match(room, /^x\.rego:1 does not compile: the document at \/a is no object.* \(its value is in data\.json\)$/);
  const [kept = ''] = await problemsOf(jobOf({ 'x.rego': V1 }, { 'system/authz/data.json': '{}' }));
  assert.match(kept, /^system\/authz\/data\.json: does not compile: .*kept for/);
});

test('a package that is kept for clients is named with file and line, too, in each file that declares it', async () => {
  const text = '# Answers of OPA itself.\n\npackage system\n\nmain := 1\n';
  const modules = { 'a.rego': V1, 's/authz.rego': 'package system.authz\n\nallow := true\n', 's/main.rego': text };
  const problems = await problemsOf(jobOf(modules));
  assert.deepEqual(
    problems.map((problem) => problem.replace(/: \/?[^:]*$/, '')),
    [
      's/authz.rego:1 does not compile: package system.authz cannot be used',
      's/main.rego:3 does not compile: package system cannot be used',
    ],
    problems.join('\n'),
  );
});

test('each set of folders is compiled by itself, and a folder that is not there is empty', async () => {
  const modules = { 'one/a.rego': 'package app\n\ndefault x := 1\n', 'two/a.rego': 'package app\n\ndefault x := 2\n' };
  const whole = await problemsOf(jobOf(modules));
  assert.match(whole.join(), /multiple default rules/);
  assert.deepEqual(await problemsOf(jobOf(modules, {}, { sets: [['one'], ['two'], ['three']] })), []);
  const [alone = ''] = await problemsOf(
    jobOf(
      { 'app/a.rego': 'package app\n\nx := data.lib.f(1)\n', 'lib/b.rego': 'package lib\n\nf(x) := x\n' },
      {},
      {
        sets: [['app', 'lib'], ['app']],
      },
    ),
  );
  assert.match(alone, /^app\/a\.rego:3 does not compile: undefined function data\.lib\.f/);
});

test('the version of Rego is the one that clients are set to', async () => {
  const v0 = { 'old.rego': 'package old\n\nallow { input.x }\n' };
  assert.deepEqual(await problemsOf(jobOf(v0)), []);
  assert.deepEqual(await problemsOf(jobOf(v0, {}, { rego: 'v0' })), []);
  assert.match((await problemsOf(jobOf(v0, {}, { rego: 'v1' })))[0] ?? '', /^old\.rego:3 .*`if` keyword is required/);
});

test('a check that takes too much time or memory is ended, and says so; a stop ends it without an answer', async () => {
  const job = jobOf({ 'a.rego': V1 });
  const [late, large] = await Promise.all([
    check(job, { ...LIMITS, timeoutMs: 10 }),
    check(job, { ...LIMITS, memoryBytes: 50 * 1024 * 1024 }),
  ]);
  assert.deepEqual(late, { kind: 'failed', reason: 'it takes longer than 0.01 s' });
  assert.deepEqual(large, { kind: 'failed', reason: 'it takes more than 50 MiB of memory' });
  const stop = new AbortController();
  const reason = new Error('stopped');
  const stopped = check(job, LIMITS, stop.signal);
  stop.abort(reason);
  await assert.rejects(stopped, reason);
});

/** The processes that check something here. */
async function checkers(): Promise<number[]> {
  const { stdout } = await promisify(execFile)('ps', ['-o', 'pid=,args=', '--ppid', String(process.pid)]);
  const lines = stdout.split('\n').filter((line) => /policysync-check|checker-child/.test(line));
  return lines.map((line) => Number.parseInt(line, 10));
}

async function checking(): Promise<number> {
  return (await checkers()).length;
}

test('a process that is kept judges each policy by itself, one that is gone costs no verdict, and one at rest ends', async () => {
  const before = new Set(await checkers());
  const checker = new Checker({ env: {}, keepMs: 600_000 });
  checker.prepare();
  assert.equal(await checking(), before.size + 1, 'it starts before anything is asked');
  const good = jobOf({ 'a.rego': V1, 'b.rego': 'package b\n\nimport data.a.allow\n' });
  const bad = jobOf({ 'a.rego': 'package a\n\nallow if nowhere(1)\n', 'b.rego': 'package b\n' });
  const kinds: unknown[] = [];
  for (const job of [good, bad, good, bad, jobOf({ 'a.rego': 'package a {' }), good]) {
    const answer = await checker.check(job, LIMITS, NEVER);
    kinds.push(answer.kind === 'judged' ? answer.problems.map(({ file, line }) => `${file}:${line}`).join() : answer);
    assert.equal(await checking(), before.size + 1);
  }
  assert.deepEqual(kinds, ['', 'a.rego:3', '', 'a.rego:3', 'a.rego:1', '']);
  // One that has ended meanwhile costs no verdict.
  const [pid = 0] = (await checkers()).filter((id) => !before.has(id));
  process.kill(pid, 'SIGSTOP');
  const asked = checker.check(good, LIMITS, NEVER);
  process.kill(pid, 'SIGKILL');
  assert.deepEqual(await asked, { kind: 'judged', problems: [] });
  await checker.close();
  assert.equal(await checking(), before.size);
  const short = new Checker({ env: {}, keepMs: 100 });
  for (let time = 0; time < 2; time++) {
    assert.deepEqual(await short.check(good, LIMITS, NEVER), { kind: 'judged', problems: [] });
    await until(async () => (await checking()) === before.size, { withinMs: 20_000, what: 'it ends by itself' });
  }
});
