import assert from 'node:assert/strict';
import { test } from 'node:test';
import { AT_ONCE } from '../../lib/run/shared-work.js';
import { PageTexts } from './paging.js';

const LARGE = 'x'.repeat(100_000);

function opened() {
  const log = { head: 1, version: 1, foldVersion: () => log.version };
  const texts = new PageTexts(log);
  let printed = 0;
  const print = async (): Promise<string> => {
    printed++;
    return LARGE;
  };
  return { log, texts, print, printed: () => printed };
}

test('all who ask for the same page at once get the same bytes, printed once', async () => {
  const { texts, print, printed } = opened();
  const [first, ...others] = await Promise.all([1, 2, 3].map(() => texts.get('a', AT_ONCE, print)));
  const later = await texts.get('a', AT_ONCE, print);
  assert(Buffer.isBuffer(first) && first.toString() === LARGE);
  for (const other of [...others, later]) assert.equal(other, first);
  assert.equal(printed(), 1);
  assert.notEqual(await texts.get('b', AT_ONCE, print), first);
});

test('nobody gets a page of a state that is over', async () => {
  const { log, texts, print, printed } = opened();
  let end = (): void => undefined;
  const slow = texts.get('a', AT_ONCE, async () => {
    await new Promise<void>((resolve) => {
      end = resolve;
    });
    return `old ${LARGE}`;
  });
  log.head++;
  const fresh = await texts.get('a', AT_ONCE, print);
  end();
  assert.match((await slow).toString(), /^old /, 'who asked before gets what was read for it');
  assert.equal(await texts.get('a', AT_ONCE, print), fresh);
  log.version++;
  assert.notEqual(await texts.get('a', AT_ONCE, print), fresh, 'an update has expired');
  assert.equal(printed(), 2);
});

test('small pages are not kept, and a failure is not remembered', async () => {
  const { texts } = opened();
  assert.equal(await texts.get('a', AT_ONCE, async () => '1'), '1');
  assert.equal(await texts.get('a', AT_ONCE, async () => '2'), '2');
  await assert.rejects(
    texts.get('a', AT_ONCE, async () => {
      throw new Error('no');
    }),
    /no/,
  );
  assert.equal(await texts.get('a', AT_ONCE, async () => '3'), '3');
});
