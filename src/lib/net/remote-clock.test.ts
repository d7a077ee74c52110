import assert from 'node:assert/strict';
import { test } from 'node:test';
import { RemoteClock } from './remote-clock.js';

const HOUR = 3_600_000;

test('the message with the least delay tells how a clock differs', () => {
  for (const ahead of [0, HOUR, -HOUR]) {
    const clock = new RemoteClock();
    assert.equal(clock.offsetMs, 0, 'nothing was heard');
    for (const [sent, wayMs] of [
      [1000, 80],
      [2000, 3],
      [3000, 500],
    ] as const) {
      clock.heard(sent + ahead, sent + wayMs);
    }
    assert.equal(clock.offsetMs, 3 - ahead);
  }
});

test('a clock that is set is followed at once, and one that drifts within two spans', () => {
  const clock = new RemoteClock();
  clock.heard(0, 5);
  clock.heard(HOUR, 10);
  assert.equal(clock.offsetMs, 10 - HOUR);
  clock.heard(20, 30);
  assert.equal(clock.offsetMs, 10);
  clock.heard(301_000, 301_050);
  assert.equal(clock.offsetMs, 10, 'the span before counts');
  clock.heard(602_000, 602_050);
  assert.equal(clock.offsetMs, 50);
});
