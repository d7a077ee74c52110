import assert from 'node:assert/strict';
import { test } from 'node:test';
import { MemoryLog } from '../../../../test/support/memory-log-store.js';
import { until } from '../../../../test/support/until.js';
import { silentLogger } from '../../../lib/observe/log.js';
import { FoldedLog } from '../../log/folded-log.js';
import { commitOfRow, LoggedPolicyHead, type SharedPolicyHead } from './shared-policy-head.js';

async function instance(
  memory: MemoryLog,
  source: string,
  isSame?: (name: string) => boolean,
): Promise<SharedPolicyHead & AsyncDisposable> {
  const options = { exclusive: false, patchesPerPath: 10, retention: { maxAgeMs: 1000, maxRows: 1000 }, pollMs: 20 };
  const updateLog = await FoldedLog.open(memory.handle(), options, { log: silentLogger() });
  const heads = new LoggedPolicyHead(
    { source, ...(isSame !== undefined && { isSame }), isShared: true },
    { updateLog, log: silentLogger() },
  );
  return Object.assign(heads, { [Symbol.asyncDispose]: () => updateLog.close() });
}

test('a head is what the last proposal said, with those before it, also for an instance that comes later', async () => {
  const memory = new MemoryLog();
  await using one = await instance(memory, 'a');
  assert.deepEqual(one.look(), { place: 0, head: undefined });
  for (const hash of ['h1', 'h2', 'h3', 'h1']) await one.propose(hash, one.look());
  await using later = await instance(memory, 'a');
  assert.deepEqual([later.look().head?.hash, later.look().head?.earlier], ['h1', ['h3', 'h2']]);
  assert.equal(memory.rows.filter(({ retired }) => !retired).length <= 4, true);
});

test('a row says which commit it is about: a head, or one that is refused', async () => {
  const memory = new MemoryLog();
  await using one = await instance(memory, 'a');
  await one.propose('h1', one.look());
  await one.refuse({ hash: 'h2', judge: 'OPA 1', problems: [] }, one.look());
  await one.propose('h3', one.look());
  assert.deepEqual(
    memory.rows.map(({ body }) => commitOfRow(body)),
    ['h1', 'h2', 'h3'],
  );
  assert.equal(commitOfRow('{"heads":[{"source":"a","hash":"h9","earlier":[]}]}'), 'h9', 'of an older version');
  for (const body of ['{', '"c1"', '{"heads":[]}']) assert.equal(commitOfRow(body), undefined);
});

test('the span of a proposal reaches the other instances with it, and no later head', async () => {
  const memory = new MemoryLog();
  const traceparent = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01';
  await using one = await instance(memory, 'a');
  await one.propose('h1', one.look(), traceparent);
  await using other = await instance(memory, 'a');
  assert.equal(other.look().head?.traceparent, traceparent);
  await other.propose('h2', other.look());
  assert.deepEqual([other.look().head?.hash, other.look().head?.traceparent], ['h2', undefined]);
});

test('of two proposals over the same sight one holds, the other is a conflict that changes nothing', async () => {
  const memory = new MemoryLog();
  await using one = await instance(memory, 'a');
  await using other = await instance(memory, 'a');
  const seen = [one.look(), other.look()] as const;
  const heard: string[] = [];
  other.onChange((hash) => heard.push(hash));
  await one.propose('h1', seen[0]);
  await assert.rejects(other.propose('h2', seen[1]), { code: 'log_conflict' });
  assert.deepEqual([one.look().head?.hash, other.look().head?.hash, heard], ['h1', 'h1', ['h1']]);
});

test('instances with different sources keep each its own head', async () => {
  const memory = new MemoryLog();
  await using one = await instance(memory, 'a');
  await using other = await instance(memory, 'b');
  const heard: string[] = [];
  one.onChange((hash) => heard.push(hash));
  await one.propose('a1', one.look());
  await assert.rejects(other.propose('b1', { place: 0, head: undefined }), { code: 'log_conflict' });
  await other.propose('b1', other.look());
  await assert.rejects(one.propose('a2', { place: 1, head: undefined }), { code: 'log_conflict' });
  await one.propose('a2', one.look());
  assert.deepEqual([one.look().head?.hash, one.look().head?.earlier, heard], ['a2', ['a1'], ['a1', 'a2']]);
  assert.deepEqual([other.look().head?.hash, other.look().head?.earlier], ['b1', []]);
});

