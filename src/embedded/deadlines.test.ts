import assert from 'node:assert/strict';
import { mock, test } from 'node:test';
import { Deadlines } from './deadlines.js';

function clock(t: { after(end: () => void): void }): (ms: number) => void {
  mock.timers.enable({ apis: ['setTimeout'] });
  t.after(() => mock.timers.reset());
  return (ms) => mock.timers.tick(ms);
}

test('the time of a call begins when it is the first one', (t) => {
  const tick = clock(t);
  let late = 0;
  const deadlines = new Deadlines(() => late++);
  const first = deadlines.begin(100);
  const second = deadlines.begin(100);
  tick(90);
  first.done();
  tick(90);
  assert.deepEqual([late, second.isLate], [0, false]);
  tick(10);
  assert.deepEqual([late, first.isLate, second.isLate], [1, false, true]);
});

test('a call that ended, in whatever order, is never late', (t) => {
  const tick = clock(t);
  let late = 0;
  const deadlines = new Deadlines(() => late++);
  const [first, second] = [deadlines.begin(100), deadlines.begin(10)];
  second.done();
  tick(99);
  first.done();
  first.done();
  deadlines.begin(100);
  deadlines.close();
  tick(1000);
  assert.deepEqual([late, deadlines.size], [0, 0]);
});

test('a call gets its time again, a few times, while the worker is busy with something else', (t) => {
  const tick = clock(t);
  let late = 0;
  let isBusy = true;
  const deadlines = new Deadlines(
    () => late++,
    () => isBusy,
  );
  const first = deadlines.begin(100);
  tick(100);
  tick(100);
  assert.equal(late, 0);
  isBusy = false;
  tick(100);
  assert.deepEqual([late, first.isLate], [1, true]);
  first.done();
  isBusy = true;
  deadlines.begin(100);
  for (let time = 0; time < 4; time++) tick(100);
  assert.equal(late, 2);
});

test('what came later than a call gives it no more time: it waits for the call', (t) => {
  const tick = clock(t);
  let isBusy = false;
  const deadlines = new Deadlines(
    () => undefined,
    () => isBusy,
  );
  const call = deadlines.begin(100);
  isBusy = true;
  tick(100);
  assert.equal(call.isLate, true);
});
