import { isPermittedPath } from '../../auth/authorize.js';
import type { Permitted } from '../../auth/caller.js';
import { parseDocPath } from '../../wire/doc-path.js';
import type { AuditRecord } from '../log/update-log.js';
import type { InstanceView } from '../peers/presence-text.js';
import { type ChangeMemory, type ClientTimes, mergedClients, type Refusal, type TraceMemory } from './change-times.js';
import type { Memories } from './find-change.js';

/** What `GET /trace`, `GET /changes` and the stream of the fleet read from the memories. */

/** What one instance remembers of a change. */
export interface Remembered {
  readonly instance: string;
  readonly memory: ChangeMemory<string>;
}

/** The memory of this instance and of those that announced theirs. */
export function memoriesOf(
  { instance, memory }: { readonly instance: string; readonly memory: TraceMemory },
  views: readonly Pick<InstanceView, 'instance' | 'memory'>[],
): Memories {
  return [
    { instance, known: ownMemory(memory) },
    ...views.flatMap((view) => (view.memory === undefined ? [] : [{ instance: view.instance, known: view.memory }])),
  ];
}

function ownMemory({ updates, commits }: TraceMemory): Memories[number]['known'] {
  return {
    get: (key) => (typeof key === 'number' ? updates.get(key) : commits.get(key)),
    entries: () => [...updates.newest(), ...commits.newest()],
  };
}

/** What the instances remember of one change. */
export function rememberedOf(memories: Memories, key: number | string): Remembered[] {
  return memories.flatMap(({ instance, known }) => {
    const memory = known.get(key);
    return memory === undefined ? [] : [{ instance, memory }];
  });
}

/** The times of clients at all instances. */
export function timesOf(memories: readonly Remembered[]): ReadonlyMap<string, ClientTimes> {
  return mergedClients(memories.map(({ memory }) => memory));
}

/** When the first instance reached a stage; undefined: none did, or it is not known. */
export function firstStage(memories: readonly Remembered[], stage: string): number | undefined {
  const times = memories.flatMap(({ memory }) => memory.stages[stage] ?? []);
  return times.length === 0 ? undefined : Math.min(...times);
}

/** Whether the server started with this commit: then nobody knows when it really came. */
export function isOfStart(memories: readonly Remembered[]): boolean {
  return memories.length > 0 && !['found', 'agreed'].some((stage) => firstStage(memories, stage) !== undefined);
}

/** The hashes of all commits that the instances know. `served`: newest first. */
export function commitHashes(memories: Memories, served: readonly string[]): string[] {
  const known = new Set(served);
  for (const memory of memories) {
    for (const [key] of memory.known.entries()) if (typeof key === 'string') known.add(key);
  }
  return [...known];
}

/** How the server stands to a commit. `wasServed`: by the log, which outlives a restart. */
export function commitStanding(
  memories: readonly Remembered[],
  { isHead, wasServed }: { readonly isHead: boolean; readonly wasServed: boolean },
): { state: 'served' | 'replaced' | 'found' | 'refused'; error: Refusal | undefined } {
  const isServed = isHead || firstStage(memories, 'served') !== undefined;
  const error = memories.find(({ memory }) => memory.error !== undefined)?.memory.error;
  if (isHead) return { state: 'served', error };
  if (isServed || (wasServed && error === undefined)) return { state: 'replaced', error };
  return { state: error === undefined ? 'found' : 'refused', error };
}

/** The part of an update that a caller may see; undefined: none of it. */
export function permittedPart<R extends Pick<AuditRecord, 'entries'>>(
  record: R,
  { permittedTopics, permittedPaths }: Permitted,
): R | undefined {
  const entries = record.entries
    .filter(({ dst_path }) => permittedPaths === undefined || isPermittedPath(parseDocPath(dst_path), permittedPaths))
    .map((entry) => ({ ...entry, topics: entry.topics.filter((topic) => permittedTopics?.has(topic) ?? true) }))
    .filter(({ topics }) => topics.length > 0);
  return entries.length === 0 ? undefined : { ...record, entries };
}
