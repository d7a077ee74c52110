import { JsonText } from '../../lib/json-text.js';
import type { PeerEntry } from '../../wire/data.js';
import { type DocPath, isAtOrBelow, parseDocPath, pathsOverlap } from '../../wire/doc-path.js';
import { leafOf, type Node, nodeAt, withValue } from '../../wire/json-node.js';
import { applyPatch, PatchRefused } from '../../wire/json-patch.js';
import { foldedOf, newItem } from './fold-item.js';
import type { LiveItems } from './live-items.js';
import { patchParts } from './patch-rules.js';
import { documentUnder, isSame } from './patch-targets.js';
import type { NewRecord } from './update-log.js';

/**
 * Operations at `-`, behind the end of a list. Each time they are applied they add an element, so everyone has to apply them to
 * the same document, once: where the log has that document itself it works them in, and those who come later get the result. A
 * document that is fetched from a URL may have the element already, and nobody could tell.
 */

/** Why a record cannot be appended. */
export interface AppendProblem {
  /** Of the entry. */
  readonly index: number;
  readonly msg: string;
}

/** In what has neither, nothing is at `-`; either character may be written as an escape. */
const MAY_APPEND = /\/-|\\u/;

const REMEDY =
  'publish the document with its data inline first, on the same topics and retained, or name the place: a member, or an index';

/** True where a record has an operation at `-`: then {@link appendProblem} has to be asked. */
export function hasAppends({ entries }: NewRecord): boolean {
  return entries.some(isAppend);
}

function isAppend({ save_method, data }: PeerEntry): boolean {
  if (save_method !== 'PATCH' || !(data instanceof JsonText) || !MAY_APPEND.test(data.text)) return false;
  return patchParts(data)?.some(({ op }) => op.path.includes('-')) ?? false;
}

/** Why a record with operations at `-` cannot be appended to a log that holds `live`; undefined: it can. */
export function appendProblem(record: NewRecord, live: LiveItems): AppendProblem | undefined {
  for (const [index, entry] of record.entries.entries()) {
    if (!isAppend(entry)) continue;
    const why =
      record.retain === false || typeof record.retain === 'number'
        ? 'an update that is not retained for ever does not become part of the document below it'
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
  if (document === undefined) return 'the document below it is none that the log holds with its data';
  const { path, text } = document;
  const between = before.filter((other) => other.at > (own?.at ?? -1) && pathsOverlap(other.path, path));
  const joins = ({ entry, path: at }: (typeof between)[number]): boolean =>
    entry.save_method === 'PATCH' &&
    patchParts(entry.data) !== undefined &&
    fits(entry, item.topics) &&
    isAtOrBelow(at, path);
  if (!between.every(joins)) return 'another entry of the update writes to the document, too';
  let node: Node | undefined = leafOf(text.text);
  for (const { entry, path: at } of between) node = applied(node, at.slice(path.length), entry).node;
  return applied(node, item.path.slice(path.length), item.entry).refused;
}

function fits({ topics }: PeerEntry, wanted: ReadonlySet<string>): boolean {
  return isSame(new Set(topics), wanted);
}

/** The document with a patch worked in, as {@link patched} does it: one that cannot be applied changes nothing. */
function applied(
  node: Node | undefined,
  below: DocPath,
  { data }: PeerEntry,
): { node: Node | undefined; refused?: string } {
  const ops = (patchParts(data) ?? []).map(({ op }) => op);
  try {
    return { node: withValue(node, below, applyPatch(nodeAt(node, below), ops)) };
  } catch (error) {
    if (!(error instanceof PatchRefused)) throw error;
    return { node, refused: error.message };
  }
}
