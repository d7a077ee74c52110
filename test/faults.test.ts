import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { type Judged, judge } from './faults/checks.js';
import { lagOf } from './faults/figures.js';
import { Journal } from './faults/journal.js';
import { applied, type Json, type PlacedEntry } from './faults/model.js';
import { readOptions } from './faults/options.js';
import { random } from './faults/random.js';
import type { Sample } from './faults/sampler.js';
import { type PlacedUpdate, Told } from './faults/told.js';
import { account } from './faults/verdict.js';
import { assertSameDocuments } from './support/same-documents.js';

/** That the judge of `npm run test:faults` sees what it is there for. */

let number = 0;
function put(seq: number, path: string, members: Record<string, Json> = {}): PlacedEntry {
  const n = ++number;
  return { n, seq, index: 0, path, topics: ['alpha'], what: { method: 'PUT', value: { n, ...members } } };
}

function sample(atMs: number, changes: Sample['changes'], more: Partial<Sample> = {}): Sample {
  const nothing = { position: undefined, saidCommit: undefined, commit: undefined };
  return { atMs, life: '1/0', isComplete: true, changes, ...nothing, ...more };
}

function found(entries: PlacedEntry[], samples: Sample[]): string[] {
  const judged: Judged = { client: 'client', entries, samples, epoch: 'e' };
  return judge(judged).map(({ what }) => what);
}

describe('the judge of test:faults', () => {
  const first = put(1, '/t/r/a');
  const second = put(2, '/t/r/a');
  const both = [first, second];
  const at = (entry: PlacedEntry): Sample['changes'] => [[entry.path, entry.n]];

  it('has nothing to say of entries in order, also with some that were never seen', () => {
    assert.deepEqual(found(both, [sample(1, at(first)), sample(2, at(second))]), []);
    assert.deepEqual(found(both, [sample(1, at(second))]), []);
  });

  it('sees an older entry after a newer one, also across a restart of the engine', () => {
    assert.match(String(found(both, [sample(1, at(second)), sample(2, at(first))])), /went back/);
    const restarted = sample(2, at(first), { life: '1/1', isComplete: false });
    assert.match(String(found(both, [sample(1, at(second)), restarted])), /went back/);
  });

  it('lets a new life of the client begin with older entries, unless its position says otherwise', () => {
    const position = (through: number): Sample['position'] => ({ epoch: 'e', through, unresolved: [] });
    const again = (through: number): Sample => sample(2, at(first), { life: '2/0', position: position(through) });
    assert.deepEqual(found(both, [sample(1, at(second)), again(1)]), []);
    assert.match(String(found(both, [sample(1, at(second)), again(2)])), /it says that all up to 2 is in/);
  });

  it('sees what a position says and the engine lacks, but for what the position lists as open', () => {
    const empty = (unresolved: number[]): Sample => sample(1, [], { position: { epoch: 'e', through: 2, unresolved } });
    assert.match(String(found(both, [empty([])])), /nothing in place of/);
    assert.deepEqual(found(both, [empty([2])]), []);
  });

  it('knows that a load has a document under the seq of the patch that the log has worked into it', () => {
    const whole = put(1, '/t/r/b', { x: { n: number + 1 } });
    const n = ++number;
    const ops = [{ op: 'add', path: '/y', value: { n } }] as const;
    const patch: PlacedEntry = { ...whole, n, seq: 2, path: '/t/r/b/a', what: { method: 'PATCH', ops } };
    const empty = (unresolved: number[]): Sample => sample(1, [], { position: { epoch: 'e', through: 2, unresolved } });
    assert.deepEqual(found([whole, patch], [empty([2])]), []);
    assert.match(String(found([whole, patch], [empty([])])), /nothing in place of/);
    const had: Sample['changes'] = [
      [whole.path, whole.n],
      [`${whole.path}/x`, whole.n],
    ];
    const lost = sample(2, [[`${whole.path}/x`, undefined]], { position: { epoch: 'e', through: 2, unresolved: [2] } });
    assert.match(String(found([whole, patch], [sample(1, had), lost])), /\/x has nothing in place of/);
  });

  it('sees an engine without the commit that the page says that all hold', () => {
    const held = (commit: number | undefined): string[] => found([], [sample(1, [], { commit, saidCommit: 2 })]);
    assert.deepEqual([held(2), held(3)], [[], []]);
    assert.match(String(held(1)), /the page says that all hold commit 2, and it has commit 1/);
    assert.match(String(held(undefined)), /and it has no commit/);
  });

  it('sees what comes back after it was gone', () => {
    const gone = sample(2, [[first.path, undefined]]);
    assert.match(String(found(both, [sample(1, at(first)), gone, sample(3, at(first))])), /had lost/);
  });

  it('sees something older below something newer, entries that are in no log, and an older commit', () => {
    const below = put(1, '/t/r/a/b');
    const mixed = sample(1, [...at(second), [below.path, below.n]]);
    assert.match(String(found([below, second], [mixed])), /below \/t\/r\/a/);
    assert.match(String(found(both, [sample(1, [['/t/r/a', 999_999]])])), /not in the log/);
    assert.match(String(found(both, [sample(1, [], { commit: 2 }), sample(2, [], { commit: 1 })])), /commit 1 from 2/);
  });

  it('accounts for every publication', () => {
    const journal = new Journal();
    const options = { isKeyed: false, sentMs: 0, urls: new Map<number, string>() };
    const [kept, lost, unknown] = [1, 2, 3].map(() => journal.add([first], options));
    assert.ok(kept && lost && unknown);
    Object.assign(kept, { outcome: 'acknowledged', seq: 1, epoch: 'e' });
    Object.assign(lost, { outcome: 'acknowledged', seq: 2, epoch: 'e' });
    Object.assign(unknown, { outcome: 'unknown' });
    const places = new Map([
      [kept.id, [1]],
      [unknown.id, [3]],
      ['stranger', [4]],
    ]);
    const wrong = account(journal, { epoch: 'e', places }, true);
    assert.deepEqual(wrong, [
      'p2 was acknowledged at 2; in the log it is at no place',
      'the log has stranger, which nobody published',
    ]);
    assert.equal(unknown.seq, 3);
  });
});

