import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { after, before, describe, it } from 'node:test';
import { setTimeout } from 'node:timers/promises';
import type { EmbeddedOpa } from '../../src/embedded/embedded-opa.js';
import { GoProcess } from '../../src/embedded/go/go-process.js';
import { WorkerFailure } from '../../src/embedded/types.js';
import { EngineRefusal } from '../../src/embedded/vocabulary.js';
import { SyncError } from '../../src/lib/errors.js';
import { startEmbeddedOpa } from '../support/embedded-opa.js';
import { until } from '../support/until.js';

/**
 * What a policy author can do to the processes of an embedded engine by what is decided, and what becomes of those that are killed, frozen or
 * filled. Decisions that are compiled go on meanwhile.
 */

const MIB = 1024 * 1024;
const LIMIT_MS = 1000;
const OTHERS_MS = 2000;
const MEMORY_BYTES = 256 * MIB;
/** Beside its memory the process has the program itself, several times over while V8 compiles it. */
const MOST_MIB = 1000;

/** Rules that take too long or too much. */
const RULES: Readonly<Record<string, string>> = {
  replaced: 'count(replace(replace(data.long.text, "x", data.long.text), "x", data.long.text))',
  regexes:
    'count([1 | some a in numbers.range(1, 1000000); regex.match(sprintf("(a|b%d){1,900}c", [a]), data.long.text)])',
  graph: 'count(graph.reachable_paths(data.graph, {"0"}))',
};

describe('an embedded engine with a hostile policy', () => {
  let world: Awaited<ReturnType<typeof startEmbeddedOpa>>;
  let opa: EmbeddedOpa;
  const started: GoProcess[] = [];
  before(async () => {
    world = await startEmbeddedOpa({
      ...{ decisionMs: LIMIT_MS, evaluatorMs: LIMIT_MS, idleMs: 60_000, goBytes: MEMORY_BYTES },
      onGo: (go) => started.push(go),
    });
    opa = world.opa;
    const bombs = Object.entries(RULES).map(([name, body]) => `bomb_${name} := ${body}\n`);
    const rego = `package app\n\nimport rego.v1\n\nallow if data.users[input.user]\n\n${bombs.join('\n')}`;
    await opa.activate({ hash: 'one', modules: [{ path: 'app.rego', rego, version: 1 }] }, [['app']], []);
    const nodes = Array.from({ length: 22 }, (_, n) => n);
    await opa.write([
      { path: ['users'], text: '{"eve":true}' },
      { path: ['long'], text: JSON.stringify({ text: 'x'.repeat(100_000) }) },
      {
        path: ['graph'],
        text: JSON.stringify(Object.fromEntries(nodes.map((n) => [n, nodes.filter((m) => m > n).map(String)]))),
      },
    ]);
    await allowed('go');
    await until(async () => (await opa.decide({ path: 'app/allow', input: EVE })).by === 'compiled', {
      withinMs: 60_000,
      what: 'the decision of all others is compiled',
    });
  });
  after(() => world?.[Symbol.asyncDispose]());

  const EVE = '{"user":"eve"}';
  async function allowed(by?: string): Promise<void> {
    const answer = await opa.decide({ path: 'app/allow', input: EVE });
    assert.equal(answer.text, 'true');
    if (by !== undefined) assert.equal(answer.by, by);
  }
  /** The most memory that any process of Go's code has had, in MiB. */
  async function peakMib(): Promise<number> {
    const texts = await Promise.all(started.map(({ pid }) => readFile(`/proc/${pid}/status`, 'utf8').catch(() => '')));
    return Math.max(0, ...texts.map((text) => Number(/VmHWM:\s*(\d+)/.exec(text)?.[1] ?? 0) / 1024));
  }

  /** Asks for a bomb, and for what others decide until it has an outcome; tells the most memory meanwhile, in MiB. */
  async function explode(names: readonly string[]): Promise<{ outcomes: unknown[]; peak: number }> {
    let isOver = false;
    let peak = 0;
    const outcomes = Promise.all(
      names.map((name) =>
        opa.decide({ path: `app/bomb_${name}`, input: undefined }).then(
          (answer) => answer.text ?? 'undefined',
          (error: unknown) => error,
        ),
      ),
    ).finally(() => {
      isOver = true;
    });
    while (!isOver) {
      const startedMs = performance.now();
      await allowed('compiled');
      assert(performance.now() - startedMs < OTHERS_MS, 'others wait');
      peak = Math.max(peak, await peakMib());
      await setTimeout(20);
    }
    return { outcomes: await outcomes, peak };
  }

  it('ends a decision that takes too much, before it has it, and others go on', async () => {
    const { outcomes, peak } = await explode(['replaced']);
    assert(outcomes[0] instanceof Error);
    assert.match(outcomes[0].message, /SYNC_EMBEDDED_ENGINE_MEMORY_LIMIT|took longer than/);
    assert(peak < MOST_MIB, `${Math.round(peak)} MiB`);
  });

  it('ends decisions that take too long, or answers them, all at once, and others go on', async () => {
    const { outcomes, peak } = await explode(['regexes', 'graph']);
    for (const outcome of outcomes) {
      const isRefused =
        outcome instanceof SyncError || outcome instanceof EngineRefusal || outcome instanceof WorkerFailure;
      assert(typeof outcome === 'string' || isRefused, String(outcome));
      assert(String(outcome).length < 1000, 'an error is no list of stacks');
    }
    assert(peak < MOST_MIB, `${Math.round(peak)} MiB`);
  });

  it('starts another process for one that is killed or frozen, and answers what it was asked', async () => {
    for (const signal of ['SIGKILL', 'SIGSTOP'] as const) {
      const answer = opa.decide({ path: 'app', input: EVE });
      const { pid } = started.at(-1) ?? {};
      assert(pid !== undefined);
      process.kill(pid, signal);
      await answer.catch((error: unknown) => assert(error instanceof SyncError, String(error)));
      await allowed('compiled');
      const again = await opa.decide({ path: 'app/users', input: EVE });
      assert.deepEqual(again, { text: undefined, by: 'go', policy: 'one' });
      await until(() => !existsSync(`/proc/${pid}`), { withinMs: 20_000, what: `the process of ${signal} is gone` });
    }
  });
});

