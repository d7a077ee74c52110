import assert from 'node:assert/strict';
import { it } from 'node:test';
import {
  COUNTED_AS,
  EXPECTED_MS,
  LEASE_MS,
  type PresenceFacts,
  type PresenceState,
  presenceState,
  whyMissing,
} from './instance-presence.js';

const FRESH: PresenceFacts = { isReadable: true, hasEnded: false, ageMs: 0, connected: 2, missing: 2 };
const STALE: PresenceFacts = { ...FRESH, ageMs: LEASE_MS + 1 };

/** Each state of another instance; whether its clients count, and why some may be missing. */
const ROWS: readonly (readonly [name: string, PresenceFacts, PresenceState, ReturnType<typeof whyMissing>])[] = [
  ['fresh', FRESH, 'live', undefined],
  ['fresh, at the end of its lease', { ...FRESH, ageMs: LEASE_MS }, 'live', undefined],
  ['fresh, and has nobody', { ...FRESH, connected: 0, missing: 0 }, 'live', undefined],
  [
    'stale: cut off, frozen or killed; also one whose last word is from before our start',
    STALE,
    'silent',
    'server instance x has said nothing for 7 s, and not all of its clients have come to another one',
  ],
  [
    'stale, and one of its clients has come elsewhere',
    { ...STALE, missing: 1 },
    'silent',
    'server instance x has said nothing for 7 s, and not all of its clients have come to another one',
  ],
  ['stale, and all of its clients have come elsewhere', { ...STALE, missing: 0 }, 'gone', undefined],
  [
    'stale for hours, and some of its clients are nowhere else',
    { ...STALE, ageMs: 7_200_000 },
    'silent',
    'server instance x has said nothing for 7200 s, and not all of its clients have come to another one',
  ],
  [
    'stale, and had nobody: who came since is not known',
    { ...STALE, connected: 0, missing: 0 },
    'silent',
    'server instance x has said nothing for 7 s: clients may be connected to it',
  ],
  ['stale for long, and had nobody', { ...STALE, ageMs: EXPECTED_MS + 1, connected: 0, missing: 0 }, 'gone', undefined],
  ['gone in order', { ...FRESH, hasEnded: true }, 'ended', undefined],
  ['gone in order, a while ago', { ...STALE, hasEnded: true }, 'ended', undefined],
  [
    'of another version',
    { ...FRESH, isReadable: false },
    'unreadable',
    'what server instance x says cannot be read: it may be of another version',
  ],
];

for (const [name, facts, state, why] of ROWS) {
  it(`an instance: ${name}`, () => {
    assert.deepEqual([presenceState(facts), whyMissing('x', presenceState(facts), facts)], [state, why]);
  });
}

it('only of one that is heard clients count as connected, and where none may be missing nobody is kept', () => {
  const silent = Object.entries(COUNTED_AS).filter(
    ([state]) => whyMissing('x', state as PresenceState, STALE) === undefined,
  );
  assert.deepEqual(Object.fromEntries(silent), { live: 'as_said', gone: 'nothing', ended: 'away' });
  assert.equal(COUNTED_AS.silent, 'away');
});
