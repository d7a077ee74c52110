import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createServerClock } from '../../ui/src/stream/clock.js';
import { createPace } from '../../ui/src/stream/pace.js';

function setUp() {
  const drawnAt: number[] = [];
  const timers: { run: () => void; at: number }[] = [];
  let [now, isHidden] = [0, false];
  let seen = (): void => undefined;
  const ask = createPace(
    () => drawnAt.push(now),
    {
      isHidden: () => isHidden,
      onSeen: (callback) => {
        seen = callback;
      },
      now: () => now,
      setTimer: (run, ms) => timers.push({ run, at: now + ms }),
    },
    250,
  );
  return {
    ask,
    drawnAt,
    timers,
    /** Lets time go by in steps of 10 ms, asking for a draw in each. */
    pass(ms: number, asks = true): void {
      for (const end = now + ms; now < end; ) {
        now += 10;
        if (asks) ask();
        for (const { run } of timers.splice(0, timers.length, ...timers.filter(({ at }) => at > now))) {
          if (!timers.some((timer) => timer.run === run)) run();
        }
      }
    },
    hide(hidden: boolean): void {
      isHidden = hidden;
      seen();
    },
  };
}

test('the first draw is at once, and then there are at most 4 a second', () => {
  const { ask, drawnAt, pass } = setUp();
  ask();
  assert.deepEqual(drawnAt, [0]);
  pass(1000);
  assert.deepEqual(drawnAt, [0, 250, 500, 750, 1000]);
  pass(1000, false);
  assert.equal(drawnAt.length, 5, 'what is not asked for is not drawn');
});

test('while the tab is hidden nothing is drawn; seen again, all of it is at once', () => {
  const { drawnAt, pass, hide } = setUp();
  pass(100);
  hide(true);
  pass(5000);
  const before = drawnAt.length;
  assert(before <= 1);
  hide(false);
  assert.equal(drawnAt.length, before + 1);
});

test('the clock of the server is known by the event that came with the least delay', () => {
  let here = 1000;
  const clock = createServerClock(() => here);
  assert.equal(clock.now(), 1000);
  clock.hear(60_900); // 100 ms late
  here = 2000;
  clock.hear(61_990); // 10 ms late
  here = 3000;
  clock.hear(62_500); // 500 ms late
  assert.equal(clock.now(), 62_990);
  clock.reset();
  clock.hear(10_000);
  assert.equal(clock.now(), 10_000);
});

test('a clock of the server that is set back is known about a minute later', () => {
  let here = 1_000_000;
  const clock = createServerClock(() => here);
  const pass = (offset: number, seconds: number): void => {
    for (let second = 0; second < seconds; second += 5) {
      here += 5000;
      clock.hear(here + offset);
    }
  };
  pass(60_000, 90);
  pass(50_000, 20);
  assert.equal(clock.now() - here, 60_000, 'a delay, for all that is known');
  pass(50_000, 50);
  assert.equal(clock.now() - here, 50_000);
});
