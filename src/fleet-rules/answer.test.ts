import assert from 'node:assert/strict';
import { test } from 'node:test';
import { fleetSummary, type SummarySetting } from '../../test/support/fleet-summary.js';
import { answerOf, type FleetAnswer, fleetAnswerText, shortDoubt, shortFleetAnswer } from './answer.js';

const AT = Date.UTC(2026, 10, 22, 17, 4, 11);
const UNDER_WAY: SummarySetting = {
  policy: { counts: { acknowledged: 61, told: 46, not_told: 11, refused: 2, away: 1, does_not_say: 1 } },
  data: { counts: { at_head: 113, behind: 6, blocked: 1, away: 1, does_not_say: 1 }, slowest_behind: 3 },
};
const EVERYWHERE = 'data at 4,812, all of it everywhere';

const NOW: readonly [what: string, summary: SummarySetting, kind: FleetAnswer['kind'], text: string][] = [
  [
    ...['under way', UNDER_WAY, 'not_yet'],
    'Not yet: 61 of 122 hold 5b1f0c2 · 2 refused · 1 away · 1 does not say · data at 4,812, slowest 3 behind',
  ] as [string, SummarySetting, FleetAnswer['kind'], string],
  ['all hold it', {}, 'yes', `Yes: all 3 hold 5b1f0c2 · ${EVERYWHERE}`],
  [
    'one client',
    { policy: { counts: { acknowledged: 1 } } },
    'yes',
    `Yes: the one client holds 5b1f0c2 · ${EVERYWHERE}`,
  ],
  [
    'OPAL peers are named and keep no answer from being yes',
    { policy: { counts: { acknowledged: 121, does_not_say: 1 } } },
    'yes',
    `Yes: all 121 that report hold 5b1f0c2 · 1 does not say · ${EVERYWHERE}`,
  ],
  [
    'only OPAL peers',
    { policy: { counts: { does_not_say: 2 } }, data: { counts: { does_not_say: 2 } } },
    'none',
    'No client says whether it holds 5b1f0c2 · 2 do not say · data at 4,812',
  ],
  [
    'nothing moves any more',
    { policy: { counts: { acknowledged: 2981, refused: 18, away: 1 } } },
    'no',
    `No: 2,981 of 3,000 hold 5b1f0c2 · 18 refused · 1 away · ${EVERYWHERE}`,
  ],
  [
    'the first',
    { policy: { counts: { acknowledged: 1, told: 2 } } },
    'not_yet',
    `Not yet: 1 of 3 holds 5b1f0c2 · ${EVERYWHERE}`,
  ],
  [
    'who takes no policy is apart',
    { policy: { counts: { acknowledged: 2, none: 1 } } },
    'yes',
    `Yes: all 2 hold 5b1f0c2 · 1 takes no policy · ${EVERYWHERE}`,
  ],
  [
    'a limited token says that it sees a part',
    { limited: true, policy: { counts: { acknowledged: 30, told: 10 } } },
    'not_yet',
    `Not yet: 30 of the 40 that you see hold 5b1f0c2 · ${EVERYWHERE}`,
  ],
  ['limited, and all hold it', { limited: true }, 'yes', `Yes: all 3 that you see hold 5b1f0c2 · ${EVERYWHERE}`],
  [
    'there may be others',
    { incomplete: 'an instance is silent' },
    'unsure',
    `Of those that are known, all 3 hold 5b1f0c2 · ${EVERYWHERE}`,
  ],
  [
    'how far behind is not known',
    { data: { counts: { at_head: 2, behind: 1 }, slowest_behind: 7, at_least: true } },
    'yes',
    'Yes: all 3 hold 5b1f0c2 · data at 4,812, slowest at least 7 behind',
  ],
  [
    'behind, by how much nobody says',
    { data: { counts: { at_head: 2, behind: 1 } } },
    'yes',
    'Yes: all 3 hold 5b1f0c2 · data at 4,812, 1 client behind',
  ],
  [
    'a source fails: nobody is behind for that',
    { data: { counts: { failing: 3 }, slowest_behind: 1 } },
    'yes',
    'Yes: all 3 hold 5b1f0c2 · data at 4,812 · 3 failing',
  ],
  [
    'a source fails at one, another is behind',
    { data: { counts: { at_head: 1, failing: 1, behind: 1 }, slowest_behind: 4 } },
    'yes',
    'Yes: all 3 hold 5b1f0c2 · data at 4,812, slowest 4 behind · 1 failing',
  ],
  [
    'data only, a source fails',
    { policy: { head: null, counts: { none: 3 } }, data: { counts: { at_head: 1, failing: 2 }, slowest_behind: 1 } },
    'no',
    'No: 1 of 3 holds data up to 4,812 · 2 failing · no policy is served',
  ],
  [
    'away with data',
    { policy: { counts: { acknowledged: 2, away: 1 } }, data: { counts: { at_head: 2, away: 1 } } },
    'no',
    'No: 2 of 3 hold 5b1f0c2 · 1 away · data at 4,812, all that are connected have it',
  ],
  ['no update', { data: { head: 0, counts: { at_head: 3 } } }, 'yes', 'Yes: all 3 hold 5b1f0c2 · no data update yet'],
  ['nobody takes data', { data: { counts: { none: 3 } } }, 'yes', 'Yes: all 3 hold 5b1f0c2 · data at 4,812'],
  ['nobody', { policy: { counts: {} }, data: { counts: {} } }, 'empty', 'No client has connected yet'],
  [
    'limited, nobody',
    { limited: true, policy: { counts: {} } },
    'empty',
    'No client that you may see has connected yet',
  ],
  [
    'data only',
    { policy: { head: null, counts: { none: 3 } }, data: { counts: { at_head: 2, behind: 1 }, slowest_behind: 2 } },
    'not_yet',
    'Not yet: 2 of 3 hold data up to 4,812 · slowest 2 behind · no policy is served',
  ],
  [
    'data only, blocked',
    { policy: { head: null, counts: { none: 2 } }, data: { counts: { at_head: 1, blocked: 1 }, slowest_behind: 1 } },
    'no',
    'No: 1 of 2 holds data up to 4,812 · 1 blocked · slowest 1 behind · no policy is served',
  ],
  [
    'neither',
    { policy: { head: null, counts: { none: 2 } }, data: { head: 0, counts: { none: 2 } } },
    'none',
    'Neither policy nor data has been published · 2 clients',
  ],
  [
    'nobody takes anything',
    { policy: { counts: { none: 2 } }, data: { counts: { none: 2 } } },
    'none',
    'Nobody takes policy or data · 2 clients',
  ],
];

