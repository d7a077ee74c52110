import { concerns, type Entry, type Json, type PlacedEntry } from './model.js';

/** What became of a publication, as far as its publisher knows. */
export type Outcome = 'pending' | 'acknowledged' | 'refused' | 'unknown';

/** One data update, as it was sent. */
export interface Publication {
  readonly id: string;
  /** Sent with an `Idempotency-Key` (its id), again and again until the answer is known. */
  readonly isKeyed: boolean;
  readonly entries: readonly Entry[];
  /** Body of the request. */
  readonly body: string;
  readonly sentMs: number;
  outcome: Outcome;
  /** Where it went; of one that was acknowledged, or was found in the log. */
  seq: number | undefined;
  epoch: string | undefined;
  /** When it was acknowledged; milliseconds of the run. */
  answeredMs: number | undefined;
  attempts: number;
  /** The answer that ended it. */
  answer: string;
}

/** All publications of a run. */
export class Journal {
  readonly publications: Publication[] = [];
  readonly #byId = new Map<string, Publication>();
  #entries = 0;

  /** The next number of an entry. */
  nextNumber(): number {
    return ++this.#entries;
  }

  add(
    entries: readonly Entry[],
    options: { isKeyed: boolean; sentMs: number; urls: ReadonlyMap<number, string> },
  ): Publication {
    const id = `p${this.publications.length + 1}`;
    const publication: Publication = {
      id,
      isKeyed: options.isKeyed,
      entries,
      body: JSON.stringify({ id, reason: 'faults', entries: entries.map((entry) => sent(entry, options.urls)) }),
      sentMs: options.sentMs,
      outcome: 'pending',
      seq: undefined,
      epoch: undefined,
      answeredMs: undefined,
      attempts: 0,
      answer: '',
    };
    this.publications.push(publication);
    this.#byId.set(id, publication);
    return publication;
  }

  byId(id: string): Publication | undefined {
    return this.#byId.get(id);
  }

  /** Entries that are in the log of this epoch and concern who subscribed to these topics, in order. */
  placed(epoch: string, topics: readonly string[]): PlacedEntry[] {
    return this.publications
      .filter((publication) => publication.epoch === epoch && publication.seq !== undefined)
      .sort((a, b) => (a.seq ?? 0) - (b.seq ?? 0))
      .flatMap(({ seq = 0, entries }) => entries.map((entry, index) => ({ ...entry, seq, index })))
      .filter((entry) => concerns(entry.topics, topics));
  }
}

function sent({ n, path, topics, what }: Entry, urls: ReadonlyMap<number, string>): Json {
  const url = urls.get(n);
  const entry = { dst_path: path, topics: [...topics], save_method: what.method };
  if (url !== undefined) return { ...entry, url };
  const data = what.method === 'PUT' ? { data: what.value } : what.method === 'PATCH' ? { data: [...what.ops] } : {};
  return { ...entry, ...data, url: '' };
}
