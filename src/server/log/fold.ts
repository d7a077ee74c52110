import { type DocPath, parseDocPath } from '../../wire/doc-path.js';
import type { FoldedEntry } from './update-log.js';

/** What {@link Fold.applyRecord} takes: the part of a log record that decides what is live. */
export interface FoldRecord {
  seq: number;
  origin: FoldedEntry['origin'];
  entries: readonly FoldedEntry['entry'][];
}

/** The live entries of a log, kept up to date record by record (design 3, 9.6). */
export interface Fold {
  /**
   * Adds a record; records come in the order of their `seq`. A PUT or DELETE supersedes older entries at or below its
   * path (also of its own record), a PATCH stacks on top. An older entry is dropped once each of its topics was
   * superseded: until then somebody still needs it. A DELETE stays as a tombstone, since a client that was away has to
   * learn of it. Returns the positions of records that now have no live entry, in any order.
   */
  applyRecord(record: FoldRecord): number[];
  /** Live entries in the order that they were added. The array never changes; a later call may answer another. */
  entries(): readonly FoldedEntry[];
}

interface Live {
  folded: FoldedEntry;
  /** Topics on which nothing superseded it yet. */
  openTopics: number;
}

/** Entries that are open on one topic, by path. */
interface Node {
  live: Set<Live>;
  children: Map<string, Node>;
}

/**
 * An empty fold. There is one path tree per topic, so an entry is visited once for each of its topics in all its life:
 * an update costs time in proportion to its topics and its depth, not to the number of live entries.
 */
export function createFold(): Fold {
  const roots = new Map<string, Node>();
  const live = new Set<Live>();
  const liveOfRecord = new Map<number, number>();
  let snapshot: readonly FoldedEntry[] | undefined = [];

  /** Closes `topic` for everything at or below the node; gives the records that lost their last entry. */
  function supersedeBelow(top: Node, emptied: number[]): void {
    const nodes = [top];
    for (let node = nodes.pop(); node !== undefined; node = nodes.pop()) {
      for (const item of node.live) {
        item.openTopics--;
        if (item.openTopics > 0) continue;
        live.delete(item);
        const { seq } = item.folded;
        const left = (liveOfRecord.get(seq) ?? 0) - 1;
        liveOfRecord.set(seq, left);
        if (left === 0) emptied.push(seq);
      }
      for (const child of node.children.values()) nodes.push(child);
    }
    top.live.clear();
    top.children.clear();
  }

  function apply(folded: FoldedEntry, emptied: number[]): void {
    const { entry, seq } = folded;
    const path = parseDocPath(entry.dst_path);
    const topics = new Set(entry.topics);
    const item: Live = { folded, openTopics: topics.size };
    liveOfRecord.set(seq, (liveOfRecord.get(seq) ?? 0) + 1);
    for (const topic of topics) {
      const node = nodeAt(roots, topic, path);
      if (entry.save_method !== 'PATCH') supersedeBelow(node, emptied);
      node.live.add(item);
    }
    live.add(item);
  }

  return {
    applyRecord(record) {
      const emptied: number[] = [];
      for (const entry of record.entries) apply({ seq: record.seq, origin: record.origin, entry }, emptied);
      if (record.entries.length === 0) emptied.push(record.seq);
      for (const seq of emptied) liveOfRecord.delete(seq);
      snapshot = undefined;
      return emptied;
    },
    entries() {
      snapshot ??= Array.from(live, (item) => item.folded);
      return snapshot;
    },
  };
}

function nodeAt(roots: Map<string, Node>, topic: string, path: DocPath): Node {
  let node = childOf(roots, topic);
  for (const segment of path) node = childOf(node.children, segment);
  return node;
}

function childOf(nodes: Map<string, Node>, name: string): Node {
  let node = nodes.get(name);
  if (node === undefined) {
    node = { live: new Set(), children: new Map() };
    nodes.set(name, node);
  }
  return node;
}
