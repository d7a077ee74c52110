import assert from 'node:assert/strict';
import { test } from 'node:test';
import { PolicyFreshness } from './policy-freshness.js';

const [H1, H2, H3, OTHER] = ['1', '2', '3', 'f'].map((digit) => digit.repeat(40)) as [string, string, string, string];
const NOT_READY = { code: 'policy_not_ready', status: 503, retryAfterSeconds: 1 };

/** An instance that serves H2, by a history of H1, H2, H3, of which it has the first two. */
function instance(): {
  freshness: PolicyFreshness;
  state: { head: string; wanted: string; isLogUp: boolean; earlier: string[]; looks: number; nowMs: number };
  here: Set<string>;
  /** What a look at the source brings. */
  onLook: { run: () => void };
} {
  const onLook = { run: (): void => undefined };
  const state = { head: H2, wanted: H2, isLogUp: true, earlier: [] as string[], looks: 0, nowMs: 0 };
  const here = new Set([H1, H2]);
  const freshness = new PolicyFreshness(
    {
      tracker: {
        head: () => state.head,
        wanted: () => state.wanted,
        refresh: async () => {
          state.looks++;
          onLook.run();
        },
      },
      heads: { look: () => ({ place: 1, head: { hash: state.wanted, earlier: state.earlier } }) },
      objects: { hasCommit: async (hash) => here.has(hash) },
      source: { isSuccessor: async (hash, of) => [H1, H2, H3].indexOf(hash) > [H1, H2, H3].indexOf(of) },
      isLogUp: () => state.isLogUp,
      now: () => state.nowMs,
    },
    { lookMs: 50, lookEveryMs: 100, unknownMs: 1000 },
  );
  return { freshness, state, here, onLook };
}

test('who holds nothing, the head, a commit before it, or no commit at all is answered without a look', async () => {
  const { freshness, state } = instance();
  for (const base of [undefined, H2, H1, ` ${H2.toUpperCase()} `, 'master', '']) await freshness.check(base, true);
  state.earlier = [OTHER];
  await freshness.check(OTHER, true);
  assert.equal(state.looks, 0);
});

test('an instance that is behind asks clients of ours to come again, and serves the others what it has', async () => {
  const { freshness, state } = instance();
  state.wanted = H3;
  for (const base of [undefined, H2, H3]) await assert.rejects(freshness.check(base, true), NOT_READY);
  await freshness.check(undefined, false);
  await freshness.check(H2, false);
});

test('an unknown base is looked for at the source first, a bounded time', async () => {
  const { freshness, state, here, onLook } = instance();
  onLook.run = () => {
    here.add(H3);
    state.head = state.wanted = H3;
  };
  await freshness.check(H3, true);
  assert.equal(state.looks, 1);
  state.nowMs = 200;
  await freshness.check(OTHER, false);
  assert.equal(state.looks, 2, 'whoever asks');
  await Promise.all(['a', 'b', 'c'].map((digit) => freshness.check(digit.repeat(40), false)));
  assert.equal(state.looks, 2, 'and not for each commit that somebody makes up');
});

test('a base that stays unknown is answered with a complete bundle only after a time', async () => {
  const { freshness, state } = instance();
  await assert.rejects(freshness.check(OTHER, true), NOT_READY);
  state.nowMs = 900;
  await assert.rejects(freshness.check(OTHER, true), NOT_READY);
  state.nowMs = 1100;
  await freshness.check(OTHER, true);
  assert.equal(state.looks, 2, 'and then without more looks');
});

test('a base that is here and newer than the head is not taken back before the log had time to tell of it', async () => {
  const { freshness, state, here, onLook } = instance();
  here.add(H3); // at the source, too; the others agreed on it, but the log is away, which nobody has noticed yet
  await assert.rejects(freshness.check(H3, true), NOT_READY);
  state.nowMs = 500;
  state.isLogUp = false;
  await assert.rejects(freshness.check(H3, true), NOT_READY);
  state.nowMs = 900;
  state.isLogUp = true;
  onLook.run = () => {
    state.wanted = H3;
  };
  await assert.rejects(freshness.check(H3, true), NOT_READY);
  state.head = H3;
  await freshness.check(H3, true);
});

test('an instance that is cut off from the log takes no client of ours back to an older commit', async () => {
  const { freshness, state, here } = instance();
  state.isLogUp = false;
  here.add(H3);
  for (const base of [undefined, H1, H2]) await freshness.check(base, true);
  for (const base of [H3, OTHER]) await assert.rejects(freshness.check(base, true), NOT_READY);
  state.nowMs = 1e6;
  await assert.rejects(freshness.check(OTHER, true), NOT_READY);
  await freshness.check(H3, false);
});

test('a look that hangs holds up nobody for longer than its time', async () => {
  const freshness = new PolicyFreshness(
    {
      tracker: { head: () => H2, wanted: () => H2, refresh: () => new Promise(() => undefined) },
      heads: { look: () => ({ place: 0, head: undefined }) },
      objects: { hasCommit: async () => false },
      source: { isSuccessor: async () => false },
      isLogUp: () => true,
    },
    { lookMs: 20, lookEveryMs: 100, unknownMs: 1000 },
  );
  await assert.rejects(freshness.check(H3, true), NOT_READY);
});
