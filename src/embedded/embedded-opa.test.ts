import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FakeEvaluator, FakeGo } from '../../test/support/fake-go.js';
import { until } from '../../test/support/until.js';
import { SyncError } from '../lib/errors.js';
import { silentLogger } from '../lib/observe/log.js';
import type { DocPath } from '../wire/doc-path.js';
import { EmbeddedOpa, type EmbeddedOpaOptions, type EngineChange } from './embedded-opa.js';
import type { EmbeddedPolicy } from './types.js';
import { EngineRefusal } from './vocabulary.js';

/** An embedded OPA with fake workers, and all that were made. */
class World implements AsyncDisposable {
  readonly gos: FakeGo[] = [];
  readonly compilers: FakeGo[] = [];
  readonly evaluators: FakeEvaluator[] = [];
  readonly failing: (string | undefined)[] = [];
  released = 0;
  /** Starts of Go that fail from now on. */
  failingStarts = 0;
  failingEvaluators = 0;
  /** Entrypoints whose compilation ends the process. */
  readonly fatal = new Set<string>();
  /** Paths whose compiled decisions take too long. */
  readonly late = new Set<string>();
  /** What happens once a compilation has looked at the documents. */
  duringCompile: () => Promise<void> = async () => undefined;
  readonly opa: EmbeddedOpa;

  constructor(options: Partial<EmbeddedOpaOptions> = {}) {
    this.opa = new EmbeddedOpa(
      {
        ...{ decisionMs: 60_000, workMs: 60_000, compileMs: 60_000, idleMs: 60_000 },
        ...{ maxEntrypoints: 10, entrypoints: [], backoff: { minMs: 1, maxMs: 2 } },
        ...options,
      },
      {
        startGo: async () => {
          if (this.failingStarts-- > 0) throw new Error('no memory');
          const go = new FakeGo();
          this.gos.push(go);
          return go;
        },
        startCompiler: async () => {
          const go = new FakeGo();
          go.duringCompile = () => this.duringCompile();
          go.fatal = this.fatal;
          this.compilers.push(go);
          return go;
        },
        startEvaluator: async (content) => {
          if (this.failingEvaluators-- > 0) throw new Error('no memory');
          const evaluator = new FakeEvaluator(content);
          evaluator.late = this.late;
          this.evaluators.push(evaluator);
          return evaluator;
        },
        releaseGo: () => void this.released++,
        onFailing: (reason) => void this.failing.push(reason),
        log: silentLogger(),
      },
    );
  }

  get go(): FakeGo {
    return last(this.gos);
  }

  get evaluator(): FakeEvaluator {
    return last(this.evaluators);
  }

  /** Asks until the answer is compiled. */
  async compiled(path: string): Promise<void> {
    await until(async () => (await this.opa.decide({ path, input: undefined })).by === 'compiled', {
      withinMs: 5000,
      what: `${path} is compiled`,
    });
  }

  async ask(path: string): Promise<unknown> {
    const { text } = await this.opa.decide({ path, input: undefined });
    return text === undefined ? undefined : JSON.parse(text);
  }

  /** Asks as often as it takes for a path to be compiled. */
  async use(path: string): Promise<void> {
    await this.ask(path);
    await this.ask(path);
  }

  put(path: string, text: string | undefined): Promise<void> {
    return this.opa.write([{ path: path.split('/'), text }]);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.opa.close();
  }
}

function last<T>(list: readonly T[]): T {
  const found = list.at(-1);
  if (found === undefined) throw new Error('there is none yet');
  return found;
}

function policy(hash: string, rego: string): EmbeddedPolicy {
  return { hash, modules: [{ path: 'app.rego', rego, version: 1 }] };
}

const APP: readonly DocPath[] = [['app']];

