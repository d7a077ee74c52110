import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ListItems } from './list-items.js';

test('items are those of a list that is changed in the same way', () => {
  for (const size of [0, 1, 4095, 4096, 4097, 20_000]) {
    const list = Array.from({ length: size }, (_, index) => `${index}`);
    const items = new ListItems(list);
    let seed = 1;
    for (let step = 0; step < 12_000; step++) {
      seed = (seed * 48_271) % 2_147_483_647;
      const index = step % 3 === 0 ? 0 : seed % (list.length + 1);
      const grows = step % 5 !== 4 || list.length === 0;
      if (grows) {
        list.splice(index, 0, `n${step}`);
        items.insert(index, `n${step}`);
      } else if (index < list.length && step % 2 === 0) {
        list[index] = `s${step}`;
        items.set(index, `s${step}`);
      } else if (index < list.length) {
        list.splice(index, 1);
        items.remove(index);
      }
      assert.equal(items.length, list.length);
    }
    assert.equal(items.text(), `[${list.join(',')}]`);
    for (const index of [0, list.length >> 1, list.length - 1, list.length]) assert.equal(items.at(index), list[index]);
    while (items.length > 0) items.remove(items.length >> 1);
    assert.equal(items.text(), '[]');
    assert.equal(items.at(0), undefined);
  }
});
