import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type Box, stepArea, stepLine, xOf, yOf } from './step-path.js';

const box: Box = { left: 10, right: 110, top: 0, bottom: 50, end: 1000, most: 10 };

test('a curve rises where a count changes and goes on to the end', () => {
  const line = stepLine(
    [
      { at: 100, count: 2 },
      { at: 500, count: 10 },
    ],
    box,
    800,
  );
  assert.equal(line, 'M10 50H20V40H60V0H90');
  assert.equal(stepArea(line, box), 'M10 50H20V40H60V0H90V50H10Z');
});

test('what is later than the end of the curve is not drawn', () => {
  assert.equal(stepLine([{ at: 900, count: 2 }], box, 800), 'M10 50H90');
});

test('times and counts outside of the box stay at its edge', () => {
  assert.deepEqual([xOf(box, -5), xOf(box, 5000), yOf(box, -1), yOf(box, 99)], [10, 110, 50, 0]);
  assert.equal(yOf({ ...box, most: 0 }, 0), 50);
});
