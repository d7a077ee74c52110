import assert from 'node:assert/strict';
import { test } from 'node:test';
import { AwaitedCommit } from './awaited-commit.js';

const RETRY = { minMs: 20, maxMs: 20 };

/** Looks of which each shows one commit; `here`: the commits of the local copy. */
function looks(awaited: AwaitedCommit, here: readonly string[] = []): (shown: string) => Promise<string | undefined> {
  return async (shown) => {
    awaited.begin();
    return (await awaited.looked(shown, async (hash) => here.includes(hash)))?.what;
  };
}

test('a named commit is looked for until the source shows it; the first miss and its arrival are told', async () => {
  const awaited = new AwaitedCommit({ retry: RETRY, forMs: 60_000 });
  const look = looks(awaited);
  assert.deepEqual([awaited.leftMs, awaited.missing, await look('a')], [undefined, undefined, undefined]);
  awaited.named({ hash: 'b' });
  assert.deepEqual([awaited.leftMs, awaited.missing], [0, undefined], 'nobody has looked yet');
  assert.equal(await look('a'), 'missed');
  assert((awaited.leftMs ?? 99) <= RETRY.maxMs);
  assert.deepEqual([awaited.missing?.hash, awaited.missing?.givenUpMs], ['b', undefined]);
  assert.equal(await look('a'), undefined);
  assert.equal(await look('b'), 'came');
  assert.deepEqual([awaited.leftMs, awaited.missing], [undefined, undefined]);
});

test('a commit that is there at once is no word worth', async () => {
  const awaited = new AwaitedCommit();
  awaited.named({ hash: 'b', before: 'a' });
  assert.deepEqual([await looks(awaited)('b'), awaited.leftMs], [undefined, undefined]);
});

test('a look that began before the webhook says nothing of its commit', async () => {
  const awaited = new AwaitedCommit();
  awaited.begin();
  awaited.named({ hash: 'b' });
  assert.deepEqual(
    [await awaited.looked('a', async () => false), awaited.missing, awaited.leftMs],
    [undefined, undefined, 0],
  );
});

test('an earlier commit that is here has come, unless the push moves the branch back to it', async () => {
  const awaited = new AwaitedCommit();
  const look = looks(awaited, ['a', 'b', 'c']);
  awaited.named({ hash: 'b', before: 'a' }); // a late webhook
  assert.deepEqual([await look('c'), awaited.leftMs], [undefined, undefined]);
  awaited.named({ hash: 'b' }); // of a service that does not name the head before
  assert.deepEqual([await look('c'), awaited.leftMs], [undefined, undefined]);
  awaited.named({ hash: 'b', before: 'c' });
  assert.equal(await look('c'), 'missed');
  assert.equal(await look('b'), 'came');
});

test('what never comes ends after its time, is told until the branch moves on, and a newer webhook replaces it', async () => {
  let nowMs = 0;
  const awaited = new AwaitedCommit({ retry: RETRY, forMs: 30 }, () => nowMs);
  const look = looks(awaited);
  awaited.named({ hash: 'b' });
  assert.equal(await look('a'), 'missed');
  nowMs = 29;
  assert.equal(await look('a'), undefined);
  assert((awaited.leftMs ?? 9) <= 1, 'the last look is at the end of the time');
  nowMs = 30;
  assert.equal(await look('a'), 'given up');
  assert.equal(awaited.leftMs, undefined);
  assert.equal(await look('a'), undefined);
  assert(awaited.missing?.givenUpMs !== undefined);
  assert.equal(await look('c'), undefined);
  assert.equal(awaited.missing, undefined);

  awaited.named({ hash: 'd' });
  await look('c');
  awaited.named({ hash: 'e' });
  assert.deepEqual([await look('e'), awaited.missing], [undefined, undefined]);
});
