import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { MAX_LISTED_SEQS } from '../../wire/session.js';
import { PositionTracker } from './position.js';

/**
 * A server's log, the way from it to one client, and what that client has really learned of:
 * without any cleverness.
 */
class NaiveWorld {
  readonly own = ['a', 'b'];
  readonly tracker = new PositionTracker(this.own);
  readonly log: { seq: number; topics: readonly string[]; prev: Record<string, number> }[] = [];
  readonly learned = new Set<number>();
  readonly open = new Set<number>();
  /** Updates that another one has replaced before the engine had them, by that one. */
  readonly behind = new Map<number, number[]>();
  wire: number[] = [];
  /**
   * A notice was lost on a connection that stayed: known only to the model until something tells
   * the client.
   */
  lost = false;

  constructor() {
    this.tracker.enter('e');
    this.pull();
  }

  isOwn(seq: number): boolean {
    return this.log[seq - 1]?.topics.some((topic) => this.own.includes(topic)) ?? false;
  }

  get heads(): Record<string, number> {
    return Object.fromEntries(
      this.own.map((topic) => [topic, this.log.findLast(({ topics }) => topics.includes(topic))?.seq ?? 0]),
    );
  }

  publish(topics: readonly string[]): void {
    const last = (topic: string): number => this.log.findLast((record) => record.topics.includes(topic))?.seq ?? 0;
    const prev = Object.fromEntries(topics.map((topic) => [topic, last(topic)]));
    const seq = this.log.length + 1;
    this.log.push({ seq, topics, prev });
    if (this.isOwn(seq)) this.wire.push(seq);
  }

  learn(seq: number): void {
    if (!this.isOwn(seq) || this.learned.has(seq)) return;
    this.learned.add(seq);
    this.open.add(seq);
    this.tracker.opened(seq, `entry ${seq}`);
  }

  deliver(): void {
    const seq = this.wire.shift();
    const record = this.log[(seq ?? 0) - 1];
    if (seq === undefined || record === undefined) return;
    this.learn(seq);
    this.tracker.arrived(seq, record.prev);
  }

  /**
   * As it is read: the answer has the heads, and who turns out to have missed more asks again from
   * there.
   */
  pull(): void {
    this.tracker.isBehind(this.heads);
    const after = this.tracker.pullAfter;
    for (const { seq } of this.log) if (seq > after) this.learn(seq);
    this.tracker.pulled(this.log.length, true);
    this.lost = false;
  }

  settle(seq: number): void {
    this.open.delete(seq);
    this.behind.delete(seq);
    this.tracker.closed(`entry ${seq}`);
  }

  /** An update replaces an earlier one, neither of which the engine holds. */
  replace(seq: number, by: number): void {
    this.open.delete(seq);
    this.behind.set(by, [...(this.behind.get(by) ?? []), seq, ...(this.behind.get(seq) ?? [])]);
    this.behind.delete(seq);
    this.tracker.replaced(`entry ${seq}`, `entry ${by}`);
  }

  /** What the engine holds neither itself nor replaced. */
  get lacking(): number[] {
    return [...new Set([...this.open, ...[...this.behind.values()].flat()])].sort((x, y) => x - y);
  }

  check(): void {
    const { position } = this.tracker;
    assert(position !== undefined);
    const { lacking } = this;
    assert.deepEqual(position.unresolved, lacking);
    for (const seq of position.applied_beyond) {
      assert(this.learned.has(seq) && !lacking.includes(seq) && seq > position.applied_through);
    }
    if (this.lost) return; // The client cannot know yet; `heartbeat` below tells it.
    for (const { seq } of this.log) {
      if (seq <= position.applied_through && this.isOwn(seq)) assert(this.learned.has(seq), `claims ${seq}`);
    }
  }
}

