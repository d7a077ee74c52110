import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { peerEntry } from '../../wire/data.js';
import { bodyOfText } from '../../wire/json-node.js';
import type { EntryEvent } from '../desired/entry-state.js';
import { EntryTable, type KnownEntry } from '../desired/entry-table.js';
import { DataEvents, isLoad, LOAD_ID } from './data-events.js';
import { Status } from './status.js';

const KINDS = ['fetch_failed', 'arrived', 'unchanged', 'written', 'refused', 'write_failed', 'withheld'] as const;
const MORE = ['admitted', 'dropped', 'unlisted'] as const;
const BASE = ['b0', 'b1', 'b2'];
const APART = ['update', 'config_fails', 'policy_fails', 'engine_away'] as const;

type Happens =
  | { readonly kind: 'load'; readonly lists: readonly string[] }
  | { readonly kind: (typeof APART)[number] }
  | { readonly kind: 'entry'; readonly at: number; readonly event: (typeof KINDS)[number] | (typeof MORE)[number] };

const happens: fc.Arbitrary<Happens> = fc.oneof(
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('load' as const), lists: fc.subarray(BASE) }) },
  {
    weight: 2,
    arbitrary: fc.record({ kind: fc.constantFrom(...APART) }),
  },
  {
    weight: 8,
    arbitrary: fc.record({
      kind: fc.constant('entry' as const),
      at: fc.nat({ max: 5 }),
      event: fc.constantFrom(...KINDS, ...MORE),
    }),
  },
);

/**
 * The entries of a client and its status, with no source, server and engine: events are what a test
 * says.
 */
class Client {
  readonly #events = new DataEvents();
  readonly #table = new EntryTable();
  readonly status = new Status({ policyEnabled: true, dataEnabled: true }, () => undefined);
  #updates = 0;

  constructor() {
    this.#events.subscribe(this.status.onData);
  }

  take(what: Happens): void {
    switch (what.kind) {
      case 'load':
        this.load(what.lists);
        break;
      case 'update':
        this.#update();
        break;
      case 'config_fails':
        this.status.configFailed('502');
        break;
      case 'policy_fails':
        this.status.policyResult('bad', 'it does not compile');
        break;
      case 'engine_away':
        this.status.engineSeen(false, 'away');
        break;
      case 'entry': {
        const entries = [...this.#table.all()];
        const entry = entries[what.at % Math.max(1, entries.length)];
        if (entry !== undefined) this.#apply(entry, this.#eventOf(entry, what.event));
      }
    }
  }

  load(lists: readonly string[]): void {
    const transaction = this.#begin(LOAD_ID, true);
    for (const id of lists) {
      const known = this.#table.get(id);
      if (known === undefined) this.#add(id, 'base', transaction);
      else this.#apply(known, { kind: 'listed', asks: true, resumes: false }, transaction);
      this.#named(id, transaction);
    }
    this.#events.emit({ kind: 'sealed', transaction });
    this.#events.emit({ kind: 'config_read' });
  }

  /**
   * Nothing is wrong any more: each entry comes to where it should, in the way that its state
   * allows.
   */
  recover(): void {
    this.status.engineSeen(true);
    this.status.policyResult('good', '');
    this.load(BASE);
    for (const entry of [...this.#table.all()]) {
      const { kind } = entry.state;
      // Its source was asked with the load.
      if (kind === 'fetching' || kind === 'applied') this.#apply(entry, this.#eventOf(entry, 'unchanged'));
      else if (kind === 'ready') this.#apply(entry, this.#eventOf(entry, 'written'));
      else if (kind === 'blocked') this.#apply(entry, this.#eventOf(entry, 'admitted'));
    }
  }

  #update(): void {
    const id = `u${++this.#updates}`;
    const transaction = this.#begin(id, false);
    this.#add(id, 'update', transaction);
    this.#named(id, transaction);
    this.#events.emit({ kind: 'sealed', transaction });
  }

  #begin(id: string, load: boolean): string {
    return this.#events.begin({ id, reason: '', callbacks: [], isLoad: load });
  }

  #named(id: string, transaction: string): void {
    const known = this.#table.get(id);
    assert(known !== undefined);
    this.#events.emit({ kind: 'named', transaction, entry: known.entry, known });
  }

  #add(id: string, origin: KnownEntry['origin'], transaction: string): void {
    const entry: KnownEntry = {
      ...{ id, path: [id], origin, transaction, epoch: 'e', nextRank: undefined, fetched: undefined },
      rank: { era: 1, seq: 1, index: 0 },
      entry: peerEntry.parse({ url: 'http://source/', dst_path: `/${id}` }),
      state: { kind: 'fetching', error: undefined },
    };
    this.#table.set(entry);
    this.#events.emit({ kind: 'joined', transaction, entry });
  }

  #eventOf({ state }: KnownEntry, kind: (typeof KINDS)[number] | (typeof MORE)[number]): EntryEvent {
    const of = state.kind === 'ready' ? state : ({ kind: 'ready', body: undefined, error: undefined } as const);
    switch (kind) {
      case 'fetch_failed':
      case 'write_failed':
      case 'withheld':
        return { kind, error: kind };
      case 'arrived':
        return { kind, body: bodyOfText('1'), fetched: undefined };
      case 'unchanged':
        return { kind, fetched: undefined };
      case 'written':
        return { kind, of, keepsBody: true };
      case 'refused':
        return { kind, of, error: kind, keepsBody: true };
      case 'unlisted':
        return { kind, isHeld: false };
      default:
        return { kind };
    }
  }

  /** What `DesiredEntries` does with the effects, as far as the status hears of it. */
  #apply(entry: KnownEntry, event: EntryEvent, transaction = entry.transaction): void {
    const { effects } = this.#table.apply(entry, event);
    for (const effect of effects) {
      if (effect === 'tell_settled') this.#events.emit({ kind: 'settled', entry });
      else if (effect === 'tell_forgotten') this.#events.emit({ kind: 'forgotten', entry });
      else if (effect === 'join' && entry.transaction !== transaction) {
        if (entry.origin !== 'base' && !isLoad(entry.transaction)) continue;
        this.#events.emit({ kind: 'left', entry });
        this.#table.join(entry, transaction);
        this.#events.emit({ kind: 'joined', transaction, entry });
      }
    }
  }
}

describe('a client, whatever has happened', () => {
  it('is ready and healthy once nothing is wrong any more', () => {
    fc.assert(
      fc.property(fc.array(happens, { maxLength: 14 }), (story) => {
        const client = new Client();
        for (const what of story) client.take(what);
        client.recover();
        const { status } = client;
        assert.deepEqual([...status.failing.values()], []);
        assert.equal(status.policy.error, null);
        assert.equal(status.transactions.data.last?.success ?? true, true, status.transactions.data.last?.error);
        assert.deepEqual([status.ready, status.healthy], [true, true]);
      }),
      { numRuns: 1500 },
    );
  });
});
