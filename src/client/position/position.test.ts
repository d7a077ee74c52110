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
    this.tracker.closed(`entry ${seq}`);
  }

  check(): void {
    const { position } = this.tracker;
    assert(position !== undefined);
    assert.deepEqual(
      position.unresolved,
      [...this.open].sort((x, y) => x - y),
    );
    for (const seq of position.applied_beyond) {
      assert(this.learned.has(seq) && !this.open.has(seq) && seq > position.applied_through);
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

test('what was replaced before the engine had it is applied, and shows with what replaced it', () => {
  const tracker = new PositionTracker(['a']);
  tracker.enter('e');
  tracker.opened(1, 'one');
  tracker.opened(2, 'two');
  tracker.opened(3, 'three');
  tracker.pulled(3, true);
  tracker.replaced('one', 'two');
  tracker.replaced('two', 'three');
  assert.deepEqual(tracker.position?.unresolved, [3]);
  assert.deepEqual(
    [1, 2, 3].map((seq) => tracker.isHidden(seq)),
    [true, true, true],
  );
  tracker.closed('three');
  assert.deepEqual(
    [1, 2, 3].map((seq) => tracker.isHidden(seq)),
    [false, false, false],
  );
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
