import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { ReconnectBackoff } from './reconnect-backoff.js';

/** Waits with the longest that chance allows; time goes on by each wait. */
function longest(maxMs = 30_000) {
  const clock = { now: 0 };
  const waits = new ReconnectBackoff({ maxMs, now: () => clock.now, random: () => 1 });
  return {
    waits,
    clock,
    take: (count: number, floorMs = 0, spreadMs = 0) =>
      Array.from({ length: count }, () => {
        const waitMs = waits.next(floorMs, spreadMs);
        clock.now += waitMs;
        return waitMs;
      }),
  };
}

describe('waits between attempts to connect', () => {
  it('double up to the bound where there was no connection, or a short one', () => {
    const { waits, take } = longest();
    assert.deepEqual(take(4), [1000, 2000, 4000, 8000]);
    waits.ended(4000);
    assert.deepEqual(take(3), [16_000, 30_000, 30_000]);
    assert.equal(waits.failures, 7);
  });

  it('stay short for a minute after a connection that had lasted, however long it failed before, and grow then', () => {
    const { waits, clock, take } = longest();
    take(10);
    waits.ended(5000);
    assert.equal(waits.failures, 0);
    const lostMs = clock.now;
    const short = take(30);
    assert(
      short.every((ms) => ms <= 2000),
      String(short),
    );
    while (clock.now - lostMs < 60_000) take(1);
    assert.deepEqual(take(6), [1000, 2000, 4000, 8000, 16_000, 30_000]);
  });

  it('are as long as the other side asks for, and spread a large fleet as its server has said', () => {
    const { waits, take } = longest();
    waits.ended(5000);
    assert.deepEqual(take(2, 7000), [8000, 9000]);
    waits.ended(5000);
    assert.deepEqual(take(2, 0, 12_000), [12_000, 12_000]);
    waits.ended(5000);
    assert.deepEqual(take(1, 0, 90_000), [30_000], 'the setting is the bound');
  });

  it('are never longer than the setting', () => {
    const { waits, take } = longest(50);
    assert.deepEqual(take(3), [50, 50, 50]);
    waits.ended(5000);
    assert.deepEqual(take(3), [50, 50, 50]);
  });

  it('are none after a server that sends its clients away, five times in a row, and those of a restart from then on', () => {
    const { waits, take } = longest();
    take(5);
    const atOnce = Array.from({ length: 6 }, () => waits.sentAway(10));
    assert.deepEqual(atOnce, [true, true, true, true, true, false]);
    assert.deepEqual(take(2), [2000, 2000]);
    assert.equal(waits.sentAway(5000), true, 'a lasting connection in between');
    assert.equal(waits.failures, 0);
    assert.deepEqual(take(3), [1000, 2000, 2000], 'the other server may be restarting, too');
  });

  it('are logged as a warning after 15 s, as an error after a minute, and quietly again after a connection that lasted', () => {
    const { waits, clock } = longest();
    const levels = [0, 14_999, 15_000, 59_999, 60_000].map((nowMs) => {
      clock.now = nowMs;
      waits.next(0);
      return waits.level;
    });
    assert.deepEqual(levels, ['info', 'info', 'warn', 'warn', 'error']);
    waits.ended(5000);
    waits.next(0);
    assert.equal(waits.level, 'info');
  });
});
