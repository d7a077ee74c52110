import assert from 'node:assert/strict';
import { it } from 'node:test';
import { placeAfter } from './follow.js';
import type { LogListing } from './pages.js';

function part(head: number, ...seqs: number[]): LogListing {
  const updates = seqs.map((seq) => ({ seq, time: '', entries: [] }));
  return { epoch: 'e', head, updates };
}

it('an update that comes while the server looks is in the next look', () => {
  // 8 came while the server looked: the head has it, the list has not.
  const first = placeAfter(part(8, 7, 5));
  assert.equal(first.after, 7);
  const second = placeAfter(part(8, 8), first);
  assert.equal(second.after, 8);
  assert.equal(placeAfter(part(8), second).after, 8);
});

it('what a filter leaves out is not looked through for ever', () => {
  const first = placeAfter(part(1000));
  assert.equal(first.after, 0);
  const second = placeAfter(part(1010), first);
  assert.equal(second.after, 1000);
  assert.equal(placeAfter(part(1012, 1011), second).after, 1011);
});

it('an instance that is behind the others shows nothing again', () => {
  const first = placeAfter(part(20, 20));
  const behind = placeAfter(part(18), first);
  assert.equal(behind.after, 20);
  assert.equal(placeAfter(part(19), behind).after, 20);
  assert.equal(placeAfter(part(21, 21), behind).after, 21);
});
