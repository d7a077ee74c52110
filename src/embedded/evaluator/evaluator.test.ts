import assert from 'node:assert/strict';
import { before, describe, it } from 'node:test';
import { compiledRego } from '../../../test/support/compile-rego.js';
import { until } from '../../../test/support/until.js';
import { EngineArtifact } from '../artifact.js';
import type { Evaluator } from '../types.js';
import { type EvaluatorOptions, startEvaluator } from './evaluator.js';
import { EvaluatorThread } from './evaluator-thread.js';
import { LocalEvaluator } from './local-evaluator.js';

const REGO = `package t

allow if input.user in data.users
echo := input
conflict := 1 if input.a
conflict := 2 if input.b
slow if {
	all := numbers.range(1, 2000)
	some a in all
	some b in all
	some c in all
	a == b
	b == c
	c < 0 # takes time, not memory
}
large := count(numbers.range(1, 100000000)) if input
`;
const NAMES = ['allow', 'echo', 'conflict', 'slow', 'large'];
const WITH_GO = `package t

compared := semver.compare(input.a, input.b)
clock := time.now_ns()
same if clock == time.now_ns()
names := {sprintf("%s-%v", [upper(x), i]) | some i, x in input}
`;
const PROGRAM = new EngineArtifact();
const MEMORY = 64 * 1024 * 1024;
const DOCUMENTS = '{"users":["ann"]}';

