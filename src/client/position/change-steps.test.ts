import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { EntryState } from '../desired/entry-state.js';
import type { KnownEntry } from '../desired/entry-table.js';
import { ChangeSteps } from './change-steps.js';

const READY: EntryState = { kind: 'ready', body: undefined, error: undefined };

/** Steps with a clock that each look moves on, and updates of entries without content. */
class Story {
  clock = 0;
  readonly steps = new ChangeSteps(() => ++this.clock);

  begins(seq: number, entries: number): KnownEntry[] {
    const transaction = `t${seq}`;
    this.steps.onData({
      kind: 'begun',
      transaction,
      update: { id: '', reason: '', callbacks: [], isLoad: false, seq },
    });
    const known = Array.from({ length: entries }, () => {
      const entry = { transaction, state: { kind: 'fetching', error: undefined } } as unknown as KnownEntry;
      this.steps.onData({ kind: 'named', transaction, entry: entry.entry, known: entry });
      return entry;
    });
    this.steps.onData({ kind: 'sealed', transaction });
    return known;
  }

  is(entry: KnownEntry | undefined, state: EntryState): void {
    assert(entry !== undefined);
    (entry as { state: EntryState }).state = state;
    this.steps.onData({ kind: 'settled', entry });
  }

  /** A later update takes its place. */
  forgets(entry: KnownEntry | undefined): void {
    assert(entry !== undefined);
    (entry as { state: EntryState }).state = { kind: 'gone' };
    this.steps.onData({ kind: 'forgotten', entry });
  }

  /** An update comes whose place a later one has taken already. */
  isCovered(seq: number): void {
    const transaction = `t${seq}`;
    const update = { id: '', reason: '', callbacks: [], isLoad: false, seq };
    this.steps.onData({ kind: 'begun', transaction, update });
    this.steps.onData({ kind: 'named', transaction, entry: {} as unknown as KnownEntry['entry'], known: undefined });
    this.steps.onData({ kind: 'sealed', transaction });
  }

  tells(): object[] {
    const { steps, told } = this.steps.take();
    told();
    return steps;
  }
}

test('an update is fetched when all its contents are here, and applied when the engine has all of them', () => {
  const story = new Story();
  const [one, other] = story.begins(7, 2);
  story.is(one, READY);
  assert.deepEqual(story.tells(), []);
  story.is(other, READY);
  story.is(one, { kind: 'applied' });
  assert.deepEqual(story.tells(), [{ seq: 7, heard: 1, fetched: 2 }]);
  story.is(other, { kind: 'applied' });
  assert.deepEqual(story.tells(), [{ seq: 7, heard: 1, fetched: 2, applied: 3 }]);
  assert.deepEqual(story.tells(), []);
});

test('what is refused is told with its time, and again once it is applied', () => {
  const story = new Story();
  const [entry] = story.begins(7, 1);
  story.is(entry, READY);
  story.is(entry, { kind: 'blocked', error: 'a rule is there' });
  assert.deepEqual(story.tells(), [{ seq: 7, heard: 1, fetched: 2, refused: 3 }]);
  story.is(entry, { kind: 'applied' });
  assert.deepEqual(story.tells(), [{ seq: 7, heard: 1, fetched: 2, refused: 3, applied: 4 }]);
});

test('what a later update replaces before the engine has any of it was not applied, nor fetched where nothing arrived', () => {
  const story = new Story();
  const [failing] = story.begins(4, 1);
  story.is(failing, { kind: 'fetching', error: 'no answer' });
  story.forgets(failing);
  assert.deepEqual(story.tells(), [{ seq: 4, heard: 1, replaced: 2 }]);
  const [ready] = story.begins(5, 1);
  story.is(ready, READY);
  story.forgets(ready);
  assert.deepEqual(story.tells(), [{ seq: 5, heard: 3, fetched: 4, replaced: 5 }]);
  const [written, other] = story.begins(6, 2);
  story.is(written, { kind: 'applied' });
  story.forgets(other);
  assert.deepEqual(story.tells(), [{ seq: 6, heard: 6, applied: 7 }]);
  story.isCovered(7);
  assert.deepEqual(story.tells(), [{ seq: 7, heard: 8, replaced: 9 }]);
});

test('a report that was lost is told again, and one that was overtaken, too', () => {
  const story = new Story();
  const [entry] = story.begins(7, 1);
  story.is(entry, READY);
  const { steps, told } = story.steps.take();
  assert.deepEqual(story.steps.take().steps, steps);
  story.is(entry, { kind: 'applied' });
  told();
  assert.deepEqual(story.tells(), [{ seq: 7, heard: 1, fetched: 2, applied: 3 }]);
});

test('the last hundred are told, whatever came', () => {
  const story = new Story();
  for (let seq = 1; seq <= 3000; seq++) story.begins(seq, 0);
  const told = story.tells() as { seq: number }[];
  assert.deepEqual([told.length, told[0]?.seq, told.at(-1)?.seq], [100, 2901, 3000]);
});

test('a commit is heard of, fetched, and held or refused', () => {
  const story = new Story();
  const error = { message: 'no', file: null, line: null };
  story.steps.policyChanged({ wanted: 'a', held: null, error: null, since: null });
  story.steps.policyFetched('a');
  story.steps.policyChanged({ wanted: 'a', held: 'a', error: null, since: 1 });
  assert.deepEqual(story.tells(), [{ commit: 'a', heard: 1, fetched: 2, applied: 3 }]);
  story.steps.policyChanged({ wanted: 'b', held: 'a', error: null, since: 1 });
  story.steps.policyChanged({ wanted: 'b', held: 'a', error, since: 2 });
  story.steps.policyChanged({ wanted: 'b', held: 'a', error, since: 2 });
  assert.deepEqual(story.tells(), [{ commit: 'b', heard: 4, refused: 5 }]);
  assert.deepEqual(story.tells(), []);
});

test('a new server is told again what became of the last commits', () => {
  const story = new Story();
  const held = { held: 'a', error: null, since: null };
  story.steps.policyChanged({ wanted: 'a', ...held });
  story.steps.policyChanged({ wanted: 'b', held: 'a', error: { message: 'no', file: null, line: null }, since: null });
  const told = story.tells();
  assert.deepEqual(told, [
    { commit: 'a', heard: 1, applied: 2 },
    { commit: 'b', heard: 3, refused: 4 },
  ]);
  assert.deepEqual(story.tells(), []);
  story.steps.tellAgain();
  assert.deepEqual(story.tells(), told);
});

test('a commit that is wanted anew has only the times of now', () => {
  const story = new Story();
  story.steps.policyChanged({ wanted: 'a', held: 'a', error: null, since: null });
  story.steps.policyChanged({ wanted: 'b', held: 'b', error: null, since: null });
  story.tells();
  story.steps.policyChanged({ wanted: 'a', held: 'b', error: null, since: null });
  story.steps.policyChanged({ wanted: 'a', held: 'a', error: null, since: null });
  assert.deepEqual(story.tells(), [{ commit: 'a', heard: 5, applied: 6 }]);
});