describe('the model of test:faults', () => {
  it('applies entries one after the other', () => {
    const entries: PlacedEntry['what'][] = [
      { method: 'PUT', value: { x: 1 } },
      { method: 'PATCH', ops: [{ op: 'add', path: '/y', value: 2 }] },
      { method: 'PATCH', ops: [{ op: 'remove', path: '/x' }] },
    ];
    const root = entries.reduce<Json>(
      (value, what, seq) => applied(value, { n: seq, path: '/t/a', topics: [], what }),
      {},
    );
    assertSameDocuments(JSON.stringify(root), '{"t":{"a":{"y":2}}}');
    const deleted = applied(root, { n: 9, path: '/t/a', topics: [], what: { method: 'DELETE' } });
    assert.deepEqual(deleted, {}, 'what is there for nothing else goes, too');
  });

  it('keeps an object that a document or a patch has made', () => {
    const own = applied({}, { n: 1, path: '/t', topics: [], what: { method: 'PUT', value: {} } });
    const deep = applied(own, { n: 2, path: '/t/a/b', topics: [], what: { method: 'PUT', value: 1 } });
    const left = applied(deep, { n: 3, path: '/t/a/b', topics: [], what: { method: 'DELETE' } });
    assertSameDocuments(JSON.stringify(left), '{"t":{}}');
    const made: PlacedEntry['what'][] = [
      { method: 'PATCH', ops: [{ op: 'add', path: '/y/z', value: 2 }] },
      { method: 'PATCH', ops: [{ op: 'remove', path: '/y/z' }] },
    ];
    const patched = made.reduce<Json>((value, what, n) => applied(value, { n, path: '/t/a', topics: [], what }), {});
    assertSameDocuments(JSON.stringify(patched), '{"t":{"a":{"y":{}}}}');
  });

  it('draws the same with the same seed', () => {
    const draw = (seed: number): number[] => {
      const own = random(seed).fork('part');
      return Array.from({ length: 20 }, () => own.int(0, 1000));
    };
    assert.deepEqual(draw(7), draw(7));
    assert.notDeepEqual(draw(7), draw(8));
  });
});