for (const [what, setting, kind, text] of NOW) {
  test(`answers: ${what}`, () => {
    const answer = answerOf({ summary: fleetSummary(setting), source: null, pastAt: null, now: AT });
    assert.equal(plain(answer), text);
    assert.equal(answer.kind, kind);
  });
}

const PAST: readonly [what: string, summary: SummarySetting, text: string][] = [
  [
    'under way',
    UNDER_WAY,
    'At 17:04:11, 61 of 122 held 5b1f0c2 · 2 refused · 1 away · 1 does not say · data at 4,812, slowest 3 behind',
  ],
  ['all', {}, `At 17:04:11, all 3 held 5b1f0c2 · ${EVERYWHERE}`],
  ['nobody', { policy: { counts: {} } }, 'At 17:04:11, no client was connected'],
  [
    'only OPAL peers',
    { policy: { counts: { does_not_say: 1 } }, data: { counts: { does_not_say: 1 } } },
    'At 17:04:11, no client said whether it held 5b1f0c2 · 1 does not say · data at 4,812',
  ],
];

for (const [what, setting, text] of PAST) {
  test(`while the stream is cut, answers what was: ${what}`, () => {
    assert.equal(plain(answerOf({ summary: fleetSummary(setting), source: null, pastAt: AT, now: AT })), text);
  });
}

const SERVED = '5b1f0c2a9d';
const REFUSED = { state: 'following', head: SERVED, refused: '5396ef6aaa', error: 'no JSON' } as const;
const FAILING = { state: 'failing', head: SERVED, error: 'no route', failing_since: '2026-11-22T17:01:07Z' } as const;
const DATED = { ...FAILING, failing_since: '2026-11-20T17:01:07Z' } as const;

const AWAITED = {
  state: 'following',
  head: SERVED,
  awaited: { commit: '5396ef6aaa', since: '2026-11-22T17:01:07Z' },
} as const;
const DOUBTED = { state: 'following', head: SERVED, doubted: '5396ef6aaa' } as const;

type Unserved = readonly [
  what: string,
  source: Parameters<typeof answerOf>[0]['source'],
  summary: SummarySetting,
  pastAt: number | null,
  kind: FleetAnswer['kind'],
  text: string,
];