describe('the process that compiles entrypoints', () => {
  const modules = [
    { path: 'app.rego', rego: 'package app\n\nallow if input.a\n\ndeny if input.b\n', version: 1 },
  ] as const;
  const entrypoints = ['app/allow', 'app/deny'];
  const A = '{"a":true}';

  it('ends at the limit of time: what it compiled is left to Go by name, whose process goes on', async () => {
    const compilers: GoProcess[] = [];
    await using world = await startEmbeddedOpa({ compileMs: 1, entrypoints, onCompiler: (go) => compilers.push(go) });
    const { opa } = world;
    await opa.activate({ hash: 'one', modules }, [['app']], []);
    await until(() => opa.state.withGo.length === 2, { withinMs: 120_000, what: 'both are left to Go' });
    for (const { reason } of opa.state.withGo) assert.match(reason, /^to compile it .* took longer than 1 ms$/);
    const answer = await opa.decide({ path: 'app/allow', input: A });
    assert.deepEqual(answer, { text: 'true', by: 'go', policy: 'one' });
    assert.equal(opa.state.go.starts, 1);
    const gone = (): boolean => compilers.every(({ pid }) => !existsSync(`/proc/${pid}`));
    await until(gone, { withinMs: 20_000, what: 'they are gone' });
  });

  it('may be killed: the next one compiles', async () => {
    let killed = 0;
    const kill = ({ pid }: GoProcess): void => {
      if (pid !== undefined && killed++ === 0) process.kill(pid, 'SIGKILL');
    };
    await using world = await startEmbeddedOpa({ entrypoints, onCompiler: kill });
    const { opa } = world;
    await opa.activate({ hash: 'one', modules }, [['app']], []);
    await until(async () => (await opa.decide({ path: 'app/allow', input: A })).by === 'compiled', {
      ...{ withinMs: 120_000, what: 'it is compiled' },
    });
    assert.deepEqual([...opa.state.compiled].sort(), entrypoints);
    assert.equal(opa.state.go.starts, 1);
  });
});

it('a process that never says that it is ready is ended, and whoever waits for it is told', async () => {
  await assert.rejects(GoProcess.start({ startMs: 1 }), (error) => {
    return error instanceof WorkerFailure && /was not ready within 1 ms/.test(error.message);
  });
});
