import assert from 'node:assert/strict';
import { test } from 'node:test';
import { DataStory, type StoryEntry } from '../../../test/support/data-story.js';
import { silentLogger } from '../../lib/observe/log.js';
import type { PeerEntry } from '../../wire/data.js';
import { bodyOfText } from '../../wire/json-node.js';
import type { UpdateReport } from '../../wire/report.js';
import { ReportCollector } from './entry-outcomes.js';

/** One update per call of `update`; reports as `id: path fetched saved hash`. */
function setup(failures = false) {
  const reports: string[] = [];
  const told: (readonly unknown[])[] = [];
  const hashes: (string | null)[][] = [];
  const onReport = (report: UpdateReport, callbacks: readonly unknown[]): void => {
    const items = report.reports.map(({ entry, fetched, saved, hash, superseded }) =>
      [
        entry.dst_path,
        ...(fetched ? ['fetched'] : []),
        ...(saved ? ['saved'] : []),
        ...(hash === null ? [] : ['hashed']),
        ...(superseded === true ? ['superseded'] : []),
      ].join(' '),
    );
    reports.push(`${report.update_id}: ${items.join(', ')}`);
    told.push(callbacks);
    hashes.push(report.reports.map(({ hash }) => hash));
  };
  const collector = new ReportCollector({ hashForm: 'bytes', failures }, { onReport, log: silentLogger() });
  const story = new DataStory();
  story.events.subscribe(collector.onData);
  let count = 0;

  return {
    reports,
    told,
    hashes,
    story,
    known: (path: string, more: Partial<PeerEntry> = {}) =>
      story.entry(`${path}/${++count}`, { dst_path: path, ...more }),
    update: (id: string, entries: readonly StoryEntry[]) => void story.update(id, ...entries),
    settle: (entry: StoryEntry, state: StoryEntry['state']) => story.settle(entry, state),
    ready: (entry: StoryEntry, text = '1') =>
      story.settle(entry, { kind: 'ready', body: bodyOfText(text), error: undefined }),
    apply: (entry: StoryEntry) => story.settle(entry, { kind: 'applied' }),
    fail: (entry: StoryEntry) => story.settle(entry, { kind: 'fetching', error: 'no answer' }),
    block: (entry: StoryEntry) => story.settle(entry, { kind: 'blocked', error: 'a rule' }),
    forget: (entry: StoryEntry) => story.forget(entry),
  };
}

test('one report goes out when all entries of an update are in, with its own callbacks', () => {
  const { reports, told, known, update, ready, apply, settle } = setup();
  const [a, b] = [known('/a'), known('/b', { save_method: 'DELETE' })];
  update('u', [a, b]);
  ready(a);
  apply(a);
  assert.deepEqual(reports, []);
  settle(b, { kind: 'ready', body: undefined, error: undefined });
  apply(b);
  assert.deepEqual(reports, ['u: /a fetched saved hashed, /b saved']);
  assert.deepEqual(told, [['u']]);
  apply(a);
  assert.equal(reports.length, 1);
});

test('a failed update is not reported before it succeeds', () => {
  const { reports, known, update, ready, apply, fail, block } = setup();
  const a = known('/a');
  update('u', [a]);
  fail(a);
  ready(a);
  block(a);
  assert.deepEqual(reports, []);
  apply(a);
  assert.deepEqual(reports, ['u: /a fetched saved hashed']);
});

test('with failures: reported once when each entry was tried, and again when all are in', () => {
  const { reports, known, update, ready, apply, fail, block } = setup(true);
  const [a, b, c] = [known('/a'), known('/b'), known('/c')];
  update('u', [a, b, c]);
  fail(a);
  ready(c);
  block(c);
  assert.deepEqual(reports, [], '/b was not tried yet');
  ready(b);
  apply(b);
  assert.deepEqual(reports, ['u: /a, /b fetched saved hashed, /c fetched hashed']);
  fail(a);
  ready(a);
  apply(a);
  assert.equal(reports.length, 1);
  apply(c);
  assert.deepEqual(reports.slice(1), ['u: /a fetched saved hashed, /b fetched saved hashed, /c fetched saved hashed']);
});

