import type { PeerEntry } from '../../src/wire/data.js';
import { parseDocPath, parsePointer } from '../../src/wire/doc-path.js';
import { leafOf, type Node, nodeText, withImplied, withValue } from '../../src/wire/json-node.js';
import { PatchRefused, parsePatch, patchedAt } from '../../src/wire/json-patch.js';

/** What a client holds that applies each entry at once, in order, and leaves nothing out. */
export class NaiveClient {
  #root: Node | undefined;
  readonly #topics: readonly string[];
  readonly #textOf: (entry: PeerEntry) => string;

  /** `textOf`: what is at the URL of an entry. */
  constructor(topics: readonly string[], textOf: (entry: PeerEntry) => string) {
    this.#topics = topics;
    this.#textOf = textOf;
  }

  /** Another client that holds the same. */
  copy(): NaiveClient {
    const other = new NaiveClient(this.#topics, this.#textOf);
    other.#root = this.#root;
    return other;
  }

  apply(entries: Iterable<PeerEntry>): this {
    for (const entry of entries) if (entry.topics.some((topic) => this.#topics.includes(topic))) this.#apply(entry);
    return this;
  }

  /** All that it holds, as text. */
  get text(): string {
    return this.#root === undefined ? '{}' : nodeText(this.#root);
  }

  #apply(entry: PeerEntry): void {
    const path = parseDocPath(entry.dst_path);
    if (entry.save_method !== 'PATCH') {
      const text = entry.data?.text ?? this.#textOf(entry);
      const document = withImplied(leafOf(text), (entry.implied ?? []).map(parsePointer));
      this.#root = withValue(this.#root, path, entry.save_method === 'DELETE' ? undefined : document);
      return;
    }
    try {
      this.#root = patchedAt(this.#root, path, parsePatch(entry.data?.text ?? '[]'), 0);
    } catch (error) {
      if (!(error instanceof PatchRefused)) throw error;
    }
  }
}