test('a path is compiled once it is asked for again: Go answers until then', async () => {
  await using world = new World();
  await world.opa.activate(policy('one', 'app/allow = users/alice'), APP, []);
  await world.put('users/alice', '1.0');
  assert.equal(world.compilers.length, 0, 'nothing is started before the first answer');
  assert.deepEqual(await world.opa.decide({ path: 'app/allow', input: undefined }), {
    text: '1.0',
    by: 'go',
    policy: 'one',
  });
  await world.opa.activate(policy('one', 'app/allow = users/alice'), APP, []);
  assert.equal(world.compilers.length, 0, 'nor for one question');
  await world.compiled('app/allow');
  assert.deepEqual(await world.opa.decide({ path: '/app/allow', input: undefined }), {
    text: '1.0',
    by: 'compiled',
    policy: 'one',
  });
  assert.deepEqual(world.opa.readsOf('app/allow'), [['users', 'alice']]);
  await world.put('users/alice', '2');
  assert.equal(await world.ask('app/allow'), 2);
  assert.equal(world.opa.state.compiled.length, 1);
});

test('compiles the entrypoints of the settings and of the last run: Go answers until then, and no later policy waits', async () => {
  await using world = new World({ entrypoints: ['app/allow'], knownEntrypoints: ['app/deny', 'gone/rule'] });
  const rego = 'app/allow = x\napp/deny = x\ngo:app/go = x';
  await world.opa.activate(policy('one', rego), APP, []);
  assert.equal((await world.opa.decide({ path: 'app/deny', input: undefined })).by, 'go');
  await until(() => world.opa.state.compiled.length > 0, { withinMs: 5000, what: 'they are compiled' });
  assert.deepEqual([...world.opa.state.compiled].sort(), ['app/allow', 'app/deny']);
  await world.opa.activate(policy('two', rego), APP, []);
  const answer = await world.opa.decide({ path: 'app/deny', input: undefined });
  assert.deepEqual(answer, { text: undefined, by: 'compiled', policy: 'two' });
});

test('leaves to Go what does not compile, tells why, and asks again with another policy', async () => {
  await using world = new World();
  await world.opa.activate(policy('one', 'go:app/allow = x'), APP, []);
  await world.put('x', '1');
  await world.use('app/allow');
  await until(() => world.opa.state.withGo.length > 0, { withinMs: 5000, what: 'the path is left to Go' });
  assert.deepEqual(world.opa.state.withGo, [{ path: 'app/allow', reason: 'not compiled' }]);
  await world.opa.activate(policy('two', 'app/allow = x'), APP, []);
  assert.equal((await world.opa.decide({ path: 'app/allow', input: undefined })).by, 'compiled');
});

test('a refused policy leaves everything as it was', async () => {
  await using world = new World({ entrypoints: ['app/allow'] });
  await world.opa.activate(policy('one', 'app/allow = app/x'), APP, [{ path: ['app', 'x'], text: '1' }]);
  await world.compiled('app/allow');
  const evaluator = world.evaluator;
  await assert.rejects(world.opa.activate(policy('two', 'nonsense'), APP, []), EngineRefusal);
  await assert.rejects(
    world.opa.activate(policy('three', 'app/x = y'), APP, [{ path: ['app', 'x'], text: '2' }]),
    EngineRefusal,
  );
  assert.equal(await world.ask('app/allow'), 1);
  assert.equal(world.evaluator, evaluator);
  assert.deepEqual(world.go.documents(), { app: { x: 1 } });
});

test('an activation replaces the roots of the policy before and its own, and leaves all else', async () => {
  await using world = new World();
  await world.opa.activate(policy('one', 'app/allow = x'), [['app'], ['old']], [{ path: ['old'], text: '{"a":1}' }]);
  await world.put('users', '{"alice":1}');
  await world.opa.activate(policy('two', 'app/allow = x'), APP, [{ path: ['app', 'roles'], text: '[1]' }]);
  assert.deepEqual(world.go.documents(), { users: { alice: 1 }, app: { roles: [1] } });
  await world.go.kill('lost');
  await world.ask('users');
  assert.deepEqual(world.go.documents(), { users: { alice: 1 }, app: { roles: [1] } });
});

test('a document that collides with a rule is refused by Go, and changes nothing anywhere', async () => {
  await using world = new World({ entrypoints: ['app/allow'] });
  await world.opa.activate(policy('one', 'app/allow = x'), APP, []);
  await world.compiled('app/allow');
  await world.put('x', '1');
  await world.go.kill('unloaded');
  const both = [
    { path: ['x'], text: '2' },
    { path: ['app', 'allow'], text: 'true' },
  ];
  await assert.rejects(world.opa.write(both), (error: unknown) => {
    return error instanceof EngineRefusal && /conflicting rule for data path app\/allow/.test(error.message);
  });
  assert.equal(world.gos.length, 2, 'Go was started for the check');
  assert.equal(await world.ask('app/allow'), 1);
  assert.deepEqual(world.go.documents(), { x: 1 });
  await world.put('app/other', '3');
  assert.deepEqual(JSON.parse(await world.opa.read(['app', 'other'])), { result: 3 });
});