const topics = fc.subarray(['a', 'b', 'c'], { minLength: 1 });
const step = fc.oneof(
  { weight: 4, arbitrary: topics.map((drawn) => (world: NaiveWorld) => world.publish(drawn)) },
  { weight: 4, arbitrary: fc.constant((world: NaiveWorld) => world.deliver()) },
  {
    weight: 1,
    arbitrary: fc.constant((world: NaiveWorld) => {
      if (world.wire.shift() !== undefined) world.lost = true;
    }),
  },
  {
    weight: 1,
    arbitrary: fc.constant((world: NaiveWorld) => {
      world.wire = [];
      world.tracker.doubt();
    }),
  },
  { weight: 1, arbitrary: fc.constant((world: NaiveWorld) => world.pull()) },
  {
    weight: 2,
    arbitrary: fc.constant((world: NaiveWorld) => {
      if (world.tracker.isBehind(world.heads)) world.pull();
    }),
  },
  {
    weight: 2,
    arbitrary: fc.nat().map((n) => (world: NaiveWorld) => {
      const open = [...world.open];
      const seq = open[n % Math.max(1, open.length)];
      if (seq !== undefined) world.settle(seq);
    }),
  },
  {
    weight: 2,
    arbitrary: fc.tuple(fc.nat(), fc.nat()).map(([n, m]) => (world: NaiveWorld) => {
      const open = [...world.open];
      const [one = 0, other = 0] = [n, m].map((at) => open[at % Math.max(1, open.length)]);
      if (one !== other) world.replace(Math.min(one, other), Math.max(one, other));
    }),
  },
);

test('a position never claims an update that was not learned of, and one heartbeat finds every loss', () => {
  fc.assert(
    fc.property(fc.array(step, { maxLength: 60, size: 'max' }), (steps) => {
      const world = new NaiveWorld();
      for (const run of steps) {
        run(world);
        world.check();
      }
      while (world.wire.length > 0) world.deliver();
      if (world.tracker.isBehind(world.heads) || world.tracker.isDoubtful) world.pull();
      world.check();
      for (const { seq } of world.log) if (world.isOwn(seq)) assert(world.learned.has(seq), `missed ${seq}`);
      assert.equal(world.tracker.hasGap, false);
      assert(world.tracker.through >= Math.max(...Object.values(world.heads)));
    }),
    { numRuns: 2000 },
  );
});

test('a lost notice shows at the next one on its topic, and not before on another', () => {
  const tracker = new PositionTracker(['a', 'b']);
  tracker.enter('e');
  tracker.pulled(4, true);
  assert.equal(tracker.arrived(5, { a: 4 }), false);
  // 6 on `b` is lost.
  assert.equal(tracker.arrived(7, { a: 5 }), false);
  assert.equal(tracker.arrived(8, { b: 6 }), true);
  assert.equal(tracker.pullAfter, 7);
  assert.equal(tracker.isBehind({ a: 7, b: 8 }), true);
  assert.equal(tracker.pullAfter, 4);
  tracker.pulled(8, true);
  assert.deepEqual(tracker.position, { epoch: 'e', applied_through: 8, applied_beyond: [], unresolved: [] });
});

test('what was lost on one topic counts as known no sooner than it was read, whatever came on another', () => {
  const tracker = new PositionTracker(['a', 'b']);
  tracker.enter('e');
  tracker.pulled(4, true);
  // 5 on `a` is lost, and 7 on `b`.
  assert.equal(tracker.arrived(6, { b: 4 }), false);
  assert.equal(tracker.arrived(8, { b: 7 }), true);
  const known = (): boolean[] => [5, 6, 7, 8].map((seq) => tracker.knows(seq));
  assert.deepEqual(known(), [false, true, false, true]);
  assert.equal(tracker.isBehind({ a: 5, b: 8 }), true);
  assert.equal(tracker.pullAfter, 4);
  assert.deepEqual(known(), [false, true, false, true]);
  tracker.pulled(8, true);
  assert.deepEqual(known(), [true, true, true, true]);
});

test('what was replaced before the engine had it is applied when what replaced it is', () => {
  const tracker = new PositionTracker(['a']);
  tracker.enter('e');
  tracker.opened(1, 'one');
  tracker.opened(2, 'two');
  tracker.opened(3, 'three');
  tracker.pulled(3, true);
  tracker.replaced('one', 'two');
  tracker.replaced('two', 'three');
  tracker.hidden(2, 'three');
  const hidden = (): boolean[] => [1, 2, 3].map((seq) => tracker.isHidden(seq));
  assert.deepEqual(
    [tracker.position?.unresolved, hidden()],
    [
      [1, 2, 3],
      [true, true, true],
    ],
  );
  tracker.closed('three');
  assert.deepEqual([tracker.position?.unresolved, hidden()], [[], [false, false, false]]);
});

test('an update of two entries is applied when both are, each itself or by what replaced it', () => {
  const tracker = new PositionTracker(['a']);
  tracker.enter('e');
  for (const [seq, id] of [
    [1, 'one /x'],
    [1, 'one /y'],
    [2, 'two /x'],
    [2, 'two /y'],
  ] as const)
    tracker.opened(seq, id);
  tracker.pulled(2, true);
  tracker.replaced('one /x', 'two /x');
  tracker.replaced('one /y', 'two /y');
  tracker.closed('two /x');
  assert.deepEqual(tracker.position?.unresolved, [1, 2]);
  tracker.closed('two /y');
  assert.deepEqual(tracker.position?.unresolved, []);
});

