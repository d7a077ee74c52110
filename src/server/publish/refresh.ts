import { isPermittedPath } from '../../auth/authorize.js';
import type { PeerEntry } from '../../wire/data.js';
import { type DocPath, isAtOrBelow, parseDocPath, pathsOverlap } from '../../wire/doc-path.js';
import { isPlain, patchParts } from '../log/patch-rules.js';
import type { FoldedEntry } from '../log/update-log.js';

/** What clients fetch again; undefined: any. */
export interface RefreshWanted {
  readonly topics: ReadonlySet<string> | undefined;
  readonly path: DocPath | undefined;
  /** Only documents at or below these paths; undefined: any. */
  readonly within?: readonly DocPath[] | undefined;
}

interface Placed {
  readonly folded: FoldedEntry;
  readonly path: DocPath;
}

/** Entries to publish as one update. */
export interface RefreshPart {
  readonly entries: readonly PeerEntry[];
  /** When they expire, in milliseconds since 1970; undefined: never. */
  readonly expiresMs: number | undefined;
}

/** Maximum entries of one update; more are published as several updates, in order. */
const ENTRIES_AT_ONCE = 1000;

/**
 * Returns the entries to publish so that every client concerned fetches again (`POST
 * /data/refresh`): the matching documents from a URL, followed by the entries of the fold that
 * change them, so that the result is the same state. Each keeps its expiry; the entries of one part
 * expire together. Empty: nothing matches.
 */
export function refreshParts(fold: readonly FoldedEntry[], wanted: RefreshWanted): RefreshPart[] {
  const chosen: Placed[] = [];
  /** Paths of the chosen documents: later entries that overlap one must be written again too. */
  const documents: DocPath[] = [];
  for (const folded of fold) {
    const path = parseDocPath(folded.entry.dst_path);
    const isFetched = folded.entry.save_method === 'PUT' && !folded.entry.data;
    const fits = isFetched && isWanted(folded.entry, path, wanted);
    if (!fits && !documents.some((document) => liesOver(folded, path, document))) continue;
    chosen.push({ folded, path });
    if (folded.entry.save_method !== 'PATCH') documents.push(path);
  }
  const parts: { entries: PeerEntry[]; expiresMs: number | undefined }[] = [];
  for (const { folded } of chosen) {
    const { expiresMs } = folded;
    const last = parts.at(-1);
    if (last !== undefined && last.expiresMs === expiresMs && last.entries.length < ENTRIES_AT_ONCE)
      last.entries.push(published(folded));
    else parts.push({ entries: [published(folded)], expiresMs });
  }
  return parts;
}

function published({ entry, origin }: FoldedEntry): PeerEntry {
  const { seq: _seq, origin: _origin, periodic_update_interval: _interval, ...rest } = entry;
  return origin === 'base' ? { ...rest, origin } : rest;
}

function isWanted(entry: PeerEntry, path: DocPath, { topics, path: wantedPath, within }: RefreshWanted): boolean {
  if (!isPermittedPath(path, within)) return false;
  if (topics !== undefined && !entry.topics.some((topic) => topics.has(topic))) return false;
  return wantedPath === undefined || pathsOverlap(path, wantedPath);
}

/**
 * Whether a later entry changes the document at a path. Leaves out a patch from above that cannot
 * be repeated: it may concern other documents too.
 */
function liesOver({ entry }: FoldedEntry, path: DocPath, document: DocPath): boolean {
  if (entry.save_method !== 'PATCH' || isAtOrBelow(path, document)) return isAtOrBelow(path, document);
  return pathsOverlap(path, document) && isPlain(patchParts(entry.data));
}