test('a write through a scalar is refused, and one that nothing collides with never starts Go', async () => {
  await using world = new World({ entrypoints: ['app/allow'] });
  await world.opa.activate(policy('one', 'app/allow = x/y'), APP, []);
  await world.compiled('app/allow');
  await world.put('x', '1');
  await world.go.kill('unloaded');
  await assert.rejects(world.put('x/y', '1'), EngineRefusal);
  await world.put('x', '{"y":5}');
  assert.equal(await world.ask('app/allow'), 5);
  assert.equal(world.gos.length, 1);
});

test('a Go part that ended is started again and filled with what changed meanwhile', async () => {
  await using world = new World();
  await world.opa.activate(policy('one', 'go:app/allow = x'), APP, []);
  await world.put('x', '1');
  await world.go.kill('crashed');
  await world.put('x', '2');
  assert.equal(await world.ask('app/allow'), 2);
  assert.equal(world.opa.state.go.starts, 2);
});

test('a question is asked again if Go ends because of something else', async () => {
  await using world = new World();
  await world.opa.activate(policy('one', 'go:app/allow = x'), APP, []);
  await world.put('x', '1');
  world.go.failing = 'decide';
  assert.equal(await world.ask('app/allow'), 1);
  assert.equal(world.opa.state.go.failedEnds, 1);
});

test('a process that compiles ends when nothing is to be compiled', async () => {
  await using world = new World({ idleMs: 1 });
  await world.opa.activate(policy('one', 'app/allow = x\napp/other = x'), APP, []);
  await world.compiled('app/allow');
  const gone = (): boolean => world.compilers.every(({ hasEnded }) => hasEnded);
  await until(gone, { withinMs: 5000, what: 'it has ended' });
  await world.compiled('app/other');
  assert.equal(world.opa.state.go.failedEnds, 0);
});

test('Go is unloaded when nothing needs it, and loaded again for a question', async () => {
  await using world = new World({ idleMs: 1, entrypoints: ['app/allow'] });
  await world.opa.activate(policy('one', 'app/allow = x\ngo:app/go = x'), APP, []);
  await world.compiled('app/allow');
  await until(() => !world.opa.state.go.loaded && world.go.hasEnded, { withinMs: 5000, what: 'Go is unloaded' });
  assert(world.released > 0);
  await world.put('x', '1');
  assert.equal(await world.ask('app/allow'), 1);
  assert.equal(await world.ask('app/go'), 1);
  assert.equal(world.opa.state.go.failedEnds, 0);
});

test('a decision past its time limit ends Go and gets an error; others are asked again', async () => {
  await using world = new World({ decisionMs: 20 });
  await world.opa.activate(policy('one', 'go:app/slow = x\ngo:app/allow = x'), APP, []);
  await world.put('x', '1');
  world.go.hangs.add('app/slow').add('app/allow');
  const slow = world.opa.decide({ path: 'app/slow', input: undefined });
  const other = world.opa.decide({ path: 'app/allow', input: undefined });
  await assert.rejects(slow, (error: unknown) => error instanceof SyncError && error.code === 'decision_timeout');
  assert.equal((await other).text, '1');
  assert.equal(world.opa.state.go.starts, 2);
  assert.equal(world.opa.state.decisions.failed, 1);
});

test('questions of an evaluator that ended are asked again of the one that replaces it', async () => {
  await using world = new World({ entrypoints: ['app/allow'] });
  await world.opa.activate(policy('one', 'app/allow = x'), APP, []);
  await world.compiled('app/allow');
  await world.put('x', '1');
  const first = world.evaluator;
  first.hangs.add('app/allow');
  const asked = world.opa.decide({ path: 'app/allow', input: undefined });
  first.end('crashed');
  assert.deepEqual(await asked, { text: '1', by: 'compiled', policy: 'one' });
  assert.equal(world.evaluators.length, 2);
  assert.equal(world.opa.state.evaluator.failedEnds, 1);
});