describe('evaluators', () => {
  let wasm: Uint8Array;
  let module: WebAssembly.Module;
  before(async () => {
    wasm = await compiledRego(
      REGO,
      NAMES.map((name) => `t/${name}`),
    );
    module = new WebAssembly.Module(wasm);
  });

  interface Started extends AsyncDisposable {
    readonly evaluator: Evaluator;
  }

  async function thread({
    timeLimitMs = 60_000,
    memoryLimitBytes = MEMORY,
  } = {}): Promise<Started & { evaluator: EvaluatorThread }> {
    const evaluator = await EvaluatorThread.start({
      module,
      documents: DOCUMENTS,
      memoryLimitBytes,
      timeLimitMs,
      loadProgram: () => assert.fail('no function of Go is needed'),
    });
    return { evaluator, [Symbol.asyncDispose]: () => evaluator.close() };
  }

  async function local(): Promise<Started> {
    const evaluator = new LocalEvaluator({ module, documents: DOCUMENTS, memoryLimitBytes: MEMORY });
    return { evaluator, [Symbol.asyncDispose]: () => evaluator.close() };
  }

  for (const [place, start] of Object.entries({ 'a thread': thread, "the caller's thread": local })) {
    describe(`an evaluator in ${place}`, () => {
      it('answers each question with its own result', async () => {
        await using started = await start();
        const asked = Array.from({ length: 200 }, (_, index) => started.evaluator.decide('t/echo', String(index)));
        assert.deepEqual(
          await Promise.all(asked),
          asked.map((_, index) => String(index)),
        );
        assert.equal(await started.evaluator.decide('t/conflict', '{}'), undefined);
        assert.equal(await started.evaluator.decide('t/echo', undefined), undefined);
      });

      it('applies changes in the order of the calls', async () => {
        await using started = await start();
        const { evaluator } = started;
        const ask = (): Promise<string | undefined> => evaluator.decide('t/allow', '{"user":"bob"}');
        const earlier = ask();
        const patched = evaluator.patch([{ path: ['users'], text: '["bob"]' }]);
        assert.deepEqual(await Promise.all([earlier, ask()]), [undefined, 'true']);
        await patched;
        assert.equal(await evaluator.read(['users']), '["bob"]');
        assert(evaluator.memoryBytes > 0);
      });

      it('goes on after a question that errs', async () => {
        await using started = await start();
        const { evaluator } = started;
        await assert.rejects(evaluator.decide('t/conflict', '{"a":1,"b":1}'), { kind: 'erred' });
        await assert.rejects(evaluator.decide('t/nothing', undefined), { kind: 'erred' });
        await assert.rejects(evaluator.decide('t/echo', '1.5e3'), { kind: 'erred' });
        assert.equal(await evaluator.decide('t/allow', '{"user":"ann"}'), 'true');
      });

      it('ends at the memory limit: the question that needs so much errs', async () => {
        await using started = await start();
        await assert.rejects(started.evaluator.decide('t/large', '1'), { kind: 'erred', isCrash: true });
        assert.equal((await started.evaluator.ended).kind, 'memory');
        await assert.rejects(started.evaluator.decide('t/echo', '1'), { kind: 'ended' });
        await assert.rejects(started.evaluator.patch([]), { kind: 'ended' });
        await assert.rejects(started.evaluator.read([]), { kind: 'ended' });
      });

      it('is closed after what it was asked', async () => {
        const { evaluator } = await start();
        const asked = [evaluator.decide('t/echo', '1'), evaluator.decide('t/echo', '2')];
        const closed = evaluator.close();
        await assert.rejects(evaluator.decide('t/echo', '3'), { kind: 'ended' });
        assert.deepEqual(await Promise.all(asked), ['1', '2']);
        await closed;
        assert.equal((await evaluator.ended).kind, 'closed');
        await evaluator.close();
      });
    });
  }

  describe('an evaluator in a thread', () => {
    it('ends with a decision beyond the time limit; the others can be asked again', async () => {
      await using started = await thread({ timeLimitMs: 200 });
      const { evaluator } = started;
      const asked = ['t/echo', 't/slow', 't/echo'].map((path) => evaluator.decide(path, '1'));
      const later = Promise.allSettled(asked);
      const ends = (await later).map((result) => {
        return result.status === 'fulfilled' ? result.value : [result.reason.kind, result.reason.isCrash];
      });
      // The first one was carried out; its answer travels with those after it.
      assert.deepEqual(ends, [
        ['ended', false],
        ['timeout', true],
        ['ended', false],
      ]);
      assert.equal((await evaluator.ended).kind, 'timeout');
    });

    it('does not count the time that a decision waits for others', async () => {
      await using started = await thread({ timeLimitMs: 1000 });
      const asked = Array.from({ length: 20_000 }, () => started.evaluator.decide('t/echo', `"${'x'.repeat(500)}"`));
      // This thread does nothing for longer than the limit; the other one is not late.
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1500);
      assert.equal((await Promise.all(asked)).length, 20_000);
    });

    it('cannot start with documents that do not fit', async () => {
      const memoryLimitBytes = MEMORY / 8;
      const documents = JSON.stringify({ users: ['x'.repeat(memoryLimitBytes)] });
      await assert.rejects(
        EvaluatorThread.start({
          module,
          documents,
          memoryLimitBytes,
          timeLimitMs: 1000,
          loadProgram: () => PROGRAM.load(),
        }),
        {
          kind: 'erred',
        },
      );
      assert.throws(() => new LocalEvaluator({ module, documents, memoryLimitBytes }), { kind: 'erred' });
    });

    it('survives deep values: they are for Go, or end the thread', async () => {
      await using started = await thread();
      const { evaluator } = started;
      const deep = '['.repeat(1_000_000) + ']'.repeat(1_000_000);
      await assert.rejects(evaluator.decide('t/echo', deep), { kind: 'erred' });
      assert.equal(await evaluator.decide('t/echo', '1'), '1');
      await assert.rejects(evaluator.patch([{ path: ['deep'], text: deep }]), { kind: 'erred' });
      assert.equal((await evaluator.ended).kind, 'crashed');
    });
  });

  describe('an evaluator of a policy with built-in functions of Go', () => {
    const options: EvaluatorOptions = {
      thread: 'main',
      memoryLimitBytes: 4 * MEMORY,
      timeLimitMs: 60_000,
      loadProgram: () => PROGRAM.load(),
    };

    let withGo: Uint8Array;
    before(async () => {
      withGo = await compiledRego(WITH_GO, ['t/compared', 't/clock', 't/same', 't/names']);
    });

    it('calls them in its own thread', async () => {
      const evaluator = await startEvaluator(options, { wasm: withGo, documents: '{}' });
      assert(evaluator instanceof EvaluatorThread);
      assert.equal(await evaluator.decide('t/compared', '{"a":"1.10.0","b":"1.9.9"}'), '1');
      assert.equal(await evaluator.decide('t/compared', '{"a":"none","b":"1.9.9"}'), undefined);
      assert.equal(await evaluator.decide('t/names', '["<b>","a"]'), '["\\u003cB\\u003e-0","A-1"]');
      assert.equal(await evaluator.decide('t/same', undefined), 'true');
      const first = await evaluator.decide('t/clock', undefined);
      await until(async () => (await evaluator.decide('t/clock', undefined)) !== first, {
        withinMs: 10_000,
        what: 'another time',
      });
      await evaluator.close();
    });

    it("is in the caller's thread where there are none", async () => {
      const evaluator = await startEvaluator(options, { wasm, documents: '{}' });
      assert(evaluator instanceof LocalEvaluator);
      assert.equal(evaluator.decideNow('t/echo', '{}'), '{}');
      await evaluator.close();
    });

    it('leaves to Go what depends on odd numbers in documents', async () => {
      for (const thread of ['main', 'worker'] as const) {
        const entrypoints = [{ path: 't/echo', compiled: true, reads: [] }];
        const documents = '{"users":["ann"],"n":1.0}';
        const evaluator = await startEvaluator({ ...options, thread }, { wasm, documents, entrypoints });
        assert.equal(await evaluator.decide('t/echo', '1'), '1');
        await assert.rejects(evaluator.decide('t/allow', '{"user":"ann"}'), { kind: 'erred', isOfDocuments: true });
        await assert.rejects(evaluator.decide('t/echo', '1.0'), { kind: 'erred', isOfDocuments: false });
        await evaluator.patch([{ path: ['n'], text: undefined }]);
        assert.equal(await evaluator.decide('t/allow', '{"user":"ann"}'), 'true');
        await evaluator.close();
      }
    });

    it('does not start without them', async () => {
      const loadProgram = () => Promise.reject(new Error('the file is missing'));
      await assert.rejects(
        startEvaluator({ ...options, loadProgram }, { wasm: withGo, documents: '{}' }),
        /the file is missing/,
      );
      assert.throws(
        () => new LocalEvaluator({ module: new WebAssembly.Module(withGo), documents: '{}', memoryLimitBytes: MEMORY }),
        /semver\.compare/,
      );
    });
  });
});
