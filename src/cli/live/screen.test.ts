import assert from 'node:assert/strict';
import { it } from 'node:test';
import { screenFrame } from './screen.js';

const ESC = '\u001b';

it('draws over the last frame: from the corner, each line cleared to its end, and what is below', () => {
  assert.equal(screenFrame(['a', 'b'], 24), `${ESC}[Ha${ESC}[K\nb${ESC}[K${ESC}[J`);
});

it('never draws more lines than the screen has, since it would scroll', () => {
  const lines = Array.from({ length: 30 }, (_, index) => `line ${index}`);
  const text = screenFrame(lines, 10);
  assert.equal(text.split('\n').length, 10);
  assert.match(text, /line 8.*\.\.\. and 21 more lines/s);
  assert.doesNotMatch(text, /line 9/);
  assert.equal(screenFrame(lines, 30).split('\n').length, 30);
  assert.doesNotMatch(screenFrame(lines, 30), /more lines/);
  assert.match(screenFrame(lines, 0), /and 30 more lines/);
});