test('where no evaluator can be made again, Go answers', async () => {
  await using world = new World({ entrypoints: ['app/allow'] });
  await world.opa.activate(policy('one', 'app/allow = x'), APP, []);
  await world.compiled('app/allow');
  await world.put('x', '1');
  world.failingEvaluators = 100;
  world.evaluator.end('memory');
  assert.deepEqual(await world.opa.decide({ path: 'app/allow', input: undefined }), {
    text: '1',
    by: 'go',
    policy: 'one',
  });
  assert.deepEqual(world.opa.state.compiled, []);
  const [left] = world.opa.state.withGo;
  assert.deepEqual(
    [left?.path, left?.reason.replace(/;.*/, '')],
    ['app/allow', 'no evaluator could be made with all documents'],
  );
});

test('a path that a change of documents leaves to Go is no compiled one, and its reason is told', async () => {
  await using world = new World({ entrypoints: ['app/allow'] });
  await world.opa.activate(policy('one', 'app/allow = x'), APP, []);
  await world.compiled('app/allow');
  await world.put('x/12', '1');
  assert.equal((await world.opa.decide({ path: 'app/allow', input: undefined })).by, 'go');
  assert.deepEqual(world.opa.state.compiled, []);
  assert.deepEqual(
    world.opa.state.withGo.map(({ path }) => path),
    ['app/allow'],
  );
});

test('a path that Go answers because of the documents is named with the reason for as long as it is so', async () => {
  await using world = new World({ entrypoints: ['app/allow', 'app/other'] });
  await world.opa.activate(policy('one', 'app/allow = x\napp/other = y'), APP, []);
  await world.compiled('app/allow');
  world.evaluator.odd.add('app/allow');
  world.evaluator.errs.add('app/other'); // because of what was asked: the next question may be another one
  assert.equal((await world.opa.decide({ path: 'app/allow', input: undefined })).by, 'go');
  assert.equal((await world.opa.decide({ path: 'app/other', input: undefined })).by, 'go');
  assert.deepEqual(world.opa.state.withGo, [{ path: 'app/allow', reason: 'odd numbers' }]);
  assert.deepEqual(world.opa.state.compiled, ['app/other']);
  world.evaluator.odd.clear();
  assert.equal((await world.opa.decide({ path: 'app/allow', input: undefined })).by, 'compiled');
  assert.deepEqual(world.opa.state.withGo, []);
});

test('a path whose decisions end three evaluators in a row is left to Go with the reason, and no other one is', async () => {
  await using world = new World({ entrypoints: ['app/allow', 'app/slow'] });
  await world.opa.activate(policy('one', 'app/allow = x\napp/slow = x'), APP, []);
  await world.compiled('app/allow');
  const slow = () => world.opa.decide({ path: 'app/slow', input: undefined });
  const isLate = () => assert.rejects(slow(), { code: 'decision_timeout' });
  world.late.add('app/slow');
  await isLate();
  await isLate();
  world.late.clear();
  assert.equal((await slow()).by, 'compiled');
  world.late.add('app/slow');
  for (const _ of [1, 2, 3]) await isLate();
  for (const _ of [1, 2, 3]) assert.equal((await slow()).by, 'go');
  assert.equal((await world.opa.decide({ path: 'app/allow', input: undefined })).by, 'compiled');
  assert.deepEqual(world.opa.state.compiled, ['app/allow']);
  const reason = 'its compiled decisions end the evaluator, one after the other: a decision takes too long';
  assert.deepEqual(world.opa.state.withGo, [{ path: 'app/slow', reason }]);

  world.late.clear();
  await world.opa.activate(policy('two', 'app/allow = x\napp/slow = x'), APP, []);
  await world.compiled('app/slow');
});

test('where compiled evaluation errs, Go answers', async () => {
  await using world = new World({ entrypoints: ['app/allow'] });
  await world.opa.activate(policy('one', 'app/allow = x'), APP, []);
  await world.compiled('app/allow');
  await world.put('x', '1');
  world.evaluator.errs.add('app/allow');
  assert.equal((await world.opa.decide({ path: 'app/allow', input: undefined })).by, 'go');
});

