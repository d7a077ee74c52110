import * as z from 'zod';
import { instant } from '../../wire/instant.js';
import {
  type ChangeMemory,
  type ClientTimes,
  COMMIT_STAGES,
  type TraceMemory,
  UPDATE_STAGES,
} from '../changes/change-times.js';

/** What an instance tells of its memory: the newest changes and, apart, times of clients. */

/** Most changes of each kind. */
const CHANGES = 50;
/** Times of clients in all: at least so many, and of so many changes that concern everyone. */
const TIMES_OF = { least: 1000, changes: 4 };
/** The order of the times of a client in {@link clientTimes}. */
const TIMES = ['heard', 'fetched', 'applied', 'refused', 'appliedSeen', 'refusedSeen', 'replaced'] as const;

/** The number of a client, and its times. */
const clientTimes = z.tuple([z.number().int().nonnegative()], instant.nullable());
const changeKey = z.union([z.number(), z.string()]);

const sharedChange = z.object({
  key: changeKey,
  stages: z.record(z.string(), instant),
  subscribers: z.number().optional(),
  id: z.string().optional(),
  /** Missing where it was announced to nobody. */
  topics: z.array(z.string()).optional(),
  error: z
    .object({
      ...{ message: z.string(), code: z.string().optional() },
      ...{ file: z.string().optional(), line: z.number().optional() },
    })
    .optional(),
  isShort: z.boolean().optional(),
});
type SharedChange = z.infer<typeof sharedChange>;

/** The changes that an instance remembers. */
export const sharedChanges = z.array(sharedChange);

/** When clients were how far with one change. */
export const sharedTimes = z.object({
  key: changeKey,
  /** What the times are relative to. */
  base: instant,
  isShort: z.boolean().optional(),
  clients: z.array(clientTimes),
});
export type SharedTimes = z.infer<typeof sharedTimes>;

/** What another instance remembers, by seq or hash. */
export type OtherMemory = ReadonlyMap<number | string, ChangeMemory<string>>;

/** A change that others are told of. */
export interface ToldChange {
  readonly key: number | string;
  readonly memory: ChangeMemory<string>;
  /** All times of its clients go, too: some alone do not tell how fast a fleet was. */
  readonly isTimed: boolean;
}

/** The newest changes, and the times of clients for as many of them as may be told. */
export function toldChanges({ updates, commits }: TraceMemory, clients: number): readonly ToldChange[] {
  const newest: (readonly [number | string, ChangeMemory<string>])[] = [
    ...commits.newest().slice(0, CHANGES),
    ...updates.newest().slice(0, CHANGES),
  ];
  const timed = new Set<number | string>();
  let left = Math.max(TIMES_OF.least, TIMES_OF.changes * clients);
  for (const [key, memory] of newest.toSorted(([, one], [, other]) => baseOf(other.stages) - baseOf(one.stages))) {
    const { size } = memory.clients;
    if (size === 0 || size > left) continue;
    left -= size;
    timed.add(key);
  }
  return newest.map(([key, memory]) => ({ key, memory, isTimed: timed.has(key) }));
}

export function printChange({ key, memory, isTimed }: ToldChange): SharedChange {
  const { stages, clients, subscribers, id, topics, error, isShort } = memory;
  const isCut = isShort === true || (clients.size > 0 && !isTimed);
  return {
    key,
    stages: Object.fromEntries(Object.entries(stages).flatMap(([name, at]) => (at === undefined ? [] : [[name, at]]))),
    ...(subscribers !== undefined && { subscribers }),
    ...(id !== undefined && { id }),
    ...(topics !== undefined && { topics: [...topics] }),
    ...(error !== undefined && {
      error: {
        message: error.message.slice(0, 500),
        ...(error.code !== undefined && { code: error.code }),
        ...(error.file !== undefined && { file: error.file.slice(0, 500) }),
        ...(error.line !== undefined && { line: error.line }),
      },
    }),
    ...(isCut && { isShort: true }),
  };
}

/** Prints the times of clients with a change. `numberOf`: undefined if it is told no more. */
export function printTimes(
  { key, memory: { stages, clients } }: ToldChange,
  numberOf: (client: string) => number | undefined,
): SharedTimes {
  const base = baseOf(stages);
  const shown = [...clients].flatMap(([client, times]): [number, ...(number | null)[]][] => {
    const number = numberOf(client);
    if (number === undefined) return [];
    return [[number, ...TIMES.map((name) => (times[name] === undefined ? null : Math.round(times[name] - base)))]];
  });
  return { key, base, ...(shown.length < clients.size && { isShort: true }), clients: shown };
}

/** Reads what {@link printChange} and {@link printTimes} wrote. */
export function readMemory(
  changes: readonly SharedChange[],
  times: readonly SharedTimes[],
  clientOf: (number: number) => string | undefined,
): OtherMemory {
  const known = new Set<string>([...UPDATE_STAGES, ...COMMIT_STAGES]);
  const timesOf = new Map(times.map((each) => [each.key, each]));
  return new Map(
    changes.map(({ key, stages, error, isShort, ...more }) => {
      const said = timesOf.get(key);
      const clients = new Map<string, ClientTimes>();
      for (const [number, ...row] of said?.clients ?? []) {
        const client = clientOf(number);
        if (client !== undefined) clients.set(client, namedTimes(row, said?.base ?? 0));
      }
      const isCut = isShort === true || said?.isShort === true || clients.size < (said?.clients.length ?? 0);
      const memory: ChangeMemory<string> = {
        ...more,
        stages: Object.fromEntries(Object.entries(stages).filter(([name]) => known.has(name))),
        ...(error !== undefined && { error: { ...error, code: error.code } }),
        ...(isCut && { isShort: true }),
        clients,
      };
      return [key, memory];
    }),
  );
}

function namedTimes(row: readonly (number | null)[], base: number): ClientTimes {
  return Object.fromEntries(TIMES.flatMap((name, at) => (row[at] == null ? [] : [[name, base + row[at]] as const])));
}

function baseOf(stages: Readonly<Record<string, number | undefined>>): number {
  const times = Object.values(stages).filter((at) => at !== undefined);
  return times.length === 0 ? 0 : Math.min(...times);
}