test('instances that spell the address of one source differently have one head', async () => {
  const memory = new MemoryLog();
  await using one = await instance(memory, 'GIT https://host/repo.git main');
  await using other = await instance(memory, 'GIT https://host/repo main', (name) =>
    name.startsWith('GIT https://host/repo'),
  );
  const heard: string[] = [];
  other.onChange((hash) => heard.push(hash));
  await one.propose('h1', one.look());
  await until(() => heard.length === 1, { withinMs: 5_000, what: 'the head of the other instance' });
  await other.propose('h2', other.look());
  assert.deepEqual([other.look().head?.hash, other.look().head?.earlier, heard], ['h2', ['h1'], ['h1', 'h2']]);
});

test('a row that cannot be read counts as no head, and the next proposal mends it', async () => {
  const memory = new MemoryLog();
  await memory.handle().append([{ kind: 'policy', body: '"what"' }]);
  await using one = await instance(memory, 'a');
  assert.deepEqual(one.look(), { place: 1, head: undefined });
  await one.propose('h1', one.look());
  assert.equal(one.look().head?.hash, 'h1');
});

const BAD = { hash: 'bad', judge: 'OPA 1', problems: [{ message: 'does not compile', file: 'a.rego', line: 3 }] };

test('what an instance refuses every one knows, also one that comes later; heads stay', async () => {
  const memory = new MemoryLog();
  await using one = await instance(memory, 'a');
  await using other = await instance(memory, 'a');
  const heard: string[][] = [[], []];
  for (const [index, heads] of [one, other].entries()) {
    heads.onRefused((hash) => heard[index]?.push(hash));
    heads.onChange((hash) => heard[index]?.push(`head ${hash}`));
  }
  await one.propose('h1', one.look());
  await one.refuse(BAD, one.look());
  await one.propose('h2', one.look());
  await until(() => other.look().head?.hash === 'h2', { withinMs: 5_000, what: 'the head of the other instance' });
  await using later = await instance(memory, 'a');
  for (const heads of [one, other, later]) {
    const { source: _, ...verdict } = { source: undefined, ...heads.verdictOn('bad') };
    assert.deepEqual(verdict, BAD);
    assert.deepEqual([heads.verdictOn('h1'), heads.look().head?.earlier], [undefined, ['h1']]);
  }
  assert.deepEqual(heard, [
    ['head h1', 'bad', 'head h2'],
    ['head h1', 'bad', 'head h2'],
  ]);
});

test('a refusal is a conflict for whoever proposes over the sight before it, and the other way round', async () => {
  const memory = new MemoryLog();
  await using one = await instance(memory, 'a');
  await using other = await instance(memory, 'a');
  const seen = [one.look(), other.look()] as const;
  await one.refuse(BAD, seen[0]);
  await assert.rejects(other.propose('bad', seen[1]), { code: 'log_conflict' });
  await assert.rejects(other.refuse({ ...BAD, judge: 'OPA 2' }, seen[1]), { code: 'log_conflict' });
  assert.equal(other.verdictOn('bad')?.judge, 'OPA 1');
});

test('a verdict goes when its commit becomes the head, unless it comes with it; one of another source stays', async () => {
  const memory = new MemoryLog();
  await using one = await instance(memory, 'a');
  await using other = await instance(memory, 'b');
  await one.refuse(BAD, one.look());
  assert.equal(other.verdictOn('bad'), undefined);
  await until(() => other.look().place === 1, { withinMs: 5_000, what: 'the row' });
  await other.refuse({ ...BAD, judge: 'of b' }, other.look());
  await until(() => one.look().place === 2, { withinMs: 5_000, what: 'the row' });
  await one.propose('bad', one.look());
  assert.deepEqual([one.verdictOn('bad'), other.verdictOn('bad')?.judge], [undefined, 'of b']);
  await one.propose('noted', one.look(), undefined, { ...BAD, hash: 'noted' });
  assert.equal(one.verdictOn('noted')?.problems.length, 1);
});

test('the verdicts of a row are bounded, the last ones stay', async () => {
  const memory = new MemoryLog();
  await using one = await instance(memory, 'a');
  for (let index = 1; index <= 12; index++) await one.refuse({ ...BAD, hash: `bad${index}` }, one.look());
  const known = Array.from({ length: 12 }, (_, index) => `bad${index + 1}`).filter((hash) => one.verdictOn(hash));
  assert.deepEqual(known, ['bad5', 'bad6', 'bad7', 'bad8', 'bad9', 'bad10', 'bad11', 'bad12']);
});
