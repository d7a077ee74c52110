import { createHash } from 'node:crypto';
import { type PeerEntry, sourceIdentity } from '../../wire/data.js';
import { type DocPath, parseDocPath } from '../../wire/doc-path.js';
import type { EntryState, FetchedContent } from './entry-state.js';
import type { Rank } from './layers.js';
import type { Placed } from './path-index.js';

/** One entry that this client knows of. Only `EntryTable` changes it. */
export interface KnownEntry extends Placed {
  /** Its place in the order: what the engine's layer has, once it is applied. */
  readonly rank: Rank;
  /** The place that a base entry takes when its source turns out to have something new; see {@link rank}. */
  readonly nextRank: Rank | undefined;
  readonly origin: 'base' | 'update';
  /** The name of the log that has it (`LogCursor.name`); undefined for OPAL servers. */
  readonly epoch: string | undefined;
  readonly entry: PeerEntry;
  /** The transaction that it counts for now. */
  readonly transaction: string;
  readonly state: EntryState;
  /** True for a base entry that the configuration does not list (any more). */
  readonly isUnlisted?: boolean;
  /** Hash and validators of the content that was fetched last. */
  readonly fetched: FetchedContent | undefined;
}

/** Identifies an entry when it is listed again: everything but credentials and topics. */
export function entryIdentity(entry: PeerEntry, path: DocPath): string {
  const parts = [entry.url, path, entry.save_method, ...sourceIdentity(entry.config), entry.data?.text ?? null];
  return createHash('sha256').update(JSON.stringify(parts)).digest('base64url');
}

/** The place of an entry in the document tree. */
export function entryPath(entry: PeerEntry): DocPath {
  return parseDocPath(entry.dst_path);
}

/** True when the entry replaces everything at and below its path. */
export function entryReplaces(entry: PeerEntry): boolean {
  return entry.save_method !== 'PATCH';
}

/**
 * True when the log has moved a base entry (design D18), as after `POST /data/refresh`: it counts from its new place, even where
 * its source has nothing new. Places of different logs do not compare.
 */
export function isMoved({ seq, origin }: PeerEntry, before: Rank, now: Rank): boolean {
  return seq !== undefined && origin !== 'update' && before.era === now.era && before.seq < now.seq;
}

/** True when the content of the entry comes from a source. */
export function isRead({ data, save_method: method }: PeerEntry): boolean {
  return (data ?? null) === null && method !== 'DELETE';
}

/** True when the source of the entry is read at an interval. */
export function isPeriodic({ entry }: KnownEntry): boolean {
  return isRead(entry) && (entry.periodic_update_interval ?? null) !== null;
}

/**
 * True when the entry is for a client with these topics. Entries of a scope carry `data:<topic>` while the client
 * subscribes to `<scope>:data:<topic>` (opal-protocol P9.3): both mean the same.
 */
export function concerns(entry: Pick<PeerEntry, 'topics'>, topics: ReadonlySet<string>): boolean {
  return entry.topics.some(
    (topic) => topics.has(topic) || (topic.startsWith('data:') && [...topics].some((own) => own.endsWith(`:${topic}`))),
  );
}
