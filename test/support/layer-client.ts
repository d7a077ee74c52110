import {
  compareRank,
  type Layer,
  LayerSet,
  onlyRemoves,
  replaces,
  STATIC_ERA,
} from '../../src/client/desired/layers.js';
import type { PeerEntry } from '../../src/wire/data.js';
import { parseDocPath, parsePointer } from '../../src/wire/doc-path.js';
import { bodyOfText, nodeText } from '../../src/wire/json-node.js';
import { parsePatch } from '../../src/wire/json-patch.js';

/** An entry and its place. */
export interface PlacedEntry {
  readonly seq: number;
  readonly entry: PeerEntry;
}

/** What an engine holds of a client that learns of entries one by one, by the client's own rules; static data lie below. */
export class LayerClient {
  readonly #layers = new LayerSet();
  readonly #topics: readonly string[];
  #count = 0;

  constructor(topics: readonly string[]) {
    this.#topics = topics;
  }

  learn(entries: Iterable<PlacedEntry>): this {
    for (const { seq, entry } of entries) {
      if (entry.topics.some((topic) => this.#topics.includes(topic))) this.#learn(seq, entry);
    }
    return this;
  }

  /** The data of another commit, by folder. */
  commit(data: Readonly<Record<string, string>>): this {
    for (const layer of [...this.#layers.all()]) if (layer.rank.era === STATIC_ERA) this.#layers.delete(layer.id);
    for (const [index, [folder, text]] of Object.entries(data).entries()) {
      const rank = { era: STATIC_ERA, seq: 0, index };
      const content = { kind: 'put', body: bodyOfText(text) } as const;
      this.#layers.set({ id: `static/${folder}`, path: parseDocPath(folder), rank, content });
    }
    return this;
  }

  /** Forgets deletions that stand over nothing, as a client does at rest. */
  forget(): this {
    const isOlder = (other: Layer, than: Layer): boolean =>
      other.rank.era !== STATIC_ERA && !onlyRemoves(other) && compareRank(other.rank, than.rank) < 0;
    for (const layer of [...this.#layers.all()].filter(onlyRemoves)) {
      if (!this.#layers.overlapping(layer.path).some((other) => isOlder(other, layer))) this.#layers.delete(layer.id);
    }
    return this;
  }

  get text(): string {
    const node = this.#layers.compose([]);
    return node === undefined ? '{}' : nodeText(node);
  }

  #learn(seq: number, entry: PeerEntry): void {
    const index = this.#count++;
    const layer: Layer = {
      id: `${seq}/${index}`,
      path: parseDocPath(entry.dst_path),
      rank: { era: 1, seq, index },
      content: contentOf(entry),
    };
    if (replaces(layer)) {
      for (const { id, rank } of this.#layers.atOrBelow(layer.path))
        if (rank.era !== STATIC_ERA) this.#layers.delete(id);
    }
    this.#layers.set(layer);
  }
}

function contentOf({ save_method: method, only_removes: onlyRemoves = false, data, implied = [] }: PeerEntry) {
  if (method === 'DELETE') return { kind: 'delete', onlyRemoves } as const;
  const text = data?.text ?? '';
  if (method === 'PATCH') return { kind: 'patch', ops: parsePatch(text) } as const;
  return { kind: 'put', body: bodyOfText(text), implied: implied.map(parsePointer) } as const;
}