describe('a run of test:faults', () => {
  it('has its options from the command line; several instances need a backbone, and a backbone means two', () => {
    const read = (...args: string[]): unknown => readOptions(['--seed', '7', ...args], {});
    const short = {
      seed: 7,
      seconds: 12,
      faults: undefined,
      clients: 3,
      subscribers: 0,
      instances: 1,
      backbone: undefined,
      engine: 'inline',
      only: 'all',
      keep: false,
      verbose: false,
    };
    assert.deepEqual(read(), short);
    assert.deepEqual(read('--long', '--backbone', 'redis'), {
      ...short,
      seconds: 1800,
      instances: 2,
      backbone: 'Redis',
    });
    assert.deepEqual(readOptions(['--seed', '7'], { SYNC_TEST_LONG: '1' }), { ...short, seconds: 1800 });
    assert.deepEqual(read('--engine', 'embedded'), { ...short, engine: 'embedded' });
    assert.match(String(read('--engine', 'external')), /one of inline, embedded/);
    assert.match(String(read('--only', 'clients')), /--only is backbone/);
    assert.match(String(read('--only', 'backbone')), /needs a --backbone/);
    const alone = { ...short, instances: 2, backbone: 'NATS', only: 'backbone' };
    assert.deepEqual(read('--only', 'backbone', '--backbone', 'nats'), alone);
    assert.deepEqual(read('--minutes', '5'), { ...short, seconds: 300 });
    assert.deepEqual(read('--faults', '8', '--clients', '2'), { ...short, faults: 8, clients: 2 });
    assert.match(String(read('--clients', '4')), /1 to 3/);
    assert.match(String(read('--instances', '2')), /needs a --backbone/);
    assert.match(String(read('--backbone', 'kafka')), /one of postgres, redis, nats/);
    assert.match(String(read('--seconds', 'x')), /take numbers/);
  });

  it('tells how far a client was behind; what it had in an earlier life is no lag of the next', () => {
    const entries = [put(1, '/t/a'), put(2, '/t/b'), put(3, '/dead/c')];
    const answered = new Map([1, 2, 3].map((seq) => [seq, seq * 1000] as const));
    const said = (atMs: number, through: number, unresolved: number[] = []): Sample =>
      sample(atMs, [], { position: { epoch: 'e', through, unresolved } });
    assert.deepEqual(lagOf([said(1500, 1), said(2500, 2), said(9000, 0)], entries, answered), {
      updates: 0,
      seconds: 0,
    });
    assert.deepEqual(lagOf([said(2500, 0), said(4000, 2, [2]), said(4500, 3)], entries, answered), {
      updates: 2,
      seconds: 2,
    });
  });
});

describe('what a subscriber of test:faults was told', () => {
  const log = (...seqs: number[]): PlacedUpdate[] => seqs.map((seq) => ({ seq, topics: ['alpha'] }));
  function told(folded: number, ...seqs: number[]): Told {
    const own = new Told(['alpha']);
    own.begin('e', folded);
    for (const seq of seqs) own.take(seq);
    return own;
  }

  it('is right where it has each update of its topics after the fold, once', () => {
    const own = told(2, 3, 3, 5);
    assert.deepEqual(own.judge('e', [...log(1, 3), { seq: 4, topics: ['beta'] }, ...log(5)]), []);
    assert.equal(own.through, 5);
    assert.equal(own.take(3), false);
  });

  it('is wrong where one is missing, in between or at the end, or is in no log', () => {
    assert.deepEqual(told(0, 1, 3).judge('e', log(1, 2, 3)), ['it was never told of seq 2']);
    assert.deepEqual(told(0, 1).judge('e', log(1, 2)), ['it was never told of seq 2']);
    assert.deepEqual(told(0, 1, 2).judge('e', log(1)), ['it was told of seq 2, which is in no log']);
  });

  it('counts for its own log alone, and begins anew with another', () => {
    const own = told(0, 1, 2);
    assert.match(String(own.judge('f', log(1, 2))), /follows log e, not f/);
    own.begin('f', 1);
    assert.deepEqual(own.judge('f', log(1)), []);
  });
});