test('an evaluator that cannot take a change is replaced before the write returns', async () => {
  await using world = new World({ entrypoints: ['app/allow'] });
  await world.opa.activate(policy('one', 'app/allow = x'), APP, []);
  await world.compiled('app/allow');
  world.evaluator.isPatchFailing = true;
  await world.put('x', '2');
  assert.equal(await world.ask('app/allow'), 2);
  assert.equal(world.evaluators.length, 2);
});

test('a large change leads to a new evaluator', async () => {
  await using world = new World({ entrypoints: ['app/allow'] });
  await world.opa.activate(policy('one', 'app/allow = x'), APP, []);
  await world.compiled('app/allow');
  const first = world.evaluator;
  await world.put('large', JSON.stringify('x'.repeat(1024 * 1024)));
  await world.put('x', '2');
  assert.equal(first.patches, 0);
  assert(first.hasEnded);
  assert.equal(await world.ask('app/allow'), 2);
});

test('a Go part that cannot be started makes the engine fail, and it comes back by itself', async () => {
  await using world = new World();
  world.failingStarts = 4;
  await assert.rejects(world.opa.start(), (error: unknown) => {
    return error instanceof SyncError && error.code === 'engine_unreachable' && /no memory/.test(error.message);
  });
  await until(() => world.failing.length === 2, { withinMs: 5000, what: 'the engine is back' });
  assert.match(world.failing[0] ?? '', /no memory/);
  assert.equal(world.failing[1], undefined);
  await world.opa.start();
});

test('an entrypoint that ends its compiler is left to Go with the reason; all others are compiled, and Go goes on', async () => {
  await using world = new World({ entrypoints: ['app/a', 'app/b', 'app/c', 'app/huge'] });
  world.fatal.add('app/huge');
  const rego = 'app/a = x\napp/b = x\napp/c = x\napp/huge = x';
  await world.opa.activate(policy('one', rego), APP, []);
  await until(() => world.opa.state.withGo.length > 0, { withinMs: 5000, what: 'it is left to Go' });
  assert.deepEqual(world.opa.state.withGo, [{ path: 'app/huge', reason: 'it takes too much' }]);
  assert.deepEqual([...world.opa.state.compiled].sort(), ['app/a', 'app/b', 'app/c']);
  assert.deepEqual([world.gos.length, world.go.hasEnded], [1, false]);

  const before = world.compilers.length;
  await world.opa.activate(policy('two', rego), APP, []);
  assert.equal(world.compilers.length, before, 'the next policy does not wait for it');
  assert.deepEqual([...world.opa.state.compiled].sort(), ['app/a', 'app/b', 'app/c']);
  await until(() => world.opa.state.withGo.length > 0, { withinMs: 5000, what: 'it was tried again' });

  world.fatal.clear();
  await world.opa.activate(policy('three', rego), APP, []);
  await world.compiled('app/huge');
  assert.deepEqual(world.opa.state.withGo, []);
});

test('a policy that ends Go whenever it is judged is refused, and the one before stays', async () => {
  await using world = new World();
  await world.opa.activate(policy('one', 'go:app/allow = x'), APP, []);
  await world.put('x', '1');
  await assert.rejects(world.opa.activate(policy('two', 'crash'), APP, []), (error: unknown) => {
    return error instanceof EngineRefusal && /too much for OPA's compiler: .* crashed: too deep/.test(error.message);
  });
  assert.equal(world.gos.length, 2);
  assert.equal(await world.ask('app/allow'), 1);
  assert.equal(world.opa.policy, 'one');
});

test('a policy during which Go ends because of something else is judged in another process', async () => {
  await using world = new World();
  await world.opa.activate(policy('one', 'go:app/allow = x'), APP, []);
  world.go.failing = 'prepare';
  await world.opa.activate(policy('two', 'go:app/allow = y'), APP, []);
  assert.equal(world.opa.policy, 'two');
});