test('what a load left out is applied once the engine holds what may stand for it', () => {
  const tracker = new PositionTracker(['a']);
  tracker.enter('e');
  tracker.pulled(4, true);
  // 5 and 7 are not in the load, and of 6 maybe a part: 8 may have replaced them.
  for (const seq of [6, 8]) tracker.opened(seq, `entry ${seq}`);
  tracker.loaded(9);
  tracker.pulled(9, true);
  const lacking = (): readonly number[] | undefined => tracker.position?.unresolved;
  assert.deepEqual(tracker.position, {
    epoch: 'e',
    applied_through: 9,
    applied_beyond: [],
    unresolved: [5, 6, 7, 8],
  });
  tracker.closed('entry 6');
  tracker.arrived(10, { a: 9 });
  assert.deepEqual(lacking(), [5, 6, 7, 8], 'of 6, too, a part may be replaced by 8');
  assert.equal(tracker.position?.applied_through, 10);
  tracker.opened(11, 'entry 11');
  tracker.arrived(11, { a: 10 });
  tracker.replaced('entry 8', 'entry 11');
  assert.deepEqual(lacking(), [5, 6, 7, 8, 11]);
  tracker.closed('entry 11');
  assert.deepEqual(lacking(), []);
});

test('of what a very long load left out the newest updates are listed', () => {
  const tracker = new PositionTracker(['a']);
  tracker.enter('e');
  tracker.pulled(4, true);
  const end = 10 * MAX_LISTED_SEQS;
  for (const seq of [6, end]) tracker.opened(seq, `entry ${seq}`);
  tracker.loaded(end);
  tracker.pulled(end, true);
  const { unresolved = [] } = tracker.position ?? {};
  assert.equal(unresolved.length, MAX_LISTED_SEQS);
  assert.deepEqual([unresolved[0], unresolved[1], unresolved.at(-1)], [6, end - MAX_LISTED_SEQS + 2, end]);
});

test('what is read page by page costs what is in the pages, however much the engine lacks', () => {
  const tracker = new PositionTracker(['a']);
  tracker.enter('e');
  tracker.pulled(4, true);
  const end = 300_000;
  for (let seq = 6; seq <= end; seq++) {
    tracker.opened(seq, `entry ${seq}`);
    if (seq % 100 === 0) tracker.loaded(seq);
  }
  tracker.pulled(end, true);
  assert.equal(tracker.position?.applied_through, 5 + MAX_LISTED_SEQS);
  for (let seq = 6; seq < end; seq++) tracker.closed(`entry ${seq}`);
  assert.equal(tracker.position?.unresolved.at(-2), end - 1, 'it may stand for a part of that');
  tracker.closed(`entry ${end}`);
  assert.deepEqual(tracker.position, { epoch: 'e', applied_through: end, applied_beyond: [], unresolved: [] });
});

test('who comes new has nothing older than its load', () => {
  const tracker = new PositionTracker(['a']);
  tracker.enter('e');
  tracker.opened(8, 'entry 8');
  tracker.loaded(9);
  tracker.pulled(9, true);
  assert.deepEqual(tracker.position, { epoch: 'e', applied_through: 9, applied_beyond: [], unresolved: [8] });
});

test('another life begins before the first update that was not resolved, and anew with another topic', () => {
  const record = { epoch: 'e', topics: ['a'], applied_through: 9, applied_beyond: [11], unresolved: [4, 7] };
  const same = new PositionTracker(['a']);
  same.adopt(record);
  assert.equal(same.pullAfter, 3);
  const more = new PositionTracker(['a', 'b']);
  more.adopt(record);
  assert.deepEqual([more.epoch, more.pullAfter], ['e', 0]);
});

test('with more open updates than a position may list it says less, never more', () => {
  const tracker = new PositionTracker(['a']);
  tracker.enter('e');
  const count = MAX_LISTED_SEQS + 10;
  for (let seq = 1; seq <= count; seq++) tracker.opened(seq, `entry ${seq}`);
  tracker.pulled(count, true);
  const { position } = tracker;
  assert.equal(position?.unresolved.length, MAX_LISTED_SEQS);
  assert.equal(position?.applied_through, MAX_LISTED_SEQS);
});