const UNSERVED: readonly Unserved[] = [
  ['refused', REFUSED, {}, null, 'unsure', 'All 3 hold 5b1f0c2, but 5396ef6 is not served'],
  ['the source fails', FAILING, {}, null, 'unsure', 'All 3 hold 5b1f0c2, but the source has failed since 17:01:07 UTC'],
  [
    'since another day',
    DATED,
    {},
    null,
    'unsure',
    'All 3 hold 5b1f0c2, but the source has failed since 20 November 17:01:07 UTC',
  ],
  [
    'since an unknown time',
    { state: 'failing', head: SERVED },
    {},
    null,
    'unsure',
    'All 3 hold 5b1f0c2, but the source has failed',
  ],
  [
    'it has failed since the start',
    { state: 'starting', head: SERVED, error: 'no route' },
    {},
    null,
    'unsure',
    'All 3 hold 5b1f0c2, but the source has failed',
  ],
  ['it is in doubt', DOUBTED, {}, null, 'unsure', 'All 3 hold 5b1f0c2, but the source shows 5396ef6'],
  ['a push has not come', AWAITED, {}, null, 'unsure', 'All 3 hold 5b1f0c2, but 5396ef6 was pushed'],
  ['past, in doubt', DOUBTED, {}, AT, 'past', 'At 17:04:11, all 3 held 5b1f0c2, but the source showed 5396ef6'],
  [
    'one client',
    REFUSED,
    { policy: { counts: { acknowledged: 1 } } },
    null,
    'unsure',
    'The one client holds 5b1f0c2, but 5396ef6 is not served',
  ],
  [
    'there may be others',
    REFUSED,
    { incomplete: 'an instance is silent' },
    null,
    'unsure',
    'Of those that are known, all 3 hold 5b1f0c2, but 5396ef6 is not served',
  ],
  [
    'not everyone holds what is served',
    REFUSED,
    { policy: { counts: { acknowledged: 2, refused: 1 } } },
    null,
    'no',
    'No: 2 of 3 hold 5b1f0c2, but 5396ef6 is not served · 1 refused',
  ],
  ['past, refused', REFUSED, {}, AT, 'past', 'At 17:04:11, all 3 held 5b1f0c2, but 5396ef6 was not served'],
  [
    'past, fails',
    FAILING,
    {},
    AT,
    'past',
    'At 17:04:11, all 3 held 5b1f0c2, but the source had failed since 17:01:07 UTC',
  ],
];

for (const [what, source, setting, pastAt, kind, text] of UNSERVED) {
  test(`is no yes while something newer is not served: ${what}`, () => {
    const answer = answerOf({ summary: fleetSummary(setting), source, pastAt, now: AT });
    assert.equal(plain(answer), `${text} · ${EVERYWHERE}`);
    assert.equal(answer.kind, kind);
  });
}

test('the title of a tab says in short why what is served may not be the newest', () => {
  const doubts = ['refused', 'source fails', 'in doubt', 'not here yet', ''];
  assert.deepEqual([REFUSED, FAILING, DOUBTED, AWAITED, null].map(shortDoubt), doubts);
  assert.equal(shortDoubt({ state: 'starting', head: SERVED, error: 'no route' }), 'source fails');
  assert.equal(shortDoubt({ state: 'following', head: SERVED }), '');
  assert.equal(shortDoubt({ state: 'failing', head: null }), '');
});

test('asks until it knows', () => {
  const answer = answerOf({ summary: undefined, source: null, pastAt: null, now: AT });
  assert.equal(answer.kind, 'asking');
  assert.equal(plain(answer), 'Asking the server who holds what');
});

test('before the first commit there is no policy yet', () => {
  const summary = fleetSummary({ policy: { head: null, counts: { none: 3 } } });
  const answer = answerOf({ summary, source: { state: 'starting' }, pastAt: null, now: AT });
  assert.equal(plain(answer), `No policy is served yet · ${EVERYWHERE}`);
});

test('a count and its word never break', () => {
  assert(
    fleetAnswerText(answerOf({ summary: fleetSummary(UNDER_WAY), source: null, pastAt: null, now: AT })).includes(
      '2\u00a0refused',
    ),
  );
});

test('fits into the title of a tab', () => {
  assert.equal(shortFleetAnswer(undefined), '');
  assert.equal(shortFleetAnswer(fleetSummary(UNDER_WAY)), '61/122 5b1f0c2');
  assert.equal(shortFleetAnswer(fleetSummary({ policy: { head: null, counts: { none: 3 } } })), '3/3 at 4,812');
  assert.equal(shortFleetAnswer(fleetSummary({ policy: { counts: {} } })), '');
});

test('the title has the numbers of the sentence: who never says what it holds keeps neither from being all', () => {
  const counts = (one: Record<string, number>): string => shortFleetAnswer(fleetSummary({ policy: { counts: one } }));
  assert.equal(counts({ acknowledged: 2, does_not_say: 1 }), '2/2 5b1f0c2');
  assert.equal(counts({ acknowledged: 2, told: 1, does_not_say: 1 }), '2/4 5b1f0c2');
  assert.equal(counts({ does_not_say: 2 }), '5b1f0c2');
});

function plain(answer: FleetAnswer): string {
  return fleetAnswerText(answer).replaceAll('\u00a0', ' ');
}