test('decisions and changes wait for no compilation', async () => {
  await using world = new World({ entrypoints: ['app/allow'] });
  let finish: () => void = () => undefined;
  world.duringCompile = () => new Promise((resolve) => (finish = resolve));
  await world.opa.activate(policy('one', 'app/allow = x'), APP, []);
  await until(() => world.compilers.some(({ calls }) => calls.includes('compile')), {
    ...{ withinMs: 5000, what: 'a compilation is under way' },
  });
  await world.put('x', '1');
  assert.equal(await world.ask('app/allow'), 1);
  await world.put('x', '2');
  assert.equal(await world.ask('app/allow'), 2);
  assert.equal(world.evaluators.length, 0);
  finish();
  await world.compiled('app/allow');
  assert.equal(await world.ask('app/allow'), 2);
});

test('tells what changed', async () => {
  await using world = new World();
  const seen: EngineChange[] = [];
  const stop = world.opa.watch((change) => seen.push(change));
  await world.opa.activate(policy('one', 'app/allow = x'), APP, []);
  await world.put('x/y', '1');
  stop();
  await world.put('x/y', '2');
  assert.deepEqual(seen, [
    { kind: 'policy', hash: 'one' },
    { kind: 'documents', paths: [['x', 'y']] },
  ]);
});

test('documents of a commit with the same modules are written, and decisions are of that commit', async () => {
  await using world = new World();
  await world.opa.activate(policy('one', 'app/allow = x'), APP, []);
  const seen: EngineChange[] = [];
  world.opa.watch((change) => seen.push(change));
  await world.opa.write([{ path: ['app', 'x'], text: '1' }], 'two');
  assert.equal((await world.opa.decide({ path: 'app/allow', input: undefined })).policy, 'two');
  await world.put('x', '2');
  assert.equal(world.opa.policy, 'two');
  assert.deepEqual(
    seen.map(({ kind }) => kind),
    ['documents', 'documents'],
    'nothing is prepared',
  );
});

test('changes during an activation wait for it, and decisions do not', async () => {
  await using world = new World({ entrypoints: ['app/allow'] });
  await world.opa.activate(policy('one', 'app/allow = x'), APP, []);
  await world.compiled('app/allow');
  await world.put('x', '1');
  const activation = world.opa.activate(policy('two', 'app/allow = y'), APP, []);
  const write = world.put('y', '2');
  assert.equal(await world.ask('app/allow'), 1);
  await Promise.all([activation, write]);
  assert.equal(await world.ask('app/allow'), 2);
});

test('a document with a number as its name leaves what looks there to Go, also one that is written while it is compiled', async () => {
  await using world = new World();
  await world.opa.activate(policy('one', 'app/allow = users\napp/other = rooms'), APP, []);
  await world.put('users/alice', '1');
  await world.put('rooms/red', '1');
  await world.compiled('app/allow');
  await world.put('users/7', '2');
  assert.equal((await world.opa.decide({ path: 'app/allow', input: undefined })).by, 'go');
  world.duringCompile = () => world.put('rooms/7', '2');
  await world.use('app/other');
  await until(() => world.opa.state.withGo.some(({ path }) => path === 'app/other'), {
    withinMs: 5000,
    what: 'app/other stays with Go',
  });
  assert.equal((await world.opa.decide({ path: 'app/other', input: undefined })).by, 'go');
});

/** Waits for so many turns of the queue of promises. */
async function turns(count: number): Promise<void> {
  for (let turn = 0; turn < count; turn++) await Promise.resolve();
}

test('a document with a number as its name counts whenever it is written around the end of a compilation', async () => {
  for (let delay = 0; delay < 24; delay++) {
    await using world = new World();
    await world.opa.activate(policy('one', 'app/allow = rooms'), APP, []);
    await world.put('rooms/red', '1');
    const writes: Promise<void>[] = [];
    world.duringCompile = async () => {
      writes.push(turns(delay).then(() => world.put('rooms/7', '2')));
    };
    await world.use('app/allow');
    await until(() => writes.length > 0 && world.evaluators.length > 0, { withinMs: 5000, what: 'it is compiled' });
    await Promise.all(writes);
    await new Promise((resolve) => setImmediate(resolve));
    const { by } = await world.opa.decide({ path: 'app/allow', input: undefined });
    assert.equal(by, 'go', `written ${delay} turns later`);
  }
});

