import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type AnnouncedInstance, InstanceList } from './instance-list.js';
import { LoopDelay, SettledHead } from './instances.js';
import type { Vitals } from './vitals.js';

const STARTED = 1_000_000;

function vitals(name: string, more: Partial<Vitals> = {}): Vitals {
  const figures = { memory: 50, loopMs: 1, isUp: true, backboneMs: 2, isDraining: false, source: 'following' };
  return { name, version: '1', startedMs: STARTED, ...figures, ...more };
}

function view(instance: string, more: Partial<AnnouncedInstance> = {}): AnnouncedInstance {
  return { instance, atMs: STARTED, seen: 10, clients: [], vitals: vitals(instance), ...more };
}

/** A list at instance `own` of a log at 10, with a clock of the test. */
function listAt(more: { settled?: number } = {}) {
  const clock = { ms: STARTED };
  const list = new InstanceList({
    ...{ instance: 'own', vitals: () => vitals('own'), log: { head: 10 }, clients: () => 4 },
    settled: () => more.settled ?? 0,
    now: () => clock.ms,
    elapsed: () => clock.ms,
  });
  const states = (views: readonly AnnouncedInstance[]): string[] =>
    list.list(views).map(({ name, state }) => `${name} ${state}`);
  return { clock, list, states };
}

test('this instance comes first, then the others by name, with what each says of itself', () => {
  const { list } = listAt();
  const clients = [{ awaySinceMs: null }, { awaySinceMs: 5 }];
  const [own, first, second] = list.list([view('z'), view('a', { clients })]);
  assert.deepEqual([own?.here, own?.clients, own?.log_at, own?.state], [true, 4, 10, 'in_step']);
  assert.deepEqual([first?.name, first?.here, first?.clients, first?.memory_bytes], ['a', false, 1, 50]);
  assert.equal(second?.name, 'z');
});

test('only what was appended a while ago makes an instance behind', () => {
  assert.deepEqual(listAt({ settled: 8 }).states([view('a', { seen: 8 })]), ['own in_step', 'a in_step']);
  const [, late] = listAt({ settled: 8 }).list.list([view('a', { seen: 7 })]);
  assert.deepEqual([late?.state, late?.behind, late?.log_at], ['behind', 3, 7]);
});

test('an instance that says nothing more is silent, and stays listed for a while', () => {
  const { clock, states } = listAt();
  assert.deepEqual(states([view('a')]), ['own in_step', 'a in_step']);
  clock.ms += 8000;
  assert.deepEqual(states([view('a')]), ['own in_step', 'a silent']);
  assert.deepEqual(states([]), ['own in_step', 'a silent'], 'its announcement has expired');
  assert.deepEqual(states([view('a', { atMs: STARTED + 9000 })]), ['own in_step', 'a in_step'], 'it is back');
  clock.ms += 901_000;
  assert.deepEqual(states([]), ['own in_step']);
});

test('another clock makes no instance silent', () => {
  const { clock, states } = listAt();
  for (const atMs of [5, 3005, 6005]) {
    clock.ms += 3000;
    assert.deepEqual(states([view('a', { atMs })]), ['own in_step', 'a in_step']);
  }
});

test('one that drained, or was started again, is gone when its announcement is', () => {
  const { clock, states } = listAt();
  const draining = view('a', { vitals: vitals('a', { isDraining: true }) });
  assert.deepEqual(states([draining, view('b', { vitals: vitals('host') })]), [
    'own in_step',
    'a draining',
    'host in_step',
  ]);
  clock.ms += 10_000;
  const again = view('c', { atMs: STARTED + 9000, vitals: vitals('host', { startedMs: STARTED + 8000 }) });
  assert.deepEqual(states([again]), ['own in_step', 'host in_step']);
});

test('instances of one host have names of their own; one of an older version has its id', () => {
  const { states } = listAt();
  const same = [view('1234abcd', { vitals: vitals('own') }), view('0123456789', { vitals: undefined })];
  assert.deepEqual(states(same), ['own own in_step', '01234567 in_step', 'own 1234 in_step']);
});

test('the settled head is that of five seconds ago, however often the log grows', () => {
  const clock = { ms: 0 };
  const settled = new SettledHead(3, () => clock.ms);
  for (let seq = 4; seq <= 103; seq++) {
    clock.ms += 100;
    settled.reached(seq);
  }
  // Row 53 came five seconds ago; notes are a second apart.
  assert(settled.seq > 40 && settled.seq <= 53, String(settled.seq));
  clock.ms += 4000;
  assert(settled.seq > 80 && settled.seq <= 93, String(settled.seq));
  clock.ms += 1000;
  assert.equal(settled.seq, 103);
});

test('the delay of the loop is the worst sample of a minute', () => {
  const clock = { ms: 0 };
  const delay = new LoopDelay(() => clock.ms);
  assert.equal(delay.worstMs, null);
  delay.sampled(250.04);
  delay.sampled(-1);
  assert.equal(delay.worstMs, 250);
  clock.ms += 61_000;
  assert.equal(delay.worstMs, null);
  for (let more = 0; more < 1000; more++) delay.sampled(1);
  assert.equal(delay.worstMs, 1);
});
