import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { Fifo } from './evaluator-thread.js';

test('gives back what it was given, in order', () => {
  fc.assert(
    fc.property(
      fc.array(fc.oneof(fc.nat(3000), fc.constant(-1), fc.integer({ min: -3000, max: -1 })), { maxLength: 40 }),
      (steps) => {
        const fifo = new Fifo<number>();
        const model: number[] = [];
        let next = 0;
        for (const step of steps) {
          for (let count = 0; count < step; count++) {
            fifo.push(next);
            model.push(next++);
          }
          for (let count = 0; count > step; count--) assert.equal(fifo.shift(), model.shift());
          assert.equal(fifo.length, model.length);
        }
      },
    ),
    { numRuns: 30 },
  );
});
