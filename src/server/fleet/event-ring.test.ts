import assert from 'node:assert/strict';
import { test } from 'node:test';
import { EventRing } from './event-ring.js';

const ring = (events: number, size = 1000): EventRing<string> => {
  const made = new EventRing<string>({ events: 3, size });
  for (let at = 1; at <= events; at++) made.add(`e${at}`, 10);
  return made;
};

test('who has seen an event gets those after it', () => {
  assert.deepEqual(ring(2).after(0), ['e1', 'e2']);
  assert.deepEqual(ring(2).after(1), ['e2']);
  assert.deepEqual(ring(2).after(2), []);
});

test('of a number that is not known, or too old, nothing is said', () => {
  assert.equal(ring(2).after(3), undefined);
  assert.equal(ring(5).after(1), undefined);
  assert.deepEqual(ring(5).after(2), ['e3', 'e4', 'e5']);
});

test('it is bounded by size, too', () => {
  assert.equal(ring(3, 25).after(0), undefined);
  assert.deepEqual(ring(3, 25).after(1), ['e2', 'e3']);
  assert.deepEqual(ring(3, 5).after(3), []);
});