test('a patch that waits for a document that fails does not hold up the report of the failure', () => {
  const { reports, known, update, ready, fail } = setup(true);
  const [a, patch] = [known('/a'), known('/a/b', { save_method: 'PATCH' })];
  update('u', [a, patch]);
  ready(patch);
  fail(a);
  assert.deepEqual(reports, ['u: /a, /a/b fetched hashed']);
});

test('an entry that a later update replaced is reported as superseded, whenever that was', () => {
  const { reports, story, known, update, ready, apply, forget } = setup();
  const [a, b] = [known('/a'), known('/b')];
  update('u', [a, b]);
  ready(a);
  apply(a);
  forget(b);
  assert.deepEqual(reports, ['u: /a fetched saved hashed, /b superseded']);
  const late = story.begin('late');
  story.named(late, a, false);
  story.seal(late);
  assert.deepEqual(reports.slice(1), ['late: /a superseded']);
});

test('an update without an entry for this client is not reported', () => {
  const { reports, update } = setup(true);
  update('u', []);
  update('initial-load', []);
  assert.deepEqual(reports, []);
});

test('an update whose entry came in with a read of the configuration is reported all the same', () => {
  const { reports, known, update, ready, apply } = setup();
  const a = known('/a');
  update('initial-load', [a]);
  ready(a);
  apply(a);
  update('u', [a]);
  assert.deepEqual(reports, ['initial-load: /a fetched saved hashed', 'u: /a fetched saved hashed']);
});

test('a read of the configuration reports what it changed, and nothing where all was in place', () => {
  const { reports, story, known, update, ready, apply } = setup();
  const [a, b] = [known('/a'), known('/b')];
  update('initial-load', [a, b]);
  for (const each of [a, b]) {
    ready(each);
    apply(each);
  }
  update('initial-load', [a, b]);
  apply(a); // its source has nothing new
  ready(b, '2');
  apply(b);
  update('initial-load', [a, b]);
  apply(a);
  apply(b);
  // The load leaves alone what cannot change: it stays in the transaction before.
  const load = story.begin('initial-load');
  story.named(load, a);
  story.seal(load);
  assert.deepEqual(reports, [
    'initial-load: /a fetched saved hashed, /b fetched saved hashed',
    'initial-load: /b fetched saved hashed',
  ]);
});

test('reads of the configuration while a source is dead come to one report', () => {
  const { reports, known, update, ready, apply, fail } = setup();
  const [dead, live] = [known('/dead'), known('/live')];
  for (let round = 0; round < 3; round++) {
    update('initial-load', [dead, live]);
    fail(dead);
    if (round === 1) ready(live, String(round));
    apply(live); // in the last round its source has nothing new
  }
  assert.deepEqual(reports, []);
  ready(dead);
  apply(dead);
  assert.deepEqual(reports, ['initial-load: /dead fetched saved hashed, /live fetched saved hashed']);
});

test('new content of a polled source is an update of its own', () => {
  const { reports, known, update, ready, apply } = setup();
  const a = known('/a');
  update('initial-load', [a]);
  ready(a);
  apply(a);
  apply(a); // polled: nothing new
  ready(a, '2');
  apply(a);
  assert.equal(reports.length, 2);
  assert.match(reports[1] ?? '', /^[0-9a-f]{32}: \/a fetched saved hashed$/);
});

test('while the engine is away a failure is reported once, and then the hash of what was written', () => {
  const { reports, hashes, known, update, ready, apply, settle } = setup(true);
  const a = known('/a');
  update('u', [a]);
  ready(a, '1');
  const away = { kind: 'ready', error: 'connect ECONNREFUSED' } as const;
  settle(a, { ...away, body: bodyOfText('1') });
  ready(a, '2');
  settle(a, { ...away, body: bodyOfText('2') });
  apply(a);
  assert.deepEqual(reports, ['u: /a fetched hashed', 'u: /a fetched saved hashed']);
  assert.deepEqual(hashes.at(-1), [bodyOfText('2').hash]);
});

test('with failures: reads that join a load report its failure once', () => {
  const { reports, known, update, ready, apply, fail } = setup(true);
  const [dead, live] = [known('/dead'), known('/live')];
  update('initial-load', [dead, live]);
  ready(live);
  apply(live);
  fail(dead);
  assert.deepEqual(reports, ['initial-load: /dead, /live fetched saved hashed']);
  update('initial-load', [dead, live]);
  fail(dead);
  fail(live);
  assert.equal(reports.length, 1);
});
