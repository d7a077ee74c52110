import { JsonText } from '../../lib/json/json-text.js';
import type { PeerEntry } from '../../wire/data.js';
import { type DocPath, isAtOrBelow, parseDocPath, pathsOverlap } from '../../wire/doc-path.js';
import { leafOf, type Node } from '../../wire/json-node.js';
import { PatchRefused, patchedAt } from '../../wire/json-patch.js';
import { foldedOf, newItem } from './fold-item.js';
import type { LiveItems } from './live-items.js';
import { patchParts } from './patch-rules.js';
import { documentUnder, isSame } from './patch-targets.js';
import type { NewRecord } from './update-log.js';

/**
 * Operations at `-`, which append to a list. They are not idempotent: every client must apply them
 * to the same document exactly once. If the log has that document inline, it links the patch to it,
 * and clients that come later get the result. A document that is fetched from a URL may contain the
 * element already, which nothing can detect.
 */

/** Why a record cannot be appended. */
export interface AppendProblem {
  /** Of the entry. */
  readonly index: number;
  readonly msg: string;
}

/** A cheap test first: without `/-`, also written as escapes, no path ends in `-`. */
const MAY_APPEND = /\/-|\\u/;

const REMEDY =
  'publish the document with inline data first, retained and on the same topics, or use the path of a member or an index';

/** True if a record has an operation at `-`: then {@link appendProblem} decides. */
export function hasAppends({ entries }: NewRecord): boolean {
  return entries.some(isAppend);
}

function isAppend({ save_method, data }: PeerEntry): boolean {
  if (save_method !== 'PATCH' || !(data instanceof JsonText) || !MAY_APPEND.test(data.text)) return false;
  return patchParts(data)?.some(({ op }) => op.path.includes('-')) ?? false;
}

/**
 * Why a record with operations at `-` cannot be appended to a log with these live items; undefined
 * if it can.
 */
export function appendProblem(record: NewRecord, live: LiveItems): AppendProblem | undefined {
  for (const [index, entry] of record.entries.entries()) {
    if (!isAppend(entry)) continue;
    const why =
      record.retain === false || typeof record.retain === 'number'
        ? 'an update that is not retained permanently does not become part of the document below it'
        : problemOf(record.entries, index, live);
    if (why !== undefined) return { index, msg: `has an operation at \`-\` (append): ${why}; ${REMEDY}` };
  }
  return undefined;
}

function problemOf(entries: readonly PeerEntry[], index: number, live: LiveItems): string | undefined {
  const item = newItem({
    place: [Number.MAX_SAFE_INTEGER, index],
    origin: 'update',
    entry: entries[index] as PeerEntry,
    row: undefined,
  });
  const before = entries.slice(0, index).map((entry, at) => ({ entry, at, path: parseDocPath(entry.dst_path) }));
  const own = before.findLast(({ entry, path }) => entry.save_method !== 'PATCH' && pathsOverlap(path, item.path));
  let document: { path: DocPath; text: JsonText } | undefined;
  if (own === undefined) {
    const found = documentUnder(live, item);
    const data = found && foldedOf(found).entry.data;
    if (found !== undefined && data instanceof JsonText) document = { path: found.path, text: data };
  } else if (fits(own.entry, item.topics) && own.entry.data instanceof JsonText && isAtOrBelow(item.path, own.path)) {
    document = { path: own.path, text: own.entry.data };
  }
  if (document === undefined) return 'the log does not hold the document below it with its data';
  const { path, text } = document;
  const between = before.filter((other) => other.at > (own?.at ?? -1) && pathsOverlap(other.path, path));
  const joins = ({ entry, path: at }: (typeof between)[number]): boolean =>
    entry.save_method === 'PATCH' &&
    patchParts(entry.data) !== undefined &&
    fits(entry, item.topics) &&
    isAtOrBelow(at, path);
  if (!between.every(joins)) return 'another entry of the update also writes to the document';
  let node: Node | undefined = leafOf(text.text);
  const above = path.length;
  for (const { entry, path: at } of between) node = applied(node, { above, below: at.slice(above) }, entry).node;
  return applied(node, { above, below: item.path.slice(above) }, item.entry).refused;
}

function fits({ topics }: PeerEntry, wanted: readonly string[]): boolean {
  return isSame([...new Set(topics)], wanted);
}

/**
 * The document after a patch, as in {@link patched}: a patch that does not apply changes nothing.
 */
function applied(
  node: Node | undefined,
  { above, below }: { above: number; below: DocPath },
  { data }: PeerEntry,
): { node: Node | undefined; refused?: string } {
  const ops = (patchParts(data) ?? []).map(({ op }) => op);
  try {
    return { node: patchedAt(node, below, ops, above) };
  } catch (error) {
    if (!(error instanceof PatchRefused)) throw error;
    return { node, refused: error.message };
  }
}
