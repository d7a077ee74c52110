import type { Permitted } from '../../auth/caller.js';
import type { Refusal } from '../changes/change-times.js';
import type { Memories } from '../changes/find-change.js';
import {
  commitHashes,
  commitStanding,
  firstStage,
  isOfStart,
  permittedPart,
  rememberedOf,
} from '../changes/trace-parts.js';
import { byOurClock, type Clocked } from '../log/log-clock.js';
import type { AuditRecord } from '../log/update-log.js';
import type { CommitFacts } from '../policy/source/commit-facts.js';

/** A data update as a caller may see it, without its contents. */
export interface DataFacts {
  readonly kind: 'data';
  readonly key: number;
  readonly updateId: string;
  readonly atMs: number;
  readonly publisher: string | null;
  readonly reason: string | null;
  readonly topics: ReadonlySet<string>;
  /** The first of them. */
  readonly paths: readonly string[];
  readonly size: number;
}

/** A policy commit. */
export interface PolicyChange {
  readonly kind: 'policy';
  readonly key: string;
  readonly atMs: number;
  readonly state: 'served' | 'replaced' | 'found' | 'refused';
  readonly error: Refusal | undefined;
  /** The first of the topics that it was announced on. */
  readonly topics: readonly string[];
  readonly about: CommitFacts | undefined;
}

export type ChangeFacts = DataFacts | PolicyChange;

/** Most topics and paths that are named. */
const NAMED = 20;

/** Returns what a caller may see of an update of a log; undefined: nothing. */
export function dataFacts(log: Clocked, record: AuditRecord, permitted: Permitted): DataFacts | undefined {
  const part = permittedPart(record, permitted);
  if (part === undefined) return undefined;
  const { seq, id, timeMs, publisher, reason, entries } = part;
  return {
    kind: 'data',
    key: seq,
    updateId: id,
    atMs: byOurClock(log, timeMs),
    publisher,
    reason,
    topics: new Set(entries.flatMap(({ topics }) => topics)),
    paths: entries.slice(0, NAMED).map(({ dst_path }) => dst_path),
    size: entries.length,
  };
}

/** What the instances know of commits. */
export interface KnownCommits {
  readonly memories: Memories;
  /** The served commit and those before it, the newest first. */
  readonly served: readonly string[];
  /** What the repository says. */
  readonly about: ReadonlyMap<string, CommitFacts>;
}

/** The policy commits that are known, the newest first. */
export function policyFacts(known: KnownCommits): PolicyChange[] {
  const { memories, served, about } = known;
  return commitHashes(memories, served)
    .map((hash): PolicyChange => {
      const remembered = rememberedOf(memories, hash);
      const place = served.indexOf(hash);
      const { state, error } = commitStanding(remembered, { isHead: place === 0, wasServed: place > 0 });
      const facts = about.get(hash);
      // After a restart the served commit goes through the later stages again, and was found long
      // ago.
      const foundMs = firstStage(remembered, 'found') ?? firstStage(remembered, 'agreed');
      const stages = remembered.flatMap(({ memory }) => Object.values(memory.stages).flatMap((at) => at ?? []));
      const atMs = foundMs ?? facts?.timeMs ?? (stages.length === 0 ? 0 : Math.min(...stages));
      return {
        kind: 'policy',
        key: hash,
        atMs,
        state,
        error,
        topics: isOfStart(remembered) ? [] : (remembered.find(({ memory }) => memory.topics)?.memory.topics ?? []),
        about: facts,
      };
    })
    .sort(newestFirst);
}

/** The newest first; of one time the order is that of the keys. */
export function newestFirst(one: ChangeFacts, other: ChangeFacts): number {
  if (one.atMs !== other.atMs) return other.atMs - one.atMs;
  if (typeof one.key === 'number' && typeof other.key === 'number') return other.key - one.key;
  return String(one.key) < String(other.key) ? 1 : -1;
}
