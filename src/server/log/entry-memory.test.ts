import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { JsonText } from '../../lib/json/json-text.js';
import { FoldedState } from './folded-state.js';
import { updateBodyText } from './row.js';

/** What docs/why/limits.md says of an entry, beside its text. */
const MOST_BYTES = 1500;
const ENTRIES = 10_000;
const TEXT = JsonText.of({ pad: 'x'.repeat(190) });

setFlagsFromString('--expose-gc');
const collect = runInNewContext('gc') as () => void;

/** How the entries come: so many with an update, and which topics each has. */
interface Arrival {
  readonly inUpdate: number;
  readonly topicsOf: (index: number) => string[];
}

const ARRIVALS: Readonly<Record<string, Arrival>> = {
  'many with an update, on one topic': { inUpdate: 500, topicsOf: () => ['policy_data'] },
  'one with an update, on one topic': { inUpdate: 1, topicsOf: () => ['policy_data'] },
  'one with an update, on a topic of its own': { inUpdate: 1, topicsOf: (index) => [`topic-of-entry-${index}`] },
  'one with an update, on the topics of one of 100 tenants': {
    inUpdate: 1,
    topicsOf: (index) => ['policy_data', 'policy_data/tenants', `policy_data/tenants/${index % 100}`],
  },
};

for (const [how, arrival] of Object.entries(ARRIVALS)) {
  test(`a live entry costs at most 1.5 KB beside its text: ${how}`, () => {
    fold(arrival, 100); // code that runs for the first time
    collect();
    const before = process.memoryUsage().heapUsed;
    const state = fold(arrival, ENTRIES);
    assert.equal(state.fold.entries().length, ENTRIES, 'as a client reads them');
    collect();
    const each = (process.memoryUsage().heapUsed - before) / ENTRIES - TEXT.text.length;
    assert.equal(state.fold.size, ENTRIES); // still there
    assert.ok(each <= MOST_BYTES, `${Math.round(each)} bytes each`);
  });
}

function fold({ inUpdate, topicsOf }: Arrival, count: number): FoldedState {
  const state = new FoldedState();
  for (let from = 0; from < count; from += inUpdate) {
    const entries = Array.from({ length: inUpdate }, (_, at) => ({
      ...{ url: '', topics: topicsOf(from + at), dst_path: `/users/d${from + at}` },
      ...{ save_method: 'PUT' as const, data: TEXT },
    }));
    const id = String(from).padStart(32, '0');
    const body = updateBodyText({ id, publisher: 'service:publisher', reason: null, entries, callbacks: [] });
    state.apply({ seq: state.head + 1, kind: 'update', timeMs: 1_764_000_000_000 + from, body });
  }
  return state;
}
