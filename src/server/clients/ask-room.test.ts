import assert from 'node:assert/strict';
import { test } from 'node:test';
import { AskRoom } from './ask-room.js';

test('details take half of the room at most, actions what is left', () => {
  const room = new AskRoom(4);
  const [one, two] = [room.enter('details'), room.enter('details')];
  assert(one !== undefined && two !== undefined);
  assert.equal(room.enter('details'), undefined);
  const [three, four] = [room.enter('prune'), room.enter('refresh')];
  assert(three !== undefined && four !== undefined);
  assert.equal(room.enter('prune'), undefined);
  one();
  assert(room.enter('prune') !== undefined, 'a place that was given back is for anything');
  three();
  assert(room.enter('details') !== undefined);
  assert.equal(room.enter('details'), undefined);
});
