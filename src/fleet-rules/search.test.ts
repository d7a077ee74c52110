import assert from 'node:assert/strict';
import { test } from 'node:test';
import { fleetRow } from '../../test/support/fleet-row.js';
import { fieldWord, hasWord, labelWord, parseSearch, swapWord } from './search.js';

const ROWS = [
  fleetRow({
    id: 'billing-b2',
    labels: { app: 'billing', zone: 'b', team: 'Pay Ments' },
    address: '10.0.0.7:50122',
    instance: 'i2',
    topics: ['policy_data', 'billing'],
    engine: 'opa 0.64.1',
    policy: { state: 'refused', held: '8e40d17', behind: 1 },
    error: { kind: 'policy', place: 'policy/refunds.rego:41', text: 'undefined function strings.count' },
  }),
  fleetRow({
    id: 'checkout-a5',
    labels: { app: 'checkout', zone: 'a' },
    data: { state: 'blocked', behind: 2 },
    error: { kind: 'blocked', place: '/limits', text: 'a rule stands at the path' },
  }),
  fleetRow({ id: 'ledger-b3', labels: { app: 'ledger', zone: 'b' }, connected: false, policy: { state: 'away' } }),
  fleetRow({
    id: 'search-b6',
    labels: { app: 'search', zone: 'b' },
    policy: { state: 'not_told' },
    data: { behind: 1 },
  }),
  fleetRow({
    id: 'opal',
    kind: 'plain',
    address: '[::1]:50122',
    policy: { state: 'does_not_say' },
    data: { behind: null },
  }),
];
const OPTIONS = {
  labels: new Set(['app', 'zone', 'team', 'state']),
  instanceName: (id: string) => (id === 'i2' ? 'sync-2' : 'sync-1'),
};

const FINDS: readonly [search: string, ids: readonly string[]][] = [
  ['', ['billing-b2', 'checkout-a5', 'ledger-b3', 'search-b6', 'opal']],
  ['  ', ['billing-b2', 'checkout-a5', 'ledger-b3', 'search-b6', 'opal']],
  ['app:bill', ['billing-b2']],
  ['app:BILL', ['billing-b2']],
  ['zone:b -app:ledger', ['billing-b2', 'search-b6']],
  ['app:billing,ledger', ['billing-b2', 'ledger-b3']],
  ['team:"pay ments"', ['billing-b2']],
  ['team:"pay m', ['billing-b2']],
  ['team:"pay, ments"', []],
  ['label:app=led', ['ledger-b3']],
  ['state:refused', ['billing-b2']],
  ['state:not-told', ['search-b6']],
  ['state:"not told",away', ['ledger-b3', 'search-b6']],
  ['state:does', ['opal']],
  ['data:blocked', ['checkout-a5']],
  ['health:healthy -state:away,does', ['billing-b2', 'checkout-a5', 'search-b6']],
  ['engine:opa -engine:1', ['billing-b2']],
  ['engine:"opa 0.6"', ['billing-b2']],
  ['held:8e4', ['billing-b2']],
  ['instance:sync-2', ['billing-b2']],
  ['instance:i2', ['billing-b2']],
  ['topic:bill', ['billing-b2']],
  ['behind:>1', ['checkout-a5']],
  ['behind:>=1', ['checkout-a5', 'search-b6']],
  ['behind:1,2', ['checkout-a5', 'search-b6']],
  ['behind:<=0 behind:<1', ['billing-b2', 'ledger-b3']],
  ['-behind:0', ['checkout-a5', 'search-b6', 'opal']],
  ['error:function', ['billing-b2']],
  ['error:blocked', ['checkout-a5']],
  ['is:needing', ['billing-b2', 'checkout-a5', 'ledger-b3']],
  ['-is:needing', ['search-b6', 'opal']],
  ['b6', ['search-b6']],
  ['10.0.0.7:50122', ['billing-b2']],
  ['[::1]', ['opal']],
  ['strings.count', ['billing-b2']],
  ['"a rule"', ['checkout-a5']],
  ['b2,b3', ['billing-b2', 'ledger-b3']],
  ['app:', ['billing-b2', 'checkout-a5', 'ledger-b3', 'search-b6', 'opal']],
  ['behind:>', ['billing-b2', 'checkout-a5', 'ledger-b3', 'search-b6', 'opal']],
  ['-', ['billing-b2', 'checkout-a5', 'ledger-b3', 'search-b6']],
];

for (const [search, ids] of FINDS) {
  test(`"${search}" finds ${ids.join(', ') || 'nobody'}`, () => {
    const { matches, problems } = parseSearch(search, OPTIONS);
    assert.deepEqual(
      ROWS.filter(matches).map(({ id }) => id),
      ids,
    );
    assert.deepEqual(problems, []);
  });
}

const WRONG: readonly [search: string, problem: RegExp, finds: readonly string[]][] = [
  ['app:ledger is:sad', /"is:sad" does not count: only is:needing/, ['ledger-b3']],
  ['app:ledger behind:many', /"behind:many" does not count: behind: takes a number/, ['ledger-b3']],
  ['app:ledger -state:good', /"-state:good" does not count: there are acknowledged, told/, ['ledger-b3']],
  ['refunds.rego:41', /No client has the label "refunds.rego".*is read as text\. Labels here: app:/, ['billing-b2']],
  ['region:eu', /No client has the label "region"/, []],
];

for (const [search, problem, finds] of WRONG) {
  test(`"${search}" says what is wrong`, () => {
    const { matches, problems } = parseSearch(search, OPTIONS);
    assert.equal(problems.length, 1);
    assert.match(problems[0] ?? '', problem);
    assert.deepEqual(
      ROWS.filter(matches).map(({ id }) => id),
      finds,
    );
  });
}

test('a word for a value finds it, whatever the value has in it', () => {
  for (const [label, value] of [
    ['app', 'billing'],
    ['team', 'Pay, Ments'],
    ['state', 'on'],
  ] as const) {
    const row = fleetRow({ labels: { [label]: value } });
    const { matches, problems } = parseSearch(labelWord(label, value), OPTIONS);
    assert.equal(matches(row), true, labelWord(label, value));
    assert.equal(matches(fleetRow()), false, labelWord(label, value));
    assert.deepEqual(problems, []);
  }
  assert.equal(fieldWord('engine', 'opa 1.22.0'), 'engine:"opa 1.22.0"');
});

test('keys of labels may have folders, and errors may have quotes', () => {
  const row = fleetRow({ labels: { 'kubernetes.io/name': 'shop' }, error: { text: 'no rule "allow" in app' } });
  const options = { labels: new Set(['kubernetes.io/name']) };
  for (const word of [labelWord('kubernetes.io/name', 'shop'), fieldWord('error', 'no rule "allow" in')]) {
    const { matches, problems } = parseSearch(word, options);
    assert.deepEqual([matches(row), matches(fleetRow()), problems], [true, false, []], word);
  }
});

test('a word is swapped for another, and others stay as they were typed', () => {
  const quick = ['state:refused', 'is:needing'];
  assert.equal(swapWord('app:"a b" state:refused x', quick, 'is:needing'), 'app:"a b" x is:needing');
  assert.equal(swapWord('is:needing', quick, ''), '');
  assert.equal(swapWord('', quick, 'is:needing'), 'is:needing');
  assert.equal(hasWord('x is:needing', 'is:needing'), true);
  assert.equal(hasWord('x -is:needing', 'is:needing'), false);
});