test('a large document with a number in it counts for an evaluator that takes the place of one that cannot be made', async () => {
  await using world = new World({ entrypoints: ['app/allow'] });
  await world.opa.activate(policy('one', 'app/allow = rooms'), APP, []);
  await world.compiled('app/allow');
  world.failingEvaluators = 1;
  await world.put('rooms', JSON.stringify({ 7: 'x'.repeat(1024 * 1024) }));
  assert.equal((await world.opa.decide({ path: 'app/allow', input: undefined })).by, 'go');
});

test('a large change keeps what is compiled meanwhile', async () => {
  for (let delay = 0; delay < 24; delay++) {
    await using world = new World({ entrypoints: ['app/allow'] });
    await world.opa.activate(policy('one', 'app/allow = x\napp/other = x'), APP, []);
    await world.compiled('app/allow');
    const writes: Promise<void>[] = [];
    world.duringCompile = async () => {
      writes.push(turns(delay).then(() => world.put('large', JSON.stringify('x'.repeat(1024 * 1024)))));
    };
    await world.use('app/other');
    await until(() => writes.length > 0, { withinMs: 5000, what: 'it is compiled' });
    await Promise.all(writes);
    await world.compiled('app/other');
  }
});

test('a document is read from Go while no evaluator has it', async () => {
  await using world = new World({ entrypoints: ['app/allow'] });
  await world.opa.activate(policy('one', 'app/allow = x'), APP, []);
  await world.compiled('app/allow');
  await world.put('x', '1');
  world.evaluator.end('crashed');
  assert.equal(await world.opa.read(['x']), '{"result":1}');
});

test('decisions do not wait for a query that a caller has written, and queries have an end and a queue of their own', async () => {
  await using world = new World({ decisionMs: 1000 });
  await world.opa.activate(policy('h1', 'go:app/x = users/alice'), [], []);
  await world.put('users/alice', '1');
  const query = (url: string) => world.opa.http({ method: 'GET', url, headers: {}, body: undefined }, true);
  assert.equal((await query('/v1/data/users/alice')).status, 200);
  assert.equal(world.gos.length, 2, 'a process of their own');
  const [main, free] = world.gos as [FakeGo, FakeGo];
  free.hangs.add('/endless');
  const endless = Promise.all(Array.from({ length: 3 }, () => query('/endless').catch((error: unknown) => error)));
  await until(() => free.calls.filter((call) => call === 'http').length > 2, { withinMs: 5000, what: 'it is asked' });
  const startedMs = performance.now();
  for (let asked = 0; asked < 20; asked++) assert.equal(await world.ask('app/x'), 1);
  assert.equal(
    (await world.opa.http({ method: 'GET', url: '/v1/data/users/alice', headers: {}, body: undefined })).status,
    200,
  );
  assert(performance.now() - startedMs < 1000, 'a decision waited');
  const many = await Promise.allSettled(Array.from({ length: 40 }, () => query('/v1/data/users/alice')));
  const refused = many.flatMap((one) => (one.status === 'rejected' ? [one.reason as SyncError] : []));
  assert(refused.length > 0 && refused.length < 40, `${refused.length} were refused`);
  for (const error of refused) assert.deepEqual([error.status, error.retryAfterSeconds], [503, 1]);
  const ends = (await endless) as SyncError[];
  assert.equal(ends[0]?.code, 'decision_timeout');
  assert(!main.hasEnded && free.hasEnded);
  assert.equal(world.failing.length, 0);
});

test('a query that a caller has written sees the policy and the documents of now', async () => {
  await using world = new World();
  const answer = async (path: string): Promise<string> => {
    const url = `/v1/data/${path}`;
    return new TextDecoder().decode(
      (await world.opa.http({ method: 'GET', url, headers: {}, body: undefined }, true)).body,
    );
  };
  await world.opa.activate(policy('h1', 'go:app/x = users/alice'), [], []);
  await world.put('users/alice', '1');
  assert.equal(await answer('app/x'), '{"result":1}');
  await world.put('users/alice', '2');
  assert.equal(await answer('app/x'), '{"result":2}');
  await world.opa.activate(policy('h2', 'go:app/x = users/bob'), [['users']], [{ path: ['users'], text: '{"bob":3}' }]);
  assert.equal(await answer('app/x'), '{"result":3}');
  await world.opa.close();
  assert.equal(world.released > 0, true);
  for (const go of world.gos) assert(go.hasEnded);
});
