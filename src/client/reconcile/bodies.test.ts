import assert from 'node:assert/strict';
import { it } from 'node:test';
import fc from 'fast-check';
import { ACCEPTING_ENGINE } from '../../../test/support/accepting-engine.js';
import { EngineRefusal } from '../../embedded/vocabulary.js';
import { SyncError } from '../../lib/errors.js';
import { silentLogger } from '../../lib/observe/log.js';
import { peerDataConfig, peerUpdate } from '../../wire/data.js';
import { type Body, bodyOfText } from '../../wire/json-node.js';
import { DataEvents } from '../status/data-events.js';
import { Applier } from './applier.js';
import { DataUpdater } from './data-updater.js';

const PATHS = ['/a', '/a/b', '/a/b/c', '/d'];

/** What happens, one after another; after each the loops run for some turns of the event loop. */
const STEP = fc.record({
  what: fc.oneof(
    fc.record({
      publish: fc.constantFrom('PUT' as const, 'PATCH' as const, 'DELETE' as const),
      path: fc.constantFrom(...PATHS),
    }),
    fc.record({ engine: fc.constantFrom('takes' as const, 'refuses' as const, 'away' as const) }),
    fc.constantFrom(
      'base changes' as const,
      'base is read' as const,
      'sources fail' as const,
      'sources answer' as const,
    ),
  ),
  turns: fc.nat(6),
});
type Step = typeof STEP extends fc.Arbitrary<infer T> ? T : never;

async function turns(count: number): Promise<void> {
  for (let turn = 0; turn < count; turn++) await new Promise((resolve) => setImmediate(resolve));
}

/**
 * Runs the steps, and then until all is settled; returns the bodies that were fetched, and those
 * that layers hold.
 */
async function run(steps: readonly Step[]): Promise<{ fetched: Map<Body, number>; held: Set<Body> }> {
  const fetched = new Map<Body, number>();
  let engine: 'takes' | 'refuses' | 'away' = 'takes';
  let base = 0;
  let answers = true;
  let updates = 0;
  let tail: Promise<unknown> = Promise.resolve();
  const ended = async (): Promise<void> => {
    await turns(2);
    if (engine === 'away') throw new SyncError('engine_unreachable', 'away', { retryable: true });
    if (engine === 'refuses') throw new EngineRefusal('a rule is there', []);
  };
  const applier = new Applier({ ...ACCEPTING_ENGINE, write: ended }, { takesPolicy: false });
  const updater = new DataUpdater(
    { topics: ['t'], backoff: { minMs: 1, maxMs: 2 } },
    {
      applier,
      exclusive: (step) => {
        const result = tail.then(() => step(new AbortController().signal));
        tail = result.catch(() => undefined);
        return result;
      },
      fetch: async ({ url }) => {
        await turns(1);
        if (!answers) throw new SyncError('fetch_failed', 'no answer', { retryable: true });
        const isPatch = url.startsWith('http://patch/');
        const text = isPatch
          ? '[{"op":"add","path":"/x","value":1}]'
          : `{"${url.startsWith('http://base/') ? base : url}":1}`;
        const body: Body = {
          ...bodyOfText(text),
          dispose: async () => void fetched.set(body, (fetched.get(body) ?? 0) + 1),
        };
        fetched.set(body, 0);
        const disposable = Object.assign(body, { [Symbol.asyncDispose]: body.dispose });
        return { outcome: 'body', body: disposable };
      },
      fetchConfig: async () =>
        peerDataConfig.parse({
          entries: ['/a', '/d'].map((dst_path) => ({ url: `http://base${dst_path}`, topics: ['t'], dst_path })),
        }),
      events: new DataEvents(),
      log: silentLogger(),
    },
  );
  const stop = new AbortController();
  const running = updater.run(stop.signal);
  updater.connected(undefined);
  for (const { what, turns: count } of steps) {
    if (what === 'base changes') base++;
    else if (what === 'base is read') updater.resync();
    else if (what === 'sources fail') answers = false;
    else if (what === 'sources answer') answers = true;
    else if ('engine' in what) engine = what.engine;
    else {
      const { publish, path } = what;
      const url = publish === 'DELETE' ? '' : `http://${publish.toLowerCase()}/${++updates}`;
      const entries = [{ url, topics: ['t'], dst_path: path, save_method: publish }];
      const update = { id: `u${++updates}`, entries };
      updater.receive(peerUpdate.parse(update), 't', JSON.stringify(update));
    }
    await turns(count);
  }
  [engine, answers] = ['takes', true];
  for (const giveUp = Date.now() + 20_000; updater.pending.length > 0; await turns(1)) {
    assert(Date.now() < giveUp, `not settled: ${updater.pending}`);
  }
  stop.abort();
  await running;
  const layers = [...applier.held.layers.all(), ...[...applier.held.blocked.values()].map(({ layer }) => layer)];
  const held = layers.flatMap(({ content }) => (content.kind === 'put' ? [content.body] : []));
  return { fetched, held: new Set(held) };
}

it('a body that was fetched is disposed of exactly when no layer holds it, whatever happens in between', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(STEP, { maxLength: 40 }), async (steps) => {
      const { fetched, held } = await run(steps);
      for (const [body, disposals] of fetched)
        assert.equal(disposals > 0, !held.has(body), `${body.text()}: ${disposals}`);
    }),
    { numRuns: 100 },
  );
});
